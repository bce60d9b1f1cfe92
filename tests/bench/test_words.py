"""Questions about words: cosines and sums by hand, vectors against the encoder's own, and cells from data to record."""

import json

import numpy as np
import pytest

from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.asking import Asked
from ptmbench.bench.adapt.words import network as words
from ptmbench.bench.engine import networks
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row, cells_of
from ptmbench.bench.scoring.rescore import _restored
from ptmbench.bench.scoring.score_files import score
from ptmbench.leaderboard import record
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form, Target
from ptmbench.tasks.task import Example

TEXT = "king queen man woman apple kings and apples sing"
TOKENIZER = Tokenizer.train("wordpiece", [TEXT], 60)
SHAPE = Size(layers=2, width=32, heads=2, inner=64, length=48)
SETTINGS = adaptation_settings.defaults(Form.SIMILARITY, "words")
NAMES = ["king", "queen", "man", "woman", "apple"]
VECTORS = np.array([[0.6, 0.8, 0], [-0.6, 0.8, 0], [1, 0, 0], [-1, 0, 0], [0, 0, 1]], np.float32)


def asked(*inputs, right=None):
    gold = Target(right, dict.fromkeys(NAMES, ""), set(inputs)) if right else 0.0
    return Example(id=" ".join(inputs), inputs=inputs, gold=gold)


def test_similarity_is_the_cosine():
    found = words.predictions(Form.SIMILARITY, [asked("king", "queen"), asked("man", "woman")], NAMES, VECTORS)
    assert found == pytest.approx([0.64 - 0.36, -1.0])


def test_an_analogy_is_answered_by_sums_without_its_own_words():
    """king - man + woman = (-1.4, 0.8, 0): of those that are left queen is nearest with 1.48, apple has 0."""
    right, wrong = (
        words.predictions(Form.ANALOGY, [asked("man", "king", "woman", right=name)], NAMES, VECTORS)[0]
        for name in ("queen", "apple")
    )
    assert (float(right), right.best) == (1.0, "queen")
    assert (float(wrong), wrong.best) == (2.0, "queen")
    # man - man + apple = apple: a question's own word comes first, and does not count.
    own = words.predictions(Form.ANALOGY, [asked("man", "man", "apple", right="king")], NAMES, VECTORS)[0]
    assert own.best != "apple"


@pytest.mark.parametrize(("name", "layers"), [("bert", ""), ("bert", "top"), ("bert", "all"), ("word2vec", "top")])
def test_a_vector_is_the_mean_of_the_words_pieces(name, layers):
    """Whatever stands in the same batch; from the encoder's layers, row by row."""
    import tensorflow as tf

    network = networks.build(name, SHAPE, TOKENIZER, 0)
    network.encoder.dropout = 0.0
    chosen = ["king", "kings", "queen", "☃"]
    rows = words.rows(TOKENIZER, SETTINGS, chosen)
    assert rows[0].count > 1 and rows[3].count == 1  # [UNK]
    settings = adaptation_settings.changed(SETTINGS, {"layers": layers} if layers else {})
    found = words.vectors(network, settings, rows)
    for row, vector in zip(rows, found, strict=True):
        batch = {"tokens": tf.constant([row.tokens]), "segments": tf.constant([row.segments])}
        states = network.encoder(batch).layers
        states = {"": states[:1], "top": states[-1:], "all": states}[layers]
        inside = np.mean([state[0, row.first : row.first + row.count] for state in states], axis=(0, 1))
        assert np.allclose(vector, inside / np.linalg.norm(inside), atol=1e-5)


