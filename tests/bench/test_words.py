"""Word similarity and analogy: cosines and sums by hand, vectors against those of the encoder, and whole cells."""

import dataclasses
import json

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.asking import AnsweringInput
from ptmbench.bench.adapt.words import network as words
from ptmbench.bench.engine import networks
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.combinations import Combinations
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.bench.scoring.rescore import _restored
from ptmbench.bench.scoring.score_files import score
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.channels import TEXT as TEXTS
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form, Target
from ptmbench.tasks.task import Example, Mention

TEXT = "king queen man woman apple kings and apples sing"
TOKENIZER = Tokenizer.train("wordpiece", [TEXT], 60)
SHAPE = Size(layers=2, width=32, heads=2, inner=64, length=48)
SETTINGS = adaptation_settings.defaults(Form.SIMILARITY, "words")
NAMES = ["king", "queen", "man", "woman", "apple"]
VECTORS = np.array([[0.6, 0.8, 0], [-0.6, 0.8, 0], [1, 0, 0], [-1, 0, 0], [0, 0, 1]], np.float32)


def question_of(*inputs, right=None):
    gold = Target(right, dict.fromkeys(NAMES, ""), set(inputs)) if right else 0.0
    return Example(id=" ".join(inputs), inputs=inputs, gold=gold)


def predicted(form, examples):
    places = words.Places([[NAMES.index(word) for word in one.inputs] for one in examples], range(len(NAMES)))
    return words.predictions(form, examples, places, VECTORS)


def test_similarity_is_the_cosine():
    found = predicted(Form.SIMILARITY, [question_of("king", "queen"), question_of("man", "woman")])
    assert found == pytest.approx([0.64 - 0.36, -1.0])


def test_analogies_use_vector_sums_and_exclude_the_words_of_the_question():
    """king - man + woman = (-1.4, 0.8, 0): of the remaining words, queen is nearest with 1.48, and apple has 0."""
    right, wrong = (
        predicted(Form.ANALOGY, [question_of("man", "king", "woman", right=name)])[0] for name in ("queen", "apple")
    )
    assert (float(right), right.best) == (1.0, "queen")
    assert (float(wrong), wrong.best) == (2.0, "queen")
    # man - man + apple = apple: a question's own word comes first, and does not count.
    own = predicted(Form.ANALOGY, [question_of("man", "man", "apple", right="king")])[0]
    assert own.best != "apple"


@pytest.mark.parametrize(("name", "layers"), [("bert", ""), ("bert", "top"), ("bert", "all"), ("word2vec", "top")])
def test_a_word_vector_is_the_mean_of_its_subword_vectors(name, layers):
    """It does not depend on the batch, and equals that of the encoder's layers, row by row."""
    import tensorflow as tf

    network = networks.build(name, SHAPE, TOKENIZER, 0)
    network.encoder.dropout = 0.0
    pairs = [question_of("king", "kings"), question_of("queen", "☃"), question_of("king", "☃")]
    rows, places = words.rows(TOKENIZER, SETTINGS, Form.SIMILARITY, pairs, TEXTS)
    assert places == ([[0, 1], [2, 3], [0, 3]], [])
    assert rows[0].arrays["inside"].sum() > 1 and rows[3].arrays["inside"].sum() == 1  # [UNK]
    settings = adaptation_settings.changed(SETTINGS, {"layers": layers} if layers else {})
    found = words.vectors(network, settings, rows)
    for row, vector in zip(rows, found, strict=True):
        batch = {name: tf.constant(row.arrays[name][None]) for name in TEXTS}
        states = network.encoder(batch).layers
        states = {"": states[:1], "top": states[-1:], "all": states}[layers]
        inside = np.mean([state[0][row.arrays["inside"] == 1] for state in states], axis=(0, 1))
        assert np.allclose(vector, inside / np.linalg.norm(inside), atol=1e-5)


def test_a_word_in_two_languages_has_two_rows():
    """The example gives the languages of its inputs, and the last one to the candidates of a question.

    A model that does not read languages has one row for both.
    """
    knowing = TOKENIZER.with_symbols({"languages": ["de", "en"], "entities": ["Q1"]}, {"entities": 4})

    def spoken(*inputs, right=None, **channels):
        return dataclasses.replace(question_of(*inputs, right=right), channels=channels)

    given_channels = {"languages": ("en", "de"), "entities": (Mention(1, 0, 4, "Q1"),)}
    pairs = [
        spoken("king", "king", **given_channels),
        spoken("king", "queen"),
        spoken("king", "queen", languages=("en", "en")),
    ]
    rows, places = words.rows(knowing, SETTINGS, Form.SIMILARITY, pairs, (*TEXTS, "languages", "entities"))
    assert places.inputs == [[0, 1], [2, 3], [0, 4]]
    languages = [sorted(set(row.arrays["languages"].tolist())) for row in rows]
    assert languages == [[knowing.numbers["languages"][name]] if name else [0] for name in ("en", "de", "", "", "en")]
    inside = rows[1].arrays["inside"] == 1
    assert rows[1].arrays["entities"][inside][0] == knowing.numbers["entities"]["Q1"]
    assert not rows[1].arrays["entities"][~inside].any() and not rows[0].arrays["entities"].any()
    rows, places = words.rows(knowing, SETTINGS, Form.SIMILARITY, pairs, TEXTS)
    assert places.inputs == [[0, 0], [0, 1], [0, 1]] and not {"languages", "entities"} & set(rows[0].arrays)

    question = spoken("man", "king", "woman", right="queen", languages=("en", "en", "en", "de"))
    rows, places = words.rows(knowing, SETTINGS, Form.ANALOGY, [question], (*TEXTS, "languages"))
    assert places == ([[5, 6, 7]], [0, 1, 2, 3, 4])
    assert all(np.all(row.arrays["languages"] == 1 + (number >= 5)) for number, row in enumerate(rows))


