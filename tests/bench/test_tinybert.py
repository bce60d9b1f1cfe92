"""TinyBERT's task distillation: alignment of teacher states, incompatible models, and the estimated cost."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.tinybert import Own, network
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs.estimate import cell_cost
from ptmbench.models.layers.operations import HIDDEN
from tests.bench.cells import make
from tests.bench.test_distil import classified


def encoder(depth=2, heads=4, width=8):
    return SimpleNamespace(depth=depth, heads=heads, width=width)


def test_incompatible_teachers_and_students_are_rejected():
    rows = [classified(0, 0), classified(1, 1)]
    network.check(encoder(depth=4, width=16), encoder(), rows, rows, "uniform")
    network.check(encoder(depth=3), encoder(), rows, rows, "top")
    for teacher, student, why in (
        (encoder(heads=2), encoder(), "has 4 attention heads and the teacher has 2. Name models"),
        (encoder(depth=3), encoder(), "because the student has 2 layers and the teacher 3.* choose map=top"),
        (SimpleNamespace(width=8), encoder(), "need layers with attention"),
        (encoder(), SimpleNamespace(width=8, depth=2), "need layers with attention"),
    ):
        with pytest.raises(NotApplicable, match=why):
            network.check(teacher, student, rows, rows, "uniform")
    other = dataclasses.replace(rows[1], arrays={**rows[1].arrays, "tokens": np.array([1, 2, 3], np.int32)})
    with pytest.raises(NotApplicable, match="read different tokens. Give both the same length"):
        network.check(encoder(depth=4), encoder(), rows, [rows[0], other], "uniform")


@pytest.mark.parametrize("length", [3, 5, 7])
def test_teacher_states_of_other_lengths_are_truncated_or_padded(length):
    rng = np.random.default_rng(0)
    batch = {"tokens": np.array([[7, 7, 7, 7, 7], [7, 7, 7, 7, 0]], np.int32)}
    teacher_batch = {"tokens": np.full((2, length), 7, np.int32)}
    teacher_batch["tokens"][0, 2:] = 0
    teacher_states = {
        "layers": rng.normal(size=(2, 3, length, 4)),
        "scores": rng.normal(size=(2, 2, 3, length, length)),
    }
    found = network.with_states(batch, teacher_batch, teacher_states)
    assert found["layers"].shape == (2, 3, 5, 4) and found["scores"].shape == (2, 2, 3, 5, 5)
    both = min(length, 5)
    assert (found["layers"][:, :, :both] == teacher_states["layers"][:, :, :both]).all()
    assert (found["scores"][..., :both, :both] == teacher_states["scores"][..., :both, :both]).all()
    assert not found["layers"][:, :, both:].any() and not found["scores"][..., both:, :].any()
    assert found["present"].sum(1).tolist() == [2, min(4, length)] and found["present"].dtype == np.float32
    assert "layers" not in batch


def test_pairs_that_a_causal_mask_hides_do_not_count():
    rng = np.random.default_rng(1)
    present, causal = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.float32), np.tril(np.ones((4, 4)))
    hidden = np.where(causal * present[:, None] == 1, 0.0, HIDDEN)[:, None]
    ours, theirs = (tf.constant(rng.normal(0, 100, (2, 3, 4, 4)), tf.float32) for _ in range(2))
    masked = [one + tf.constant(hidden, tf.float32) for one in (ours, theirs)]
    expected = causal * present[:, :, None] * present[:, None]
    assert expected.sum() == 10 + 3
    for scores in (masked, [ours, masked[1]]):  # of a causal and a bidirectional network, what both see
        assert (network.seen_pairs(tf.constant(present), scores).numpy() == expected).all()
    assert network.seen_pairs(tf.constant(present), [ours, theirs]).numpy().sum() == 16 + 4


def test_the_loss_of_causal_encoders_is_a_mean_over_the_pairs_that_both_see(monkeypatch):
    rng = np.random.default_rng(2)
    ours, theirs = rng.normal(0, 1, (2, 1, 3, 4, 4)), rng.normal(0, 1, (2, 1, 3, 4, 4))  # [M, B, H, T, T]
    hidden = np.where(np.tril(np.ones((4, 4))) == 1, 0.0, HIDDEN)
    vectors = [tf.zeros((1, 4, 2))] * 3
    states = SimpleNamespace(
        layers=vectors, attentions=[SimpleNamespace(scores=tf.constant(one + hidden, tf.float32)) for one in ours]
    )
    monkeypatch.setattr(network, "_states", lambda *_: states)
    stage = network.First(SimpleNamespace(encoder=None))
    stage.fit = lambda x: x
    scores = tf.constant(np.stack(theirs, 1) + hidden, tf.float32)
    found = stage._loss({"layers": tf.stack(vectors, 1), "scores": scores, "present": tf.ones((1, 4))}, None)
    seen = hidden == 0
    expected = sum(((a - b)[..., seen] ** 2).mean() for a, b in zip(ours, theirs, strict=True))
    assert abs(float(found["loss"]) - expected) <= 1e-5 * expected


def test_default_settings_and_invalid_values():
    assert Own().alpha == 1 and Own().temperature == 1 and Own(alpha=0.0).of("sst2").teacher == ""
    for wrong in ({"map": "middle"}, {"inner_epochs": 0}, {"teacher": "bert mini"}):
        with pytest.raises(settings.SettingError):
            settings.changed(Own(), wrong)


def test_the_estimate_counts_both_stages(world):
    taught = make("sst2", "bert", "tinybert", inner_epochs=2)
    alone = dataclasses.replace(taught, settings={**taught.settings, "teacher": ""})
    longer = make("sst2", "bert", "tinybert", inner_epochs=4)
    costs = [cell_cost(one, world, {}, None) for one in (alone, taught, longer)]
    (tokens, flops, _), (more, taught_flops, _), (most, longest, _) = costs
    assert more - tokens == pytest.approx(most - more), "two more passes each"
    assert flops < taught_flops < longest and longest - taught_flops < taught_flops - flops, "which asks once more"
