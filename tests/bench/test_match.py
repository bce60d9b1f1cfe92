"""Summarisation by matching: losses and candidates by hand, and a toy task where extraction chooses badly."""

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


def test_candidates_equal_a_worked_example():
    """The three best of five sentences are 4, 1 and 2. Sentences 0 and 3 tie, and the first one comes next."""
    scores = [0.3, 0.8, 0.5, 0.3, 0.9]
    assert summaries.candidates(scores, 3, (1, 2)) == [(1,), (2,), (4,), (1, 2), (1, 4), (2, 4)]
    assert summaries.candidates(scores, 4, (4,)) == [(0, 1, 2, 4)]
    assert len(summaries.candidates(list(range(30)), 5, (2, 3))) == 20  # as in the paper
    assert summaries.candidates([0.1, 0.2], 5, (2, 3)) == [(0, 1)]
    assert summaries.candidates([0.1], 5, (2, 3)) == [(0,)]


def test_losses_equal_a_worked_example():
    """The reference scores 0.5, the candidates, best first, 0.7, 0.2 and 0.25; the margins are 0.1 and 0.05.

    Equation 5: (0.3 + 0 + 0) / 3.
    Equation 6, one rank apart: 0.2 - 0.7 + 0.05 and 0.25 - 0.2 + 0.05 = 0.1, mean 0.05; two apart: 0.25 - 0.7 + 0.1.
    The second row has one candidate, 0.6: equation 5 gives 0.2.
    """
    head = matching.Head((0.1, 0.05))
    near = tf.constant([[0.5, 0.7, 0.2, 0.25], [0.5, 0.6, -1e9, 1.0 - 1e9]])
    assert float(head.loss(near[:1], {})) == pytest.approx(0.1 + 0.05, abs=1e-6)
    assert float(head.loss(near, {})) == pytest.approx((0.15 + 0.2) / 2, abs=1e-6)
    assert float(head.loss(tf.constant([[0.9, 0.7, 0.6, 0.5]]), {})) == 0.0


def test_scores_are_cosines_of_document_and_candidates():
    vectors = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    batch = {"unused": tf.constant([[0.0, 0.0, -1e9, -1e9], [0.0, -1e9, -1e9, -1e9]])}
    found = matching.Head((0.0, 0.01))(Encoding(tokens=None, pooled=tf.constant(vectors), layers=()), batch).numpy()
    assert found.shape == (2, 2) and found[1, 1] < -1e8
    for row, text in ((0, 1), (0, 2), (1, 1)):
        a, b = vectors[3 * row], vectors[3 * row + text]
        assert found[row, text - 1] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-5)


def make_codec(examples, scores, **changes):
    """A codec for training on ``examples``, whose sentences have the extraction scores ``scores``."""
    made = matching.Codec(load("samsum"), TOKENIZER, Own(**changes), examples)
    made.follow(examples, extraction_rows(examples), scores)
    return made


def extraction_rows(examples):
    """The fields of the extraction rows that `follow` reads."""
    return [SimpleNamespace(example=i, note=summaries.sentences(e.inputs[0])) for i, e in enumerate(examples)]


def test_training_rows_have_the_reference_then_candidates_by_rouge():
    texts = ["Amber birch.", "Iron jam.", "Cedar daisy."]
    example = Example(id="0", inputs=("\n".join(texts),), gold=("Cedar daisy, amber birch.",))
    made = make_codec([example], [np.array([0.2, 0.9, 0.1, -1e9])], sentences=2)
    (row,) = made.training_rows([example])
    choices = ["\n".join(texts[i] for i in one) for one in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]]
    grades = [np.mean(rouge.statistics([example.gold], [one])[0, :3]) for one in choices]
    order = sorted(range(6), key=lambda i: -grades[i])
    assert row.note == [example.gold[0], *(choices[i] for i in order)]
    assert row.note[1] == choices[4] and row.note[-1] == choices[1]
    assert row.arrays["tokens"].shape[0] == 8 and row.arrays["unused"].tolist() == [0.0] * 7
    (plain,) = made.rows([example])  # the row contains nothing of the reference
    assert plain.note == choices and plain.arrays["tokens"].shape[0] == 7
    assert made.predictions([example], [plain], [np.array([0.1, 0.2, 0.9, 0.3, 0.0, 0.0, -1e9, -1e9])]) == [texts[2]]
    with pytest.raises(NotApplicable, match="because no candidates were extracted"):
        made.rows([Example(id="1", inputs=("Oil.",), gold=("Oil.",))])
    with pytest.raises(NotApplicable, match="because the target text is not part of the source"):
        matching.Codec(load("multi30k"), TOKENIZER, Own(), [])