def test_vectors_of_a_model_that_reads_languages_depend_on_the_language():
    knowing = TOKENIZER.with_symbols({"languages": ["de", "en"]}, {})
    network = networks.build("xlm", SHAPE, knowing, 0)
    network.encoder.dropout = 0.0
    one, other = (
        dataclasses.replace(question_of("king", "queen"), channels={"languages": (n, n)}) for n in ("de", "en")
    )
    for layers in ("embedding", "top"):
        settings = adaptation_settings.changed(SETTINGS, {"layers": layers})
        given = {"tokenizer": knowing, "settings": settings, "task": load("word_similarity")}
        asking = AnsweringInput(network=network, module=models.load("xlm"), shape=SHAPE, train=[], report=[one, other],
                                seed=0, **given)  # fmt: skip
        (german, english), _ = words.respond(asking)
        assert abs(german - english) > 1e-6


@pytest.mark.parametrize(("layers", "above"), [("", False), ("embedding", False), ("top", True), ("all", True)])
def test_flops_count_only_the_layers_that_are_read(layers, above):
    """Two pairs of three words, each cosine of 32 products."""
    network, module = networks.build("bert", SHAPE, TOKENIZER, 0), models.load("bert")
    settings = adaptation_settings.changed(SETTINGS, {"layers": layers} if layers else {})
    _, flops = words.respond(
        AnsweringInput(
            network=network, module=module, shape=SHAPE, tokenizer=TOKENIZER, task=load("word_similarity"),
            settings=settings, train=[], report=[question_of("king", "queen"), question_of("king", "man")], seed=0,
        )
    )  # fmt: skip
    rows, _ = words.rows(
        TOKENIZER, settings, Form.SIMILARITY, [question_of("king", "queen"), question_of("man", "man")], TEXTS
    )
    lengths = [len(row.arrays["tokens"]) for row in rows]
    assert len(lengths) == 3
    described = module.describe(SHAPE, TOKENIZER.vocabulary)
    assert flops == 2 * 2 * 32 + above * sum(map(described.encoder_flops, lengths))


def test_pretrained_rows_are_planned_once_and_random_rows_for_each_seed():
    rows = [Row.parse("bert", "tiny"), Row.parse("random-bert", "tiny")]
    planned = Combinations(
        adaptations=["finetune"], seeds=[0, 1], data_sha256={"word_analogy": "x"}, pretraining_of={}, tokenizer="x"
    ).cells(rows, [load("word_analogy")])
    assert [(c.row.name, c.adaptation, c.seed) for c in planned] == [
        ("bert", "words", 0), ("random-bert", "words", 0), ("random-bert", "words", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("task", ["word_similarity", "word_analogy"])
def test_cells_run_from_data_to_a_sealed_record(task, tmp_path):
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


def test_targets_are_restored_from_the_rows_of_a_record():
    gold, _ = _restored(Form.ANALOGY, [{"gold": "Norway", "kind": "capital", "prediction": 1.0}])
    assert isinstance(gold[0], Target) and gold[0].kind == "capital"


def test_prediction_files_are_scored(tmp_path):
    (tmp_path / "combined.csv").write_text("Word 1,Word 2,Human (mean)\nking,queen,9\nking,apple,1\nman,woman,8\n")
    (tmp_path / "p.tsv").write_text("index\tprediction\n0\t0.9\n1\t0.1\n2\t0.5\n")
    assert score("word_similarity", tmp_path / "combined.csv", tmp_path / "p.tsv")["headline"] == pytest.approx(100.0)
    (tmp_path / "google_analogy").mkdir()
    (tmp_path / "google_analogy/questions-words.txt").write_text(": x\na b c d\nc d a b\ne f g h\n")
    lists = {"2": ["a", "d"], "3": [], "4": ["b", "h"]}  # a is a word of its question
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"id": i, "ranked": r}) + "\n" for i, r in lists.items()))
    found = score("word_analogy", tmp_path / "google_analogy", tmp_path / "p.jsonl")
    assert found["headline"] == pytest.approx(100 / 3) and found["examples"] == 3
    assert found["mr"] == pytest.approx((1 + 3 + 2) / 3)  # five unlisted candidates share the mean of their ranks