@pytest.mark.parametrize(("layers", "above"), [("", False), ("embedding", False), ("top", True), ("all", True)])
def test_what_is_not_read_is_not_counted(layers, above):
    """Two pairs of three words, each cosine of 32 products."""
    from ptmbench import models

    network, module = networks.build("bert", SHAPE, TOKENIZER, 0), models.load("bert")
    settings = adaptation_settings.changed(SETTINGS, {"layers": layers} if layers else {})
    _, flops = words.respond(
        Asked(
            network=network, module=module, shape=SHAPE, tokenizer=TOKENIZER, task=load("word_similarity"),
            settings=settings, train=[], report=[asked("king", "queen"), asked("king", "man")], seed=0,
        )
    )  # fmt: skip
    lengths = [len(row.tokens) for row in words.rows(TOKENIZER, settings, ["king", "queen", "man"])]
    described = module.describe(SHAPE, TOKENIZER.vocabulary)
    assert flops == 2 * 2 * 32 + above * sum(map(described.encoder_flops, lengths))


def test_a_plan_asks_once():
    planned = cells_of(
        [Row.parse("bert", "tiny"), Row.parse("random-bert", "tiny")], [load("word_analogy")], adaptations=["finetune"],
        seeds=[0, 1], data_sha256={"word_analogy": "x"}, pretraining_of={}, tokenizer="x",
    )  # fmt: skip
    assert [(c.row.name, c.adaptation, c.seed) for c in planned] == [
        ("bert", "words", 0), ("random-bert", "words", 0), ("random-bert", "words", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("task", ["word_similarity", "word_analogy"])
def test_cells_lead_from_data_to_a_sealed_record(task, tmp_path):
    for folder in ("wordsim353", "google_analogy"):
        (tmp_path / "data" / folder).mkdir(parents=True)
    (tmp_path / "data/wordsim353/combined.csv").write_text("king,queen,9\nking,apple,1\nman,woman,8\n")
    (tmp_path / "data/google_analogy/questions-words.txt").write_text(
        ": x\nking queen man woman\nman woman king queen\n"
    )
    sheet = load(task)
    settings = adaptation_settings.recorded(adaptation_settings.defaults(sheet.form, "words"))
    cell = Cell(
        row=Row(name="random-word2vec", kind="random", model="word2vec", size="tiny"), task=task, task_version=1,
        form=sheet.form, data_sha256="x", adaptation="words", settings=settings, seed=0, tokenizer="x",
    )  # fmt: skip
    context = Context(data=tmp_path / "data", out=tmp_path, shape=SHAPE, tokenizer=TOKENIZER, source={"name": "x"})
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    found = record.read(record.write(context.out, result))
    assert found.task["examples"] == (3 if task == "word_similarity" else 2)
    assert found.cost["flops"] == 0 and found.cost["flops_evaluate"] > 0
    assert -100 <= found.headline["value"] <= 100


def test_rows_of_a_record_become_targets_again():
    gold, _ = _restored(Form.ANALOGY, [{"gold": "Norway", "kind": "capital", "prediction": 1.0}])
    assert isinstance(gold[0], Target) and gold[0].kind == "capital"


def test_files_of_predictions_are_scored(tmp_path):
    (tmp_path / "combined.csv").write_text("Word 1,Word 2,Human (mean)\nking,queen,9\nking,apple,1\nman,woman,8\n")
    (tmp_path / "p.tsv").write_text("index\tprediction\n0\t0.9\n1\t0.1\n2\t0.5\n")
    assert score("word_similarity", tmp_path / "combined.csv", tmp_path / "p.tsv")["headline"] == pytest.approx(100.0)
    (tmp_path / "google_analogy").mkdir()
    (tmp_path / "google_analogy/questions-words.txt").write_text(": x\na b c d\nc d a b\ne f g h\n")
    lists = {"2": ["a", "d"], "3": [], "4": ["b", "h"]}  # a is a word of its question
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"id": i, "ranked": r}) + "\n" for i, r in lists.items()))
    found = score("word_analogy", tmp_path / "google_analogy", tmp_path / "p.jsonl")
    assert found["headline"] == pytest.approx(100 / 3) and found["examples"] == 3
    assert found["mr"] == pytest.approx((1 + 3 + 2) / 3)  # five candidates share the middle of their places
