"""A translator that begins as two language models: the equations in NumPy, the initial weights, and whole cells."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.lm_seq2seq import Own, flops
from ptmbench.bench.adapt.lm_seq2seq import head as lm_head
from ptmbench.bench.adapt.lm_seq2seq import network as lm_seq2seq
from ptmbench.bench.data import corpora
from ptmbench.bench.engine.generate import Generator, Writing
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell
from ptmbench.bench.runs.plan import Row as Line
from ptmbench.models import load as model
from ptmbench.models.architectures import recurrent_decoders
from ptmbench.models.card import Size
from ptmbench.models.layers.recurrent_networks import built
from ptmbench.models.objectives.lm import CausalLm
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks import load, microworld
from ptmbench.tasks.forms import Form
from tests.models.test_left_lstm import lstm
from tests.models.test_recurrent import log_softmax

SIZE = Size(layers=1, width=6, inner=8, length=30)
WORDS = Vocabulary(size=50)
TOKENS = np.array([[2, 40, 41, 42, 3], [2, 43, 3, 0, 0]], np.int32)
TARGETS = np.array([[2, 30, 31, 3], [2, 33, 3, 0]], np.int32)
SEED = tf.constant([1, 2])


@pytest.fixture
def made():
    """Builds a language model and the `Decoding` over it, with weights large enough for every term of a sum to
    matter."""

    def build(kind=recurrent_decoders.lstm, **changes):
        keras.utils.set_random_seed(4)
        encoder = built(kind(SIZE, WORDS.size), name="encoder")
        encoder.dropout = 0.0
        decoding = lm_seq2seq.Decoding(SimpleNamespace(encoder=encoder), WORDS, Own(dropout=0.0, **changes))
        rng = np.random.default_rng(5)
        for variable in (*encoder.variables, *decoding.own):
            variable.assign(rng.normal(0.0, 0.4, variable.shape))
        return encoder, decoding

    return build


def softmax(x):
    return np.exp(x - x.max(axis=1, keepdims=True)) / np.exp(x - x.max(axis=1, keepdims=True)).sum(
        axis=1, keepdims=True
    )


def through(ids, side, upper):
    """The states of the lowest layer and of the top one, [T, D] each."""
    low = lstm(np.asarray(side.token_embedding, np.float64)[ids], side.stack.members[0])[0]
    x = low
    for layer in upper:
        x = lstm(x, layer)[0]
    return low, x


def by_hand(encoder, decoding, source, target):
    """Logits [S, V] of one row by the equations of the module, and those of both language models."""
    h, H = through(source, encoder, decoding.joined.stack)
    g, G = through(target, decoding.decoder, decoding.decoder.stack.members[1:])
    look = softmax(G @ H.T)
    joint = np.concatenate([look @ h, look @ H, G], axis=1)
    added = np.tanh(joint @ np.asarray(decoding.joined.kernel) + np.asarray(decoding.joined.bias))
    read, write = (np.asarray(side.token_embedding, np.float64) for side in (encoder, decoding.decoder))
    return (g + added) @ write.T, h @ read.T, g @ write.T


@pytest.mark.parametrize("upper", (1, 2))
def test_the_network_is_that_of_the_paper(made, upper):
    encoder, decoding = made(upper=upper)
    outputs = decoding.decode({"tokens": TOKENS, "targets": TARGETS}, SEED)
    assert decoding.decode({"tokens": TOKENS, "targets": TARGETS}).source is None
    for row, (source, target) in enumerate(((5, 4), (3, 3))):
        expected = by_hand(encoder, decoding, TOKENS[row, :source], TARGETS[row, :target])
        for got, want in zip(outputs[:3], expected, strict=True):
            assert np.allclose(got[row, : len(want)], want, atol=1e-5)


def test_the_loss_is_that_of_the_task_and_of_both_language_models(made):
    for weight in (0.0, 0.5):
        encoder, decoding = made(lm_weight=weight)
        parts = [[], [], []]
        for row, (source, target) in enumerate(((5, 4), (3, 3))):
            ids = TOKENS[row, :source], TARGETS[row, :target]
            logits = by_hand(encoder, decoding, *ids)
            for part, found, text in zip(parts, logits, (ids[1], ids[0], ids[1]), strict=True):
                part += list(-log_softmax(found[:-1])[np.arange(len(text) - 1), text[1:]])
        task, source, target = (np.mean(part) for part in parts)
        batch, head = {"tokens": TOKENS, "targets": TARGETS}, lm_head.Head(0.0)
        assert float(head.loss(decoding.decode(batch, SEED), batch)) == pytest.approx(
            task + weight * (source + target), abs=1e-5
        )
        assert float(head.loss(decoding.decode(batch), batch)) == pytest.approx(task, abs=1e-5)


def test_the_decoder_begins_as_the_language_model(made):
    encoder, decoding = made()
    decoding.begin()
    targets, before = TARGETS[:1], CausalLm(encoder)
    outputs = decoding.decode({"tokens": TOKENS[:1], "targets": targets}, SEED)
    alone = before._logits(encoder.hidden(targets)[-1])
    assert np.allclose(outputs.target[0], alone, atol=1e-5)
    decoding.joined.kernel.assign(tf.zeros_like(decoding.joined.kernel))
    decoding.joined.bias.assign(tf.zeros_like(decoding.joined.bias))
    assert np.allclose(decoding.decode({"tokens": TOKENS[:1], "targets": targets}).logits[0], alone, atol=1e-5)
    _, cold = made(warm_decoder=0)
    cold.begin()
    assert not np.allclose(cold.decoder.token_embedding, encoder.token_embedding)


def test_decoding_step_by_step_equals_decoding_the_whole_text(made):
    """Beam search gives the same texts with cached states as with `decode`, which reads the whole text at each step."""
    _, decoding = made()
    again = SimpleNamespace(writer=None, decode=lambda batch, seed: decoding.decode(batch, seed).logits)
    writing = Writing(beam=3)
    ours, theirs = (Generator(one, WORDS, writing)(TOKENS, 6) for one in (decoding, again))
    assert np.array_equal(ours.ids, theirs.ids)
    assert np.allclose(ours.scores, theirs.scores, atol=1e-4)


def test_other_networks_are_not_applicable(made):
    with pytest.raises(NotApplicable, match="see lm_lstm"):
        made(kind=recurrent_decoders.awd_lstm)


def test_flops_by_hand(made):
    """Width 6, one layer and one above it, with two products of 6 x 24 each. A target token adds the scores of 5 keys
    of width 6 and their mean, both twice, a product of 18 x 6, and 50 words."""
    assert flops(6, 2, 50, 5, 4) == 2 * (5 * 2 * 288 + 4 * (2 * 288 + 4 * 5 * 6 + 18 * 6 + 300))
    row = InputRow({"tokens": TOKENS[0], "targets": TARGETS[1]}, 0)
    adapted = SimpleNamespace(network=SimpleNamespace(encoder=made()[0]), vocabulary=WORDS)
    for weight, times in ((1.0, 1), (0.0, 0)):  # 5 and 3 tokens over 50 words, forward and backward
        assert lm_seq2seq.make(adapted, [row], Own(lm_weight=weight), (0, 0)) == ([row], times * 3 * 2 * 8 * 6 * 50)


def test_the_flops_of_a_plan_are_the_same():
    own = settings.defaults(Form.GENERATION, "lm_seq2seq")
    n, targets = own.length, own.target_length
    learning, _ = own.flops(Network(model("lm_lstm"), SIZE, Vocabulary(size=50)), Form.GENERATION)
    assert learning == pytest.approx(3 * flops(6, 2, 50, n, targets) + 3 * 2 * 6 * 50 * (n + targets))


def test_settings_have_the_papers_values():
    own = settings.defaults(Form.GENERATION, "lm_seq2seq")
    assert (own.lm_weight, own.warm_decoder, own.upper, own.beam) == (1.0, 1, 1, 4)


@pytest.mark.slow
def test_a_cell_learns_and_counts_parameters_and_flops(tmp_path):
    microworld.make(tmp_path / "data", scale=microworld.Sizes(corpus_tokens=4000, people=40, translations=120))
    words = Tokenizer.load(corpora.tokenizer([tmp_path / "data/corpus"], "wordpiece", 400))
    shape = Size(layers=1, width=32, length=96)
    context = Context(data=tmp_path / "data", out=tmp_path, shape=shape, tokenizer=words, source={"name": "microworld"})

    def run(task, **changes):
        found = load(task)
        chosen = settings.changed(settings.defaults(found.form, "lm_seq2seq"), {"epochs": 3, "length": 64} | changes)
        cell = Cell(
            row=Line(name="random-lm_lstm", kind="random", model="lm_lstm", size="tiny"),
            task=task,
            task_version=found.version,
            form=found.form,
            data_sha256="x",
            adaptation="lm_seq2seq",
            settings=settings.recorded(chosen),
            seed=0,
            tokenizer="x",
            limit=120,
        )
        return cells.run(cell, context)

    result, alone = run("multi30k-en-mw"), run("multi30k-en-mw", lm_weight=0.0)
    assert result.status == alone.status == "ok", (result.reason, alone.reason)
    losses = [point["loss"] for point in result.curve]
    assert (
        losses[-1] < losses[0] and losses[0] > 2 * alone.curve[0]["loss"]
    )  # the sum of three losses of an untrained network
    # Both embedding tables, the encoder's layer and one above it, the decoder's two layers, 96 x 32 and the bias.
    layer = 2 * 32 * 128 + 128
    assert result.cost["parameters"] == 2 * words.vocabulary.size * 32 + 4 * layer + 96 * 32 + 32
    assert result.cost["flops"] > alone.cost["flops"] > 0
    refused = run("sst2")
    assert refused.status == "not_applicable" and refused.reason["code"] == "no-head"
