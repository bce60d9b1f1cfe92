"""The catalogue that the board shows: complete for every model, JSON values only, and consistent with the files."""

import json
from pathlib import Path

import pytest

from ptmbench import models
from ptmbench.bench import environment
from ptmbench.bench.runs.catalogue import catalogue
from ptmbench.leaderboard.page import lessons
from ptmbench.models import story, taxonomy


@pytest.fixture(scope="module")
def contents():
    return catalogue()


def test_every_model_has_a_complete_entry_of_json_values(contents):
    assert json.loads(json.dumps(contents)) == contents
    assert set(contents["models"]) == set(models.names())
    for name, entry in contents["models"].items():
        for part in ("summary", "story", "formula", "nearest", "paper", "url", "sizes", "relatives", "objectives"):
            assert entry[part], f"{name} has no {part}"
        assert (environment.ROOT / entry["code"]).is_file()
        assert entry["objectives"] == [one for one in entry["objectives"] if contents["objectives"][one]["formula"]]
        assert name not in {one["name"] for one in entry["relatives"]}


def test_relatives_state_their_relation_and_difference(contents):
    roberta = {one["name"]: one for one in contents["models"]["roberta"]["relatives"]}
    assert roberta["bert"]["relation"] == "nearest"
    assert roberta["spanbert"]["difference"] == "objective mlm + sbo instead of mlm"
    bert = {one["name"]: one for one in contents["models"]["bert"]["relatives"]}
    assert bert["roberta"]["relation"] == "descendant" and "NSP" in bert["roberta"]["difference"]


def test_sizes_state_the_parameters_of_the_networks(contents):
    sizes = {one["name"]: one for one in contents["models"]["bert"]["sizes"]}
    assert sizes["tiny"]["layers"] == 2 and sizes["tiny"]["embedding"] < sizes["tiny"]["parameters"] < 2_000_000
    assert 80e6 < sizes["base"]["parameters"] < 110e6  # 110M with 30,000 pieces, here 8,000


def test_the_taxonomy_lists_models_adaptations_and_transforms(contents):
    def subterms(term):
        yield term
        for part in term["parts"]:
            yield from subterms(part)

    terms = {one["title"]: one for one in subterms(contents["taxonomy"])}
    assert len(terms) == 1 + len(list(taxonomy.terms()))
    systems = {one["name"]: one for term in terms.values() for one in term["systems"]}
    assert systems["ERNIE(THU)"]["models"] == ["ernie_thu"] and systems["FastBERT"]["method"] == "fastbert"
    assert systems["Extra adaptor"]["method"] == "adapters" and not systems["Shared LSTM"]["models"]
    assert "prune" in terms["Pruning"]["methods"] and "mpnet" in terms["PLM"]["others"]


def test_the_board_accepts_the_catalogue(contents):
    links = {name: f"m{i}" for i, name in enumerate(contents["models"])}
    shown = lessons.figure(contents, links, ["bert"])
    assert 20 < shown["built"] <= shown["systems"]
    for name in contents["models"]:
        assert lessons.lesson(name, contents, links)["relatives"]


def test_the_docstring_of_a_model_is_split_into_its_parts(tmp_path):
    path = Path(tmp_path / "new.py")
    path.write_text(
        '"""New: a model.\n\nDoe (2020). A Paper. ACL.\nTaxonomy: contextual.\n\nOne\nidea.\n\n    L = 1\n      + 2\n\n'
        'It differs. Nearest relative: BERT (`bert`), and `nothing`.\n"""\n'
    )
    result = story.read(path)
    assert result.summary == "New: a model." and result.text == ("One idea.", "It differs.")
    assert result.formula == "L = 1\n  + 2" and result.relatives(models.names()) == ("bert",)


def test_a_broken_model_is_left_out(monkeypatch):
    original_load = models.load

    def load(name):
        if name == "gpt":
            raise models.BrokenModel("models/gpt.py cannot be run.")
        return original_load(name)

    monkeypatch.setattr(models, "load", load)
    result = catalogue()
    assert "gpt" not in result["models"] and "bert" in result["models"]
    assert all(one["name"] != "gpt" for entry in result["models"].values() for one in entry["relatives"])
