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


def made(model="bert", form=Form.CLASSIFICATION, **changes):
    chosen = settings.changed(settings.defaults(form, "features"), {"batch": 2, "epochs": 3, "length": 16} | changes)
    found = adapted(model, SHAPE, TOKENIZER, form, "features", 4, chosen)
    found.reset(random_weights(model, SHAPE, TOKENIZER, 1), 0)
    return found, chosen


def row(number, *tokens):
    """A text, or texts side by side where ``tokens`` are tuples."""
    tokens = np.array(tokens, np.int32)
    arrays = {"tokens": tokens, "segments": tokens * 0 + (np.arange(tokens.shape[-1]) > 2)}
    label = {"choice" if tokens.ndim == 2 else "label": np.int32(number % 2)}
    return InputRow(arrays | label | {"unused": np.zeros(4, np.float32)}, number)


ROWS = [row(0, 1, 7, 8, 9, 2), row(1, 1, 10, 11, 2), row(2, 1, 12, 7, 13, 9, 14, 2), row(3, 1, 14, 2)]
CHOICES = [row(0, (1, 7, 8, 2), (1, 9, 2, 0)), row(1, (1, 12, 13, 14, 2), (1, 8, 7, 6, 2))]


@pytest.mark.parametrize("layers", ["all", "top", "embedding"])
@pytest.mark.parametrize("model", ["bert", "xlnet", "elmo", "bart"])
def test_a_row_that_was_read_once_gives_the_same_numbers_and_gradients(model, layers):
    found, _ = made(model, layers=layers)
    once, flops = FEATURES.precompute_vectors(found, ROWS)
    assert [one.arrays[LAYERS].shape for one in once] == [(length, found.reading.read * 8) for length in (5, 4, 7, 3)]
    assert np.allclose(loop.outputs(found, once), loop.outputs(found, ROWS), atol=1e-5)
    before = found.state()
    states = []
    for rows in (ROWS, once):
        found.restore(before)
        found.step.reset()
        found.step(stack(rows), (0, 0), 0.01)
        states.append(found.state())
    for plain, known in zip(*states, strict=True):
        assert np.allclose(plain, known, atol=1e-4)
    assert any(not np.allclose(known, old, atol=1e-3) for known, old in zip(states[1], before, strict=True))
    assert flops == found.forward_flops(ROWS) == found.training_flops(ROWS)


def test_texts_side_by_side_are_read_once_too():
    found, _ = made(form=Form.CHOICE)
    once, _ = FEATURES.precompute_vectors(found, CHOICES)
    assert [one.arrays[LAYERS].shape for one in once] == [(2, 4, 24), (2, 5, 24)]
    assert np.allclose(loop.outputs(found, once), loop.outputs(found, CHOICES), atol=1e-5)


def test_what_was_read_costs_nothing_to_read_again():
    found, _ = made()
    once, _ = FEATURES.precompute_vectors(found, ROWS)
    assert found.forward_flops(once) == found.training_flops(once) == 0.0  # heads are not counted


def test_training_asks_the_encoder_for_nothing(monkeypatch):
    found, chosen = made("gpt")
    once, _ = FEATURES.precompute_vectors(found, ROWS)
    plain = loop.train(found, ROWS, chosen, 3, lambda: 1.0)
    expected = found.state()
    found, chosen = made("gpt")
    width = found.network.encoder.width
    monkeypatch.setattr(found, "network", SimpleNamespace(encoder=SimpleNamespace(width=width)))  # which reads nothing
    monkeypatch.setattr(found.step, "_functions", {})
    course = loop.train(found, once, chosen, 3, lambda: 1.0)
    assert course.steps == plain.steps and course.flops == 0.0 < plain.flops
    for one, other in zip(found.state(), expected, strict=True):
        assert np.allclose(one, other, atol=1e-4)


def test_a_training_that_was_stopped_reads_the_rows_again_and_ends_the_same(tmp_path):
    """Bit for bit, whatever else the network has read before."""

    class Stopped(BaseException):
        pass

    def ended(folder=None, stop=None):
        found, chosen = made("gpt")
        once, _ = FEATURES.precompute_vectors(found, ROWS)
        looks = iter(range(10))

        def score():
            if next(looks) == stop:
                raise Stopped
            return 1.0

        loop.train(found, once, chosen, 3, score, Bookmark(folder, -1.0, lambda line: None))
        return [array.tolist() for array in found.state()]

    straight = ended()
    with pytest.raises(Stopped):
        ended(tmp_path, 1)
    made("gpt")[0].forward(stack(ROWS[:1]))
    assert ended(tmp_path) == straight


def test_without_room_for_its_vectors_a_row_is_read_in_each_step(monkeypatch):
    found, chosen = made()
    monkeypatch.setattr(features, "ROOM", 19 * 3 * 8 * 4 - 1)  # 19 tokens, 3 layers of 8 numbers
    assert FEATURES.precompute_vectors(found, ROWS) == (ROWS, 0.0)
    monkeypatch.setattr(features, "ROOM", 19 * 3 * 8 * 4)
    once, _ = FEATURES.precompute_vectors(found, ROWS)
    assert once != ROWS
    for rows in (once, ROWS, once):  # one network serves both kinds
        assert loop.train(found, rows, chosen, 0, lambda: 1.0).steps == 6


def test_an_adaptation_that_changes_the_encoder_reads_it_each_time():
    assert load("finetune").precompute_vectors(Adapted, ROWS) == (ROWS, 0.0)


def test_the_plan_expects_each_row_to_be_read_once():
    chosen = settings.defaults(Form.CLASSIFICATION, "features")
    assert chosen.rows_read(Split(500, 1.0, 20.0)) == 500 and chosen.rows_trained_on(Split(500, 1.0, 20.0)) == 4000
    few = settings.changed(chosen, {"max_steps": 3, "batch": 32})
    assert few.rows_read(Split(500, 1.0, 20.0)) == 96
