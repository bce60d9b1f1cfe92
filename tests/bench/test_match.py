"""Summaries by matching: losses and candidates by hand, and a toy where extraction's own choice is a bad one."""

import dataclasses
import gzip
import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import loop, predictor, settings, summaries
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.built import traced
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.match import Own
from ptmbench.bench.adapt.match import head as matching
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.options import PredictOptions
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.bench.runs.predict import predict
from ptmbench.models import load as model
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load, microworld
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.rouge import rouge
from ptmbench.tasks.task import Example

GOOD = ["amber", "birch", "cedar", "daisy", "ember", "fjord", "grove", "hazel"]
BAD = ["iron", "jam", "knot", "lamp", "mud", "nail", "oil", "pan"]
TOKENIZER = Tokenizer.train("wordpiece", [" ".join([*GOOD, *BAD, "a b c d ."])] * 20, 200)


def test_candidates_by_hand():
    """The three best of five are 4, 1 and 2; of the equals 0 and 3 the first would be the next."""
    scores = [0.3, 0.8, 0.5, 0.3, 0.9]
    assert summaries.candidates(scores, 3, (1, 2)) == [(1,), (2,), (4,), (1, 2), (1, 4), (2, 4)]
    assert summaries.candidates(scores, 4, (4,)) == [(0, 1, 2, 4)]
    assert len(summaries.candidates(list(range(30)), 5, (2, 3))) == 20  # as many as the paper has
    assert summaries.candidates([0.1, 0.2], 5, (2, 3)) == [(0, 1)]
    assert summaries.candidates([0.1], 5, (2, 3)) == [(0,)]


def test_the_losses_by_hand():
    """Reference 0.5; candidates 0.7, 0.2 and 0.25, the best first; margins 0.1 and 0.05. Equation 5: (0.3 + 0 + 0) / 3.
    Equation 6, pairs one apart: 0.2 - 0.7 + 0.05 and 0.25 - 0.2 + 0.05 = 0.1, half of it; two apart: 0.25 - 0.7 + 0.1.
    The second row has one candidate, 0.6: equation 5 gives 0.2."""
    head = matching.Head((0.1, 0.05))
    near = tf.constant([[0.5, 0.7, 0.2, 0.25], [0.5, 0.6, -1e9, 1.0 - 1e9]])
    assert float(head.loss(near[:1], {})) == pytest.approx(0.1 + 0.05, abs=1e-6)
    assert float(head.loss(near, {})) == pytest.approx((0.15 + 0.2) / 2, abs=1e-6)
    assert float(head.loss(tf.constant([[0.9, 0.7, 0.6, 0.5]]), {})) == 0.0


def test_cosines_of_texts_side_by_side():
    vectors = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    batch = {"unused": tf.constant([[0.0, 0.0, -1e9, -1e9], [0.0, -1e9, -1e9, -1e9]])}
    found = matching.Head((0.0, 0.01))(Encoding(tokens=None, pooled=tf.constant(vectors), layers=()), batch).numpy()
    assert found.shape == (2, 2) and found[1, 1] < -1e8
    for row, text in ((0, 1), (0, 2), (1, 1)):
        a, b = vectors[3 * row], vectors[3 * row + text]
        assert found[row, text - 1] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-5)


def followed(examples, scores, **changes):
    """A codec that learns from ``examples``, after extraction gave their sentences ``scores``."""
    made = matching.Codec(load("samsum"), TOKENIZER, Own(**changes), examples)
    made.follow(examples, extracted(examples), scores)
    return made


def extracted(examples):
    """What `follow` reads of extraction's rows."""
    return [SimpleNamespace(example=i, note=summaries.sentences(e.inputs[0])) for i, e in enumerate(examples)]


