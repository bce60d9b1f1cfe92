"""Frozen features: the encoder reads each training row once, and nothing else changes."""

from types import SimpleNamespace

import numpy as np
import pytest

from ptmbench.bench.adapt import load, loop, settings
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.built import adapted, random_weights
from ptmbench.bench.adapt.course import Bookmark
from ptmbench.bench.adapt.effort import Split
from ptmbench.bench.adapt.features import network as features
from ptmbench.bench.adapt.heads import LAYERS, InputRow, stack
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Form

TOKENIZER = Tokenizer.train("word", ["one two three four five six seven eight nine ten"] * 3, 60)
SHAPE = Size(layers=2, width=8, heads=2, inner=12, length=16)
FEATURES = load("features")


def make_adapted(model="bert", form=Form.CLASSIFICATION, **changes):
    chosen = settings.changed(settings.defaults(form, "features"), {"batch": 2, "epochs": 3, "length": 16} | changes)
    adapted_model = adapted(model, SHAPE, TOKENIZER, form, "features", 4, chosen)
    adapted_model.reset(random_weights(model, SHAPE, TOKENIZER, 1), 0)
    return adapted_model, chosen


def row(number, *tokens):
    """A row of one text, or of several texts if ``tokens`` are tuples."""
    tokens = np.array(tokens, np.int32)
    arrays = {"tokens": tokens, "segments": tokens * 0 + (np.arange(tokens.shape[-1]) > 2)}
    label = {"choice" if tokens.ndim == 2 else "label": np.int32(number % 2)}
    return InputRow(arrays | label | {"unused": np.zeros(4, np.float32)}, number)


ROWS = [row(0, 1, 7, 8, 9, 2), row(1, 1, 10, 11, 2), row(2, 1, 12, 7, 13, 9, 14, 2), row(3, 1, 14, 2)]
CHOICES = [row(0, (1, 7, 8, 2), (1, 9, 2, 0)), row(1, (1, 12, 13, 14, 2), (1, 8, 7, 6, 2))]


@pytest.mark.parametrize("layers", ["all", "top", "embedding"])
@pytest.mark.parametrize("model", ["bert", "xlnet", "elmo", "bart"])
def test_precomputed_rows_give_the_same_outputs_and_gradients(model, layers):
    adapted_model, _ = make_adapted(model, layers=layers)
    once, flops = FEATURES.precompute_vectors(adapted_model, ROWS)
    assert [one.arrays[LAYERS].shape for one in once] == [
        (length, adapted_model.reading.read * 8) for length in (5, 4, 7, 3)
    ]
    assert np.allclose(loop.outputs(adapted_model, once), loop.outputs(adapted_model, ROWS), atol=1e-5)
    before = adapted_model.state()
    states = []
    for rows in (ROWS, once):
        adapted_model.restore(before)
        adapted_model.step.reset()
        adapted_model.step(stack(rows), (0, 0), 0.01)
        states.append(adapted_model.state())
    for plain, known in zip(*states, strict=True):
        assert np.allclose(plain, known, atol=1e-4)
    assert any(not np.allclose(known, old, atol=1e-3) for known, old in zip(states[1], before, strict=True))
    assert flops == adapted_model.forward_flops(ROWS) == adapted_model.training_flops(ROWS)


def test_rows_of_several_texts_are_precomputed():
    adapted_model, _ = make_adapted(form=Form.CHOICE)
    once, _ = FEATURES.precompute_vectors(adapted_model, CHOICES)
    assert [one.arrays[LAYERS].shape for one in once] == [(2, 4, 24), (2, 5, 24)]
    assert np.allclose(loop.outputs(adapted_model, once), loop.outputs(adapted_model, CHOICES), atol=1e-5)


def test_precomputed_rows_cost_no_encoder_flops():
    adapted_model, _ = make_adapted()
    once, _ = FEATURES.precompute_vectors(adapted_model, ROWS)
    assert adapted_model.forward_flops(once) == adapted_model.training_flops(once) == 0.0  # heads are not counted


def test_training_on_precomputed_rows_does_not_call_the_encoder(monkeypatch):
    adapted_model, chosen = make_adapted("gpt")
    once, _ = FEATURES.precompute_vectors(adapted_model, ROWS)
    plain = loop.train(adapted_model, ROWS, chosen, 3, lambda: 1.0)
    expected = adapted_model.state()
    adapted_model, chosen = make_adapted("gpt")
    width = adapted_model.network.encoder.width
    # An encoder that cannot be called.
    monkeypatch.setattr(adapted_model, "network", SimpleNamespace(encoder=SimpleNamespace(width=width)))
    monkeypatch.setattr(adapted_model.step, "_functions", {})
    course = loop.train(adapted_model, once, chosen, 3, lambda: 1.0)
    assert course.steps == plain.steps and course.flops == 0.0 < plain.flops
    for one, other in zip(adapted_model.state(), expected, strict=True):
        assert np.allclose(one, other, atol=1e-4)


def test_a_resumed_training_precomputes_rows_again_and_ends_the_same(tmp_path):
    """Weights are equal bit for bit, even if the network has encoded other rows before."""

    class Stopped(BaseException):
        pass

    def train_to_end(folder=None, stop=None):
        adapted_model, chosen = make_adapted("gpt")
        once, _ = FEATURES.precompute_vectors(adapted_model, ROWS)
        evaluations = iter(range(10))

        def score():
            if next(evaluations) == stop:
                raise Stopped
            return 1.0

        loop.train(adapted_model, once, chosen, 3, score, Bookmark(folder, -1.0, lambda line: None))
        return [array.tolist() for array in adapted_model.state()]

    uninterrupted = train_to_end()
    with pytest.raises(Stopped):
        train_to_end(tmp_path, 1)
    make_adapted("gpt")[0].forward(stack(ROWS[:1]))
    assert train_to_end(tmp_path) == uninterrupted


def test_without_memory_for_the_vectors_rows_are_encoded_in_each_step(monkeypatch):
    adapted_model, chosen = make_adapted()
    monkeypatch.setattr(features, "ROOM", 19 * 3 * 8 * 4 - 1)  # 19 tokens, 3 layers of 8 numbers
    assert FEATURES.precompute_vectors(adapted_model, ROWS) == (ROWS, 0.0)
    monkeypatch.setattr(features, "ROOM", 19 * 3 * 8 * 4)
    once, _ = FEATURES.precompute_vectors(adapted_model, ROWS)
    assert once != ROWS
    for rows in (once, ROWS, once):  # one network handles both kinds of rows
        assert loop.train(adapted_model, rows, chosen, 0, lambda: 1.0).steps == 6


def test_adaptations_that_train_the_encoder_precompute_nothing():
    assert load("finetune").precompute_vectors(Adapted, ROWS) == (ROWS, 0.0)


def test_the_estimate_counts_each_row_once():
    chosen = settings.defaults(Form.CLASSIFICATION, "features")
    assert chosen.rows_read(Split(500, 1.0, 20.0)) == 500 and chosen.rows_trained_on(Split(500, 1.0, 20.0)) == 4000
    limited = settings.changed(chosen, {"max_steps": 3, "batch": 32})
    assert limited.rows_read(Split(500, 1.0, 20.0)) == 96
