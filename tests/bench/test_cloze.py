"""Cloze probes: the rows of the network, the candidate words, the rank of the right one, and whole cells."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.cloze import network as cloze
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.engine import networks
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.combinations import Combinations
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import BLANK, Form, Target
from ptmbench.tasks.task import Example

TEXTS = ["Italy has Rome , Norway has Oslo and it is cold .", "Rome is old .", "the capital of Italy is Rome"] * 3
TOKENIZER = Tokenizer.train("word", TEXTS, 200)
SHAPE = Size(layers=1, width=32, heads=2, inner=64, length=32)
WORDS = {word: word for word in ("Oslo", "Rome", "cold", "Djamena", "Lima")}
"""The last two are not in the vocabulary."""


def make_example(text, gold="Rome", others=()):
    return Example(id="0", inputs=(text,), gold=Target(gold, WORDS, others, kind="P36"))


def pieces_around_blank(row):
    """Returns the pieces before the blank, and those from the blank on."""
    pieces = TOKENIZER.pieces(row.tokens)
    return " ".join(pieces[: row.place]), " ".join(pieces[row.place :])


def rows(*texts, causal=False, **changes):
    return cloze.rows(TOKENIZER, Settings(**changes), [make_example(text) for text in texts], causal)


@pytest.mark.parametrize(
    "text, both, left",
    [
        (f"Italy has {BLANK} .", ("[CLS] Italy has", "[MASK] . [SEP]"), "[CLS] Italy has"),
        (f"{BLANK} is old", ("[CLS]", "[MASK] is old [SEP]"), "[CLS]"),
        (f"it is {BLANK}", ("[CLS] it is", "[MASK] [SEP]"), "[CLS] it is"),
        (f"Italy has {BLANK}.", ("[CLS] Italy has", "[MASK] . [SEP]"), "[CLS] Italy has"),
    ],
)
def test_a_blank_is_a_mask_or_the_end_of_the_row(text, both, left):
    assert pieces_around_blank(rows(text)[0]) == both
    assert pieces_around_blank(rows(text, causal=True)[0]) == (left, "")


def test_long_texts_lose_the_tokens_that_are_farthest_from_the_blank():
    text = f"Italy has {BLANK} and Norway has Oslo and it is cold ."
    assert pieces_around_blank(rows(text, length=7)[0]) == ("[CLS] Italy has", "[MASK] and Norway [SEP]")
    text = f"it is cold and Norway has Oslo and Italy has {BLANK} ."
    assert pieces_around_blank(rows(text, length=6)[0]) == ("[CLS] Italy has", "[MASK] . [SEP]")
    assert pieces_around_blank(rows(text, length=4, causal=True)[0]) == ("[CLS] Italy has", "")


def test_only_words_of_one_known_token_are_candidates():
    found = cloze.spellings(TOKENIZER, ["Rome", "Djamena", "Rome Oslo", "cold"])
    assert [None if i is None else TOKENIZER.pieces([i]) for i in found] == [["Rome"], None, None, ["cold"]]


def ranks_of(values, *examples, **changes):
    """Returns ranks for a network that gives the piece p the score values[p] at every position, and 0 to the others."""
    table = np.zeros(TOKENIZER.vocabulary.size, np.float32)
    for word, value in values.items():
        table[TOKENIZER.encode([word])[0][0]] = value
    network = SimpleNamespace(fill=lambda batch: tf.tile(tf.constant(table)[None], [tf.shape(batch["places"])[0], 1]))
    probe_rows = cloze.rows(TOKENIZER, Settings(**changes), examples, False)
    return cloze.predictions(network, "x", TOKENIZER, Settings(batch=2, **changes), examples, probe_rows)


def test_ranks_follow_scores_and_unknown_words_come_last():
    text = f"Italy has {BLANK} ."
    examples = [
        make_example(text), make_example(f"it is {BLANK}", "Oslo"), make_example(text, "Oslo", others=("Rome",)),
        make_example(text, "Djamena"),
        make_example(text, "Lima", others=("Djamena", "cold")),
    ]  # fmt: skip
    found = ranks_of({"Rome": 2.0, "Oslo": 1.0, "cold": -1.0, "it": 9.0}, *examples)  # "it" is no candidate
    assert found == [1, 2, 1, 4.5, 3] and {guess.best for guess in found} == {"Rome"}
    assert ranks_of({}, *examples)[:3] == [2, 2, 1.5]  # all known words have the same score


def test_words_with_the_same_token_are_one_candidate():
    tokenizer = Tokenizer.train("word", ["reading is fun it", "reading Oslo"] * 3, 100, lowercase=True)
    words = {word: word for word in ("Reading", "reading", "Oslo", "fun")}
    gold = Target("Reading", words, kind="P19")
    examples = [Example(id="0", inputs=(f"it {BLANK}",), gold=gold)]
    network = SimpleNamespace(fill=lambda batch: tf.zeros([1, tokenizer.vocabulary.size]))
    probe_rows = cloze.rows(tokenizer, Settings(), examples, False)
    assert cloze.predictions(network, "x", tokenizer, Settings(), examples, probe_rows) == [2]  # the middle of three


def test_models_that_cannot_fill_the_blank_are_not_applicable():
    with pytest.raises(NotApplicable, match="because ELECTRA does not say how well"):
        cloze.predictions(SimpleNamespace(fill=None), "ELECTRA", TOKENIZER, Settings(), [make_example(BLANK)], [])
    foreign = Tokenizer.train("word", ["nothing here"], 100)
    with pytest.raises(NotApplicable, match="because its vocabulary has none"):
        cloze.predictions(SimpleNamespace(fill=len), "x", foreign, Settings(), [make_example(BLANK)], [])


def test_a_masked_model_fills_blanks_consistently_with_its_loss():
    network = networks.build("bert", SHAPE, TOKENIZER, 0)
    network.encoder.dropout = 0.0
    (row,) = rows(f"the capital of Italy is {BLANK} .")
    tokens, place = np.array([row.tokens], np.int32), np.array([row.place], np.int32)
    label = TOKENIZER.encode(["Rome"])[0][0]
    batch = {"tokens": tokens, "segments": tokens * 0, "places": place, "masked_positions": place[:, None],
             "masked_labels": np.array([[label]], np.int32), "masked_weights": np.ones((1, 1), np.float32),
             "next": np.zeros(1, np.int32)}  # fmt: skip
    ours = -tf.nn.log_softmax(network.fill({k: tf.constant(v) for k, v in batch.items()}))[0, label]
    assert float(ours) == pytest.approx(float(network.loss(batch)["mlm_loss"]), abs=1e-5)


def test_a_left_to_right_model_fills_blanks_consistently_with_its_likelihood():
    network = networks.build("gpt", SHAPE, TOKENIZER, 0)
    network.encoder.dropout = 0.0
    ids = [TOKENIZER.vocabulary.cls, *TOKENIZER.encode(["Italy has Rome ."])[0]]
    tokens = np.array([ids, ids], np.int32)
    places = np.array([3, 1], np.int32)
    log_probabilities = tf.nn.log_softmax(network.fill({"tokens": tokens, "places": places})).numpy()
    log_likelihood = network.log_likelihood({"tokens": tokens}).numpy()
    for row, place in enumerate(places):
        assert log_probabilities[row, ids[place]] == pytest.approx(log_likelihood[row, place], abs=1e-5)
    cut = np.array([[*ids[:3], 9, 9]] * 2, np.int32)  # later tokens change nothing
    short, whole = (network.fill({"tokens": ids, "places": places})[0] for ids in (cut, tokens))
    np.testing.assert_allclose(short, whole, atol=1e-5)
    alike = network.fill({"tokens": tokens, "places": places * 0}).numpy()
    assert np.ptp(alike) == 0


def test_a_plan_probes_a_pretrained_model_once_and_a_random_one_per_seed():
    rows = [Row.parse("bert", "tiny"), Row.parse("random-bert", "tiny")]
    planned = Combinations(
        adaptations=["finetune"], seeds=[0, 1], data_sha256={"lama": "x"}, pretraining_of={}, tokenizer="x"
    ).cells(rows, [load("lama")])
    assert [(c.row.name, c.adaptation, c.seed) for c in planned] == [
        ("bert", "cloze", 0), ("random-bert", "cloze", 0), ("random-bert", "cloze", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("model, status", [("bert", "ok"), ("gpt", "ok"), ("word2vec", "not_applicable")])
def test_cells_run_from_data_to_a_sealed_record(model, status, tmp_path):
    folder = tmp_path / "data" / "lama"
    (folder / "TREx").mkdir(parents=True)
    facts = [{"uuid": s, "sub_label": s, "obj_label": o} for s, o in (("Italy", "Rome"), ("it", "Lima"))]
    (folder / "TREx" / "P36.jsonl").write_text("\n".join(map(json.dumps, facts)))
    (folder / "relations.jsonl").write_text('{"relation": "P36", "template": "[X] has [Y] ."}')
    (folder / "vocabulary.txt").write_text("\n".join(WORDS))
    settings = adaptation_settings.recorded(adaptation_settings.defaults(Form.CLOZE, "cloze"))
    cell = Cell(
        row=Row(name=f"random-{model}", kind="random", model=model, size="tiny"), task="lama", task_version=1,
        form=Form.CLOZE, data_sha256="x", adaptation="cloze", settings=settings | {"length": 32}, seed=0, tokenizer="x",
    )  # fmt: skip
    context = Context(data=tmp_path / "data", out=tmp_path, shape=SHAPE, tokenizer=TOKENIZER, source={"name": "x"})
    result = cells.run(cell, context)
    assert result.status == status, result.reason
    found = record.read(record.write(context.out, result))
    if status == "ok":
        assert found.task["examples"] == 2 and 0 <= found.headline["value"] <= 50  # Lima is not in the vocabulary
        assert found.cost["flops"] == 0 and found.cost["flops_evaluate"] > 0
    else:
        assert found.reason["text"].startswith("because ")