def test_the_best_candidates_come_first_and_the_reference_before_them():
    texts = ["Amber birch.", "Iron jam.", "Cedar daisy."]
    example = Example(id="0", inputs=("\n".join(texts),), gold=("Cedar daisy, amber birch.",))
    train = [example]
    made = followed(train, [np.array([0.2, 0.9, 0.1, -1e9])], sentences=2)
    (row,) = made.rows(train)
    choices = ["\n".join(texts[i] for i in one) for one in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]]
    grades = [np.mean(rouge.statistics([example.gold], [one])[0, :3]) for one in choices]
    order = sorted(range(6), key=lambda i: -grades[i])
    assert row.note == [example.gold[0], *(choices[i] for i in order)]
    assert row.note[1] == choices[4] and row.note[-1] == choices[1]
    assert row.arrays["tokens"].shape[0] == 8 and row.arrays["unused"].tolist() == [0.0] * 7
    (plain,) = made.rows([example])  # not the list that it learns from: nothing of the reference is in it
    assert plain.note == choices and plain.arrays["tokens"].shape[0] == 7
    assert made.predictions([example], [plain], [np.array([0.1, 0.2, 0.9, 0.3, 0.0, 0.0, -1e9, -1e9])]) == [texts[2]]
    with pytest.raises(NotApplicable, match="because no candidates were extracted"):
        made.rows([Example(id="1", inputs=("Oil.",), gold=("Oil.",))])
    with pytest.raises(NotApplicable, match="because the target text is not part of the source"):
        matching.Codec(load("multi30k"), TOKENIZER, Own(), [])


def test_rouge_of_a_candidate_is_computed_once(monkeypatch):
    calls, real = [], matching.rouge.statistics
    counted = SimpleNamespace(statistics=lambda *a: calls.append(a) or real(*a))
    monkeypatch.setattr(matching, "rouge", counted)
    for _ in range(2):
        assert matching.likeness("amber birch once", "amber birch") == pytest.approx(
            (0.8 + 2 / 3 + 0.8)
            / 3  # recall 1, precision 2/3 of words; 1 and 1/2 of pairs; the common run is "amber birch"
        )
    assert len(calls) == 1


def planted(count, seed):
    """Texts of two good and three bad sentences, whose summary is the good ones; extraction prefers the bad ones."""
    rng, examples, scores = np.random.default_rng(seed), [], []
    for number in range(count):
        kinds = rng.permutation([1, 1, 0, 0, 0])
        pieces = [" ".join(rng.choice(GOOD if good else BAD, 4)).capitalize() + "." for good in kinds]
        gold = "\n".join(piece for piece, good in zip(pieces, kinds, strict=True) if good)
        examples.append(Example(id=str(number), inputs=("\n".join(pieces),), gold=(gold,)))
        scores.append(rng.random(5) - kinds)
    return examples, scores


def test_it_learns_which_summaries_fit_where_extraction_did_not():
    train, test = planted(48, 0), planted(24, 1)
    chosen = Own(sentences=2, learning_rate=3e-2, epochs=6, batch=8, dropout=0.0, patience=9)
    codec = followed(*train, sentences=2)
    rows = codec.rows(train[0])
    codec.follow(test[0], extracted(test[0]), test[1])
    shape = Size(layers=1, width=16, heads=2, inner=32, length=64)
    network = model("word2vec").build(shape, TOKENIZER.vocabulary)
    made = Adapted(network, TOKENIZER.vocabulary, Form.GENERATION, "match", codec.outputs, chosen, lambda rows: 0.0)
    made.reset(networks.weights(network.loss.variables), 0)
    asked = codec.rows(test[0])
    course = loop.train(made, rows, chosen, 0, itertools.count().__next__)  # the last state counts as the best
    gold = [example.gold for example in test[0]]
    found = codec.predictions(test[0], asked, loop.outputs(made, asked, codec.prediction_batch))
    own = [
        summaries.joined(pieces, summaries.choose_sentences(pieces, scores, 2, block=False))
        for pieces, scores in ((summaries.sentences(e.inputs[0]), s) for e, s in zip(*test, strict=True))
    ]
    before, after = (rouge(gold, texts)["rouge1"] for texts in (own, found))
    assert course.curve[-1]["loss"] < course.curve[0]["loss"]
    assert before < 10 and after > 60, (before, after)


