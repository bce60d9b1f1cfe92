"""The catalogue that the board shows: complete for every model, plain values, and true to the files."""

import json
from pathlib import Path

import pytest

from ptmbench import models
from ptmbench.bench import environment
from ptmbench.bench.runs.catalogue import catalogue
from ptmbench.leaderboard.page import lessons
from ptmbench.models import story, taxonomy


@pytest.fixture(scope="module")
def found():
    return catalogue()


def test_every_model_is_told_in_plain_values(found):
    assert json.loads(json.dumps(found)) == found
    assert set(found["models"]) == set(models.names())
    for name, entry in found["models"].items():
        for part in ("summary", "story", "formula", "nearest", "paper", "url", "sizes", "relatives", "objectives"):
            assert entry[part], f"{name} has no {part}"
        assert (environment.ROOT / entry["code"]).is_file()
        assert entry["objectives"] == [one for one in entry["objectives"] if found["objectives"][one]["formula"]]
        assert name not in {one["name"] for one in entry["relatives"]}


def test_relatives_say_what_differs(found):
    roberta = {one["name"]: one for one in found["models"]["roberta"]["relatives"]}
    assert roberta["bert"]["relation"] == "nearest"
    assert roberta["spanbert"]["difference"] == "objective mlm + sbo instead of mlm"
    bert = {one["name"]: one for one in found["models"]["bert"]["relatives"]}
    assert bert["roberta"]["relation"] == "descendant" and "NSP" in bert["roberta"]["difference"]


def test_sizes_count_what_the_networks_have(found):
    sizes = {one["name"]: one for one in found["models"]["bert"]["sizes"]}
    assert sizes["tiny"]["layers"] == 2 and sizes["tiny"]["embedding"] < sizes["tiny"]["parameters"] < 2_000_000
    assert 80e6 < sizes["base"]["parameters"] < 110e6  # 110M with 30,000 pieces, here 8,000


def test_the_figure_knows_models_adaptations_and_transforms(found):
    def below(term):
        yield term
        for part in term["parts"]:
            yield from below(part)

    terms = {one["title"]: one for one in below(found["taxonomy"])}
    assert len(terms) == 1 + len(list(taxonomy.terms()))
    systems = {one["name"]: one for term in terms.values() for one in term["systems"]}
    assert systems["ERNIE(THU)"]["models"] == ["ernie_thu"] and systems["FastBERT"]["method"] == "fastbert"
    assert systems["Extra adaptor"]["method"] == "adapters" and not systems["Shared LSTM"]["models"]
    assert "prune" in terms["Pruning"]["methods"] and "mpnet" in terms["PLM"]["others"]


def test_the_board_takes_the_catalogue(found):
    links = {name: f"m{i}" for i, name in enumerate(found["models"])}
    shown = lessons.figure(found, links, ["bert"])
    assert 20 < shown["built"] <= shown["systems"]
    for name in found["models"]:
        assert lessons.lesson(name, found, links)["relatives"]


def test_a_story_is_taken_apart(tmp_path):
    path = Path(tmp_path / "new.py")
    path.write_text(
        '"""New: a model.\n\nDoe (2020). A Paper. ACL.\nTaxonomy: contextual.\n\nOne\nidea.\n\n    L = 1\n      + 2\n\n'
        'It differs. Nearest relative: BERT (`bert`), and `nothing`.\n"""\n'
    )
    told = story.read(path)
    assert told.summary == "New: a model." and told.text == ("One idea.", "It differs.")
    assert told.formula == "L = 1\n  + 2" and told.relatives(models.names()) == ("bert",)


def test_a_broken_model_is_left_out(monkeypatch):
    whole = models.load

    def load(name):
        if name == "gpt":
            raise models.BrokenModel("models/gpt.py cannot be run.")
        return whole(name)

    monkeypatch.setattr(models, "load", load)
    told = catalogue()
    assert "gpt" not in told["models"] and "bert" in told["models"]
    assert all(one["name"] != "gpt" for entry in told["models"].values() for one in entry["relatives"])