def test_rouge_of_a_candidate_is_cached(monkeypatch):
    calls, real = [], matching.rouge.statistics
    counted = SimpleNamespace(statistics=lambda *a: calls.append(a) or real(*a))
    monkeypatch.setattr(matching, "rouge", counted)
    for _ in range(2):
        assert matching.likeness("amber birch once", "amber birch") == pytest.approx(
            (0.8 + 2 / 3 + 0.8)
            / 3  # unigrams: recall 1, precision 2/3; bigrams: 1 and 1/2; longest common subsequence: "amber birch"
        )
    assert len(calls) == 1


def make_examples(count, seed):
    """Texts of two good and three bad sentences. The summary is the good ones; extraction prefers the bad ones."""
    rng, examples, scores = np.random.default_rng(seed), [], []
    for number in range(count):
        kinds = rng.permutation([1, 1, 0, 0, 0])
        pieces = [" ".join(rng.choice(GOOD if good else BAD, 4)).capitalize() + "." for good in kinds]
        gold = "\n".join(piece for piece, good in zip(pieces, kinds, strict=True) if good)
        examples.append(Example(id=str(number), inputs=("\n".join(pieces),), gold=(gold,)))
        scores.append(rng.random(5) - kinds)
    return examples, scores


def test_matching_learns_better_summaries_than_extraction():
    train, test = make_examples(48, 0), make_examples(24, 1)
    chosen = Own(sentences=2, learning_rate=3e-2, epochs=6, batch=8, dropout=0.0, patience=9)
    codec = make_codec(*train, sentences=2)
    rows = codec.training_rows(train[0])
    codec.follow(test[0], extraction_rows(test[0]), test[1])
    shape = Size(layers=1, width=16, heads=2, inner=32, length=64)
    network = model("word2vec").build(shape, TOKENIZER.vocabulary)
    made = Adapted(network, TOKENIZER.vocabulary, Form.GENERATION, "match", codec.outputs, chosen, lambda rows: 0.0)
    made.reset(networks.weights(network.loss.variables), 0)
    test_rows = codec.rows(test[0])
    # The score rises, so the last state is the best.
    course = loop.train(made, rows, chosen, 0, itertools.count().__next__)
    gold = [example.gold for example in test[0]]
    found = codec.predictions(test[0], test_rows, loop.outputs(made, test_rows, codec.prediction_batch))
    extracted_summaries = [
        summaries.joined(pieces, summaries.choose_sentences(pieces, scores, 2, block=False))
        for pieces, scores in ((summaries.sentences(e.inputs[0]), s) for e, s in zip(*test, strict=True))
    ]
    before, after = (rouge(gold, texts)["rouge1"] for texts in (extracted_summaries, found))
    assert course.curve[-1]["loss"] < course.curve[0]["loss"]
    assert before < 10 and after > 60, (before, after)


def test_stacked_rows_mask_missing_candidates():
    train = make_examples(2, 3)
    short = Example(id="9", inputs=("Amber.",), gold=("Amber.",))
    codec = make_codec([*train[0], short], [*train[1], np.array([0.0])])
    batch = stack(codec.rows([*train[0], short]))
    assert batch["tokens"].shape[:2] == (3, 21) and batch["unused"].shape == (3, 20)
    assert (batch["unused"][2, 1:] < -1e8).all() and (batch["unused"][:2] == 0).all()
    assert (batch["tokens"][2, 2:] == batch["tokens"][2, 0]).all()


def check_kept_checkpoint(context, result):
    """The kept checkpoint predicts the summaries of the record. A checkpoint without codec.json is an error."""
    (folder,) = (context.out / "adapted").iterdir()
    traced.cache_clear()  # as in a new process
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
def test_a_cell_extracts_candidates_and_then_matches(tmp_path, monkeypatch):
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
    # The report split, by extraction and by matching; extraction of training examples is not part of the latency.
    assert entered.count("evaluate") == 2
    # 16 texts in batches of 4 for matching and 16 for extraction.
    assert result.cost["steps"] == 4 + 1 and result.headline["value"] > 0
    check_kept_checkpoint(context, result)
    lone = settings.recorded(
        settings.changed(settings.defaults(Form.GENERATION, "extract"), {"epochs": 1, "length": 48})
    )
    extract = cells.run(dataclasses.replace(cell, adaptation="extract", settings=lone), context)
    assert result.cost["flops"] > 2 * extract.cost["flops"] > 0
    assert result.cost["flops_evaluate"] > extract.cost["flops_evaluate"]
