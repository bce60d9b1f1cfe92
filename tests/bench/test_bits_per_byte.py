"""Bits per byte: windows, scores of masked models, unknown tokens, the metric, and the passages of the task."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.bench.adapt import surprises
from ptmbench.bench.adapt.asking import AnsweringInput
from ptmbench.bench.adapt.likelihood import ADAPTATION
from ptmbench.bench.adapt.likelihood import network as likelihood
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.engine import networks
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.task import Example

TEXTS = ["the dogs bark at night", "a dog barks at the moon", "dogs like the moonlight", "unbarkable nights"] * 5
TOKENIZER = Tokenizer.train("wordpiece", TEXTS, 60)
SHAPE = Size(layers=1, width=32, heads=2, inner=64, length=32)
LONG = "the dogs bark at night and a dog barks at the moon"


def make_input(model, task, *texts, tokenizer=TOKENIZER, **changes):
    """Returns the input of the adaptation: a random ``model`` and the ``texts`` to score."""
    network = networks.build(model, SHAPE, tokenizer, 0)
    network.encoder.dropout = 0.0
    report = [Example(id=str(i), inputs=(text,), gold=len(text.encode())) for i, text in enumerate(texts)]
    return AnsweringInput(
        network=network, module=models.load(model), shape=SHAPE, tokenizer=tokenizer, task=load(task),
        settings=Settings(**changes), train=[], report=report, seed=0,
    )  # fmt: skip


@pytest.mark.parametrize("count, room, stride", [(0, 8, 4), (1, 8, 4), (8, 8, 4), (9, 8, 4), (30, 8, 3), (30, 8, 99)])
def test_every_token_is_scored_once_with_context_on_both_sides(count, room, stride):
    windows = likelihood.bidirectional_windows(count, room, stride)
    assert [token for _, places in windows for token in places] == list(range(count))
    least = (room - min(stride, room)) // 2
    for begin, places in windows:
        assert begin >= 0 and begin + min(room, count) <= count
        for token in places:
            assert begin <= token < begin + room
            assert token - begin >= min(least, token) and begin + room - 1 - token >= min(least, count - 1 - token)


@pytest.mark.parametrize("model", ["bert", "bart"])
def test_a_masked_model_masks_and_scores_each_token_in_its_window(model):
    """Expected, for windows of 8 tokens with stride 4: the token and the later ones of its word are masked."""
    answering_input = make_input(model, "bits_per_byte-pseudo", LONG, "dogs", length=10, stride=4)
    found, flops = likelihood.respond(answering_input)
    vocabulary, network = TOKENIZER.vocabulary, answering_input.network
    for text, (nats, words, characters) in zip((LONG, "dogs"), found, strict=True):
        ((ids, numbers),) = TOKENIZER.encode_words([text.split()])
        expected = 0.0
        for begin, places in likelihood.bidirectional_windows(len(ids), 8, 4):
            for place in places:
                window = range(begin, min(begin + 8, len(ids)))
                own = [vocabulary.mask if i >= place and numbers[i] == numbers[place] else ids[i] for i in window]
                tokens = tf.constant([[vocabulary.cls, *own, vocabulary.sep]])
                batch = {"tokens": tokens, "segments": tokens * 0, "places": tf.constant([1 + place - begin])}
                logits = network.fill(batch).numpy()[0].astype(np.float64)
                expected -= logits[ids[place]] - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        hidden = [text[a:b] for i, (a, b) in zip(*TOKENIZER.encode_with_offsets([text])[0], strict=True) if i == 1]
        expected += sum((len(word.encode()) + 1) * np.log(257) for word in hidden)
        assert nats == pytest.approx(expected, abs=1e-3) and (words, characters) == (len(text.split()), len(text))
    assert flops > 0


def test_scores_do_not_depend_on_the_batch_size(monkeypatch):
    answering_input = make_input("bert", "bits_per_byte-pseudo", LONG, "dogs", length=10, stride=4)
    whole, _ = likelihood.respond(answering_input)
    monkeypatch.setattr(surprises, "_TOKENS", 5)
    np.testing.assert_allclose(likelihood.respond(answering_input)[0], whole, atol=1e-3)


def test_characters_hidden_by_unknown_tokens_are_counted_in_bytes():
    """A letter that is not in the vocabulary costs its bytes and an end symbol, in addition to the token's nats."""
    known, hidden = "dogs bark", "dogs ж bark"
    extra = likelihood.unknown(TOKENIZER, [known, hidden, "жщ ж"])
    assert extra == pytest.approx([0, 3 * np.log(257), (5 + 3) * np.log(257)])
    answering_input = make_input("gpt", "bits_per_byte", hidden, length=16, stride=8)
    ((nats, *_),), _ = likelihood.respond(answering_input)
    ((plain, *_),), _ = likelihood.respond(replace(answering_input, task=load("wikitext2")))
    assert nats == pytest.approx(plain + extra[1]) and plain > 0
    line = ADAPTATION.signatures(answering_input)["bits_per_byte"]
    assert line.startswith("left to right, windows of 16 tokens 8 apart, 1 unknown tokens spelled") and "0 of 1" in line
    assert ADAPTATION.signatures(replace(answering_input, task=load("wikitext2"))) == {}


def test_a_uniform_model_over_bytes_has_eight_bits():
    task = load("bits_per_byte")
    gold, nats = [10, 30], [10 * np.log(256), 30 * np.log(256)]
    assert task.score(gold, [(n, 1, 1) for n in nats])["headline"] == pytest.approx(8.0) == task.chance
    assert task.score([4], [(4 * np.log(2), 1, 4)])["bits_per_byte"] == pytest.approx(1.0)
    assert not task.higher_is_better and load("bits_per_byte-pseudo").score(gold, [(0.0, 1, 1)] * 2)["headline"] == 0.0


@pytest.mark.parametrize(
    "model, task, code",
    [
        ("bert", "bits_per_byte", "not-a-language-model"),
        ("gpt", "bits_per_byte-pseudo", "left-to-right"),
        ("elmo", "bits_per_byte-pseudo", "left-to-right"),
        ("electra", "bits_per_byte-pseudo", "fills-no-blanks"),
        ("pegasus", "bits_per_byte", "not-a-language-model"),
    ],
)
def test_models_without_the_likelihood_of_a_task_are_not_applicable(model, task, code):
    with pytest.raises(NotApplicable) as found:
        likelihood.respond(make_input(model, task, LONG))
    assert found.value.code == code and str(found.value).startswith("because ")


def test_passages_are_evenly_spaced_paragraphs_of_the_raw_file(tmp_path: Path):
    (tmp_path / "wikitext-2").mkdir()
    paragraph = "Été {} : one two three four five six seven eight nine"
    rows = [
        " = Title = \n",
        " \n",
        *(f" {paragraph.format(n)} \n" for n in range(250)),
        " = = Heading = = \n",
        " short \n",
    ]
    for name in ("train", "test"):
        (tmp_path / f"wikitext-2/wiki.{name}.tokens").write_text(" \n" + "".join(rows), encoding="utf-8")
    found = load("bits_per_byte").examples(tmp_path, "test")
    assert [one.inputs[0] for one in found[:3]] == [paragraph.format(n) for n in (0, 2, 5)] and len(found) == 100
    assert found[0].gold == len(paragraph.format(0)) + 2, "bytes of UTF-8, not characters"
    assert len(load("bits_per_byte").examples(tmp_path, "train")) == 250
    assert load("bits_per_byte-pseudo").examples(tmp_path, "test") == found