def test_stacked_rows_tell_what_is_no_candidate():
    train = planted(2, 3)
    short = Example(id="9", inputs=("Amber.",), gold=("Amber.",))
    codec = followed([*train[0], short], [*train[1], np.array([0.0])])
    batch = stack(codec.rows([*train[0], short]))
    assert batch["tokens"].shape[:2] == (3, 21) and batch["unused"].shape == (3, 20)
    assert (batch["unused"][2, 1:] < -1e8).all() and (batch["unused"][:2] == 0).all()
    assert (batch["tokens"][2, 2:] == batch["tokens"][2, 0]).all()


def predicts_as_before(context, result):
    """The kept checkpoint writes the summaries of the record, from its own extraction; an older one says what to do."""
    (folder,) = (context.out / "adapted").iterdir()
    traced.cache_clear()  # as in a process of its own
    predict(PredictOptions(checkpoints=[folder], split="test", data=context.data, out=context.out / "again"))
    again = [json.loads(line) for line in (context.out / "again/aeslc.test.jsonl").read_text().splitlines()]
    with gzip.open(context.out / result.predictions["file"], "rt") as file:
        before = [json.loads(line) for line in file]
    assert len(again) >= len(before) == 16
    assert [row["prediction"] for row in again[:16]] == [row["prediction"] for row in before]
    found = checkpoint.read(folder)
    texts = {"tokenizer.json": found.path("tokenizer.json").read_text()}
    old = checkpoint.write(context.out / "old", about=found.about, arrays={"weights": found.arrays()}, texts=texts)
    with pytest.raises(checkpoint.CheckpointError, match=r"lacks codec\.json"):
        predict(PredictOptions(checkpoints=[old.folder], split="test", data=context.data, out=context.out / "none"))


@pytest.mark.slow
def test_a_cell_extracts_first_and_leads_to_a_score(tmp_path, monkeypatch):
    microworld.make(tmp_path / "data")
    tokenizer = Tokenizer.load(corpora.tokenizer([tmp_path / "data" / "corpus"], "wordpiece", 400))
    shape = Size(layers=1, width=32, heads=2, inner=64, length=96)
    context = Context(data=tmp_path / "data", out=tmp_path, shape=shape, tokenizer=tokenizer, keep=True)
    changes = {"epochs": 1, "extract_epochs": 1, "length": 48, "sentences": 2, "ranked": 3}
    chosen = settings.changed(settings.defaults(Form.GENERATION, "match"), changes)
    assert (chosen.batch, chosen.extract().batch, chosen.extract().length) == (4, 16, 48)
    cell = Cell(
        row=Row(name="random-bert", kind="random", model="bert", size="tiny"),
        task="aeslc",
        task_version=1,
        form=Form.GENERATION,
        data_sha256="x",
        adaptation="match",
        settings=settings.recorded(chosen),
        seed=0,
        tokenizer="x",
        limit=16,
    )
    entered, phase = [], predictor.phase
    monkeypatch.setattr(predictor, "phase", lambda name: entered.append(name) or phase(name))
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    assert entered.count("evaluate") == 2  # the report, by both: what is extracted to learn from is no latency
    assert result.cost["steps"] == 4 + 1 and result.headline["value"] > 0  # 16 texts in fours, and at once
    predicts_as_before(context, result)
    lone = settings.recorded(
        settings.changed(settings.defaults(Form.GENERATION, "extract"), {"epochs": 1, "length": 48})
    )
    extract = cells.run(dataclasses.replace(cell, adaptation="extract", settings=lone), context)
    assert result.cost["flops"] > 2 * extract.cost["flops"] > 0
    assert result.cost["flops_evaluate"] > extract.cost["flops_evaluate"]
