"""Tests of the file of every model, without building a network."""

import inspect
import re
from pathlib import Path

import pytest

from ptmbench import models, tasks
from ptmbench.models.card import Card
from ptmbench.tasks.metrics.bleu import bleu
from ptmbench.tasks.metrics.perplexity import perplexity
from tests.models.networks import VOCABULARY, every_model

OF_EVERY_MODEL = ("test_cards.py", "test_contract.py")
NO_TASK_HERE = {
    "glue": lambda gold, predictions: {"average": 0.0},
    "wikitext103": perplexity,
    "wmt14_en_de": bleu,
    "wmt14_en_fr": bleu,
    "wmt16_en_de": bleu,
}
"""Benchmarks in papers for which the suite has no task, with the metric of such a task."""


@every_model
def test_module_docstring_is_complete(name):
    module = models.load(name)
    docstring = inspect.getdoc(module)
    assert docstring, f"{models.paths()[name]} has no opening docstring"
    assert len(inspect.getsource(module).splitlines()) <= 120
    for part in (str(module.CARD.year), "Taxonomy", "earest relative"):
        assert part in docstring, f"{models.paths()[name]}: the opening docstring lacks '{part}'"


@every_model
def test_card_is_complete(name):
    card = models.load(name).CARD
    assert isinstance(card, Card)
    for field in ("title", "citation", "loss", "tokenizer", "corpus", "parameters", "reference", "paper", "url"):
        assert getattr(card, field), f"{models.paths()[name]}: the card's {field} is empty"
    assert card.objectives
    assert card.tokenizer in ("wordpiece", "bpe", "unigram", "word", "character")
    assert set(card.objectives) <= set(models.objective_names()), f"{models.paths()[name]} names an unknown objective"


@every_model
def test_paper_of_the_card_is_cited_in_the_docstring(name):
    module = models.load(name)
    docstring = " ".join(inspect.getdoc(module).split())
    assert (
        f"({module.CARD.year}). {module.CARD.paper}." in docstring
        or f"({module.CARD.year}), {module.CARD.paper}" in docstring
    )
    assert re.fullmatch(r"https://[a-z.]+/[\w/.~-]+", module.CARD.url)


@every_model
def test_reference_of_the_card_is_used_in_the_tests(name):
    """Unless the card says that no test compares the network: "none"."""
    reference, tests = models.load(name).CARD.reference, Path(__file__).parent
    if reference == "none":
        pytest.skip(f"no test compares {name} with a reference, as its card says")
    sources = "".join(file.read_text() for file in (tests / "references").glob("test_*.py"))
    if "transformers' " in reference:
        classes = re.findall(r"\b[A-Z][A-Za-z0-9]+(?:For|LM)[A-Z][A-Za-z]+", reference)
        assert classes or name == "unilm_v2"
        assert all(f"transformers.{one}" in sources for one in classes), reference
        assert f'"{name}"' in sources or re.search(rf"\b{name}\b", sources), (
            f"tests/models/references never names {name}"
        )
    elif commit := re.search(r"the authors' (\w+) \(([\w-]+/[\w-]+ [0-9a-f]{7})\)", reference):
        assert all(part in sources for part in commit.groups()), f"tests/models/references never names {commit[0]}"
    else:
        assert "NumPy" in reference or "term by term" in reference, (
            f"{models.paths()[name]}: the card's reference names no class of transformers, no commit of the authors' "
            'code and no equations in NumPy. Where no test compares the network, it is "none".'
        )
        own = (file.read_text() for file in tests.rglob("test_*.py") if file.name not in OF_EVERY_MODEL)
        assert any(re.search(rf"\b{name}\b", text) for text in own), f"tests/models has no test of {name}'s equations"
    for package in re.findall(r"gensim(?='s)|mittens(?=')|fasttext(?=:)", reference):
        assert f'importorskip("{package}' in sources, f"nothing in tests/models/references needs {package}"
        assert f'"{name}"' in sources, f"tests/models/references never names {name}"
    for package, one in re.findall(r"\b(fastai|flair|AllenNLP)(?: \d)?'s (\w+)", reference):
        assert package.lower() in sources and re.search(rf"\b{one}\b", sources), (
            f"tests/models/references never names {one}"
        )


@every_model
def test_reported_scores_have_the_names_of_the_suite(name):
    """The board matches a paper's score with the measured one by the names of task and metric. With another name
    (squad2 for squad20) it would silently drop the score."""
    scores = models.load(name).CARD.reported
    for score in scores:
        where = f"{models.paths()[name]} reports {score.task} {score.metric} {score.value}"
        assert score.task in {*tasks.names(), *NO_TASK_HERE}, f"{where}: neither a task nor in NO_TASK_HERE"
        metrics = tasks.load(score.task).metrics if score.task in tasks.names() else (NO_TASK_HERE[score.task],)
        known = {metric for values in metrics for metric in values([], [])}
        assert score.metric in known, f"{where}: the metrics of {score.task} are {', '.join(sorted(known))}"
        assert score.split in ("dev", "test"), f"{where}, on {score.split}"
        assert 0 < score.value < 100 or score.metric == "perplexity", f"{where}: scores are in percent"
        assert re.search(r"\(\d{4}\), ", score.source), f"{where}: '{score.source}' lacks the paper's year or the table"
    assert len({(score.task, score.metric, score.split, score.source) for score in scores}) == len(scores)


@every_model
def test_parameters_grow_with_the_size(name):
    module = models.load(name)
    assert {"tiny", "mini", "small", "base"} <= set(module.SIZES)
    shapes = [module.SIZES[size] for size in ("tiny", "mini", "small", "base")]
    counts = [module.describe(shape, VOCABULARY).parameters().total for shape in shapes]
    assert counts == sorted(counts)


@every_model
def test_flops_grow_with_the_size(name):
    module = models.load(name)
    shapes = [module.SIZES[size] for size in ("tiny", "mini", "base")]
    per_row = [module.describe(shape, VOCABULARY).training_flops(64) for shape in shapes]
    assert 0 < per_row[0] < per_row[1] < per_row[2]
