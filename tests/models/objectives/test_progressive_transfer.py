"""Tests of MobileBERT's knowledge transfer: which weights are trained in each phase, and the student's initial weights.

Its losses are compared with the authors' equations in `tests.models.frozen.progressive_transfer`."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.bench.engine import objectives
from ptmbench.models.card import Size
from ptmbench.models.objectives.progressive_transfer import TRANSFER, phase_of
from ptmbench.models.text.tokenizers import Vocabulary

SIZE, WORDS = Size(layers=2, width=16, heads=2, inner=16, length=24), Vocabulary(size=50)


@pytest.fixture(scope="module")
def networks():
    """A teacher and a student with weights large enough for their outputs to differ."""
    student = models.load("mobilebert_pkt")
    teacher = models.load("ib_bert").build(student.TEACHER.size(SIZE), WORDS)
    rng = np.random.default_rng(0)
    for variable in teacher.loss.variables:
        variable.assign(rng.normal(0.0, 0.2, variable.shape) + (variable.name == "scale"))
    return SimpleNamespace(teacher=teacher, student=student.build(SIZE, WORDS, teacher))


def batch(**more):
    tokens = np.random.default_rng(1).integers(40, 50, (2, 8)).astype(np.int32)
    tokens[1, 6:] = 0
    noise = {"masked_positions": np.array([[1, 3], [2, 0]], np.int32), "masked_labels": np.full((2, 2), 45, np.int32)}
    noise |= {"masked_weights": np.array([[1, 1], [1, 0]], np.float32), "next": np.array([0, 1], np.int32)}
    return {"tokens": tokens, "segments": np.zeros_like(tokens), **noise, **more}


def losses_and_trained_paths(networks, progress):
    """Returns the scalars when ``progress`` is this share of the steps, and the paths of the variables with a
    gradient."""
    given = {name: tf.constant(value) for name, value in batch(progress=np.full(2, progress, np.float32)).items()}
    with tf.GradientTape() as tape:
        values = networks.student.loss(given)
    own = networks.student.loss.trainable_variables
    gradients = zip(own, tape.gradient(values["loss"], [variable.value for variable in own]), strict=True)
    pairs = {variable.path: tf.convert_to_tensor(gradient) for variable, gradient in gradients if gradient is not None}
    return values, {path for path, gradient in pairs.items() if np.abs(gradient).max() > 1e-9}


def test_phase_depends_on_the_share_of_the_steps():
    shares = np.array(
        [0.0, 0.9 * TRANSFER / 24, 1.1 * TRANSFER / 24, 0.99 * TRANSFER, 1.01 * TRANSFER, 1.0], np.float32
    )
    assert [int(phase_of(tf.constant(share), 24)) for share in shares] == [0, 0, 1, 23, 24, 24]


def test_layers_are_trained_one_by_one_and_then_all_weights(networks):
    for phase in (0, 1):
        values, paths = losses_and_trained_paths(networks, (phase + 0.5) / 2 * TRANSFER)
        assert paths and all(path.startswith(f"encoder/stack/layer_{phase}/") for path in paths), paths
        assert float(values["feature_loss"]) > 0 and float(values["mlm_loss"]) == 0
    values, paths = losses_and_trained_paths(networks, 1.0)
    own = {variable.path for variable in networks.student.loss.trainable_variables}
    assert not any("teacher" in path for path in own) and float(values["feature_loss"]) == 0
    assert {path for path in own - paths if "positions" not in path and "segments" not in path} <= {
        path for path in own if path.endswith("bias")
    }
    parts = (float(values[name]) for name in ("mlm_loss", "soft_loss", "nsp_loss"))
    mlm, soft, nsp = parts
    assert float(values["loss"]) == pytest.approx(0.5 * mlm + 0.5 * soft + nsp, rel=1e-5) and soft > 0


def test_loss_without_progress_is_that_of_the_last_phase(networks):
    values, _ = losses_and_trained_paths(networks, 1.0)
    assert float(networks.student.loss(batch())["loss"]) == pytest.approx(float(values["loss"]), rel=1e-5)


def test_layer_equal_to_its_teachers_has_zero_loss(networks):
    teacher = networks.teacher
    same = SimpleNamespace(student=models.load("mobilebert_pkt").build(SIZE, WORDS, teacher))
    same.student.loss.teacher = SimpleNamespace(encoder=same.student.encoder)
    values, _ = losses_and_trained_paths(same, 0.0)
    assert float(values["loss"]) < 1e-6


def test_student_is_initialised_with_the_teachers_embeddings_and_head(networks):
    ours = {variable.path: variable.numpy() for variable in networks.student.loss.variables}
    theirs = {variable.path: variable.numpy() for variable in networks.teacher.loss.variables}
    equal = {path for path in ours if path in theirs and np.array_equal(ours[path], theirs[path])}
    expected = [path for path in ours if path.startswith(("mlm/", "encoder/embeddings/")) and "norm" not in path]
    assert set(expected) <= equal and not any(path.startswith("encoder/stack/") for path in equal), equal


def test_training_batches_contain_the_progress(networks, monkeypatch):
    monkeypatch.setattr(objectives, "_batch_mistakes", lambda *_: [])
    network = SimpleNamespace(batches=networks.student.batches, loss=networks.student.loss)
    sampler = type(network.batches)(lambda *_: lambda step, seed: batch(), scheduled=True)
    network.batches = sampler
    make = objectives.batches_of(network, None, 2, 8, lambda: 10)
    assert make(5, 0)["progress"].tolist() == [0.5, 0.5] and make(10, 0)["progress"][0] == 1
    assert "progress" not in objectives.batches_of(network, None, 2, 8)(5, 0)
    assert objectives.batches_of(network, None, 2, 8, lambda: None)(5, 0)["progress"][0] == 0
