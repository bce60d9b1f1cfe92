"""GloVe against `mittens`, a program by Dingwall and Potts (2018), on the same random counts and tables."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.models.card import Size
from ptmbench.models.objectives import glove
from ptmbench.models.tokenizers import Vocabulary
from tests.models.references.differences import noted

pytestmark = pytest.mark.reference

TOLERANCE = 2e-5
WORDS, WIDTH = 40, 8


@pytest.fixture(scope="module")
def package():
    """Its NumPy half: the other one would switch eager TensorFlow off for the whole process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "mittens.tf_mittens", None)
        yield pytest.importorskip("mittens", reason="the reference needs mittens")


def test_cost_gradient_and_vectors(package):
    """The weights f(x) are in each. There it is half the sum over all pairs, here the mean over those that meet."""
    rng = np.random.default_rng(0)
    counts = np.exp(rng.uniform(-3, 8, (WORDS, WORDS))).astype(np.float32) * (rng.random((WORDS, WORDS)) < 0.4)
    assert (counts > glove.MOST).sum() > 50 and ((counts > 0) & (counts < 1)).sum() > 50
    names = {"W": (WORDS, WIDTH), "C": (WORDS, WIDTH), "bw": (WORDS, 1), "bc": (WORDS, 1)}
    arrays = {name: rng.normal(0, 0.7, shape).astype(np.float32) for name, shape in names.items()}

    loss = models.load("glove").build(Size(layers=0, width=WIDTH, length=64), Vocabulary(size=WORDS)).loss
    variables = [loss.encoder.table, loss.encoder.contexts.table, loss.bias, loss.context_bias]
    for variable, array in zip(variables, arrays.values(), strict=True):
        variable.assign(array.reshape(variable.shape))
    one, other = np.nonzero(counts)
    batch = {"tokens": one[None].astype(np.int32), "others": other[None].astype(np.int32)}
    batch["counts"] = counts[one, other][None].view(np.int32)
    with tf.GradientTape() as tape:
        value = loss(batch)["loss"]
    slopes = tape.gradient(value, [variable.value for variable in variables])

    model = package.GloVe(n=WIDTH, max_iter=0, test_mode=True, display_progress=0)
    assert model.framework == "NumPy"
    counts = counts.astype(np.float64)
    summed = model.fit(counts, {name: array.astype(np.float64) for name, array in arrays.items()})
    weights, logarithms = model._initialize(counts)
    gradients, cost = model._get_gradients_and_error(model._make_prediction(), logarithms, weights)

    assert noted("loss", abs(float(value) * len(one) / 2 / cost - 1)) < TOLERANCE
    for slope, name in zip(slopes, names, strict=True):
        ours = tf.convert_to_tensor(slope).numpy().reshape(names[name]) * len(one) / 2
        gap = np.abs(ours - gradients[name]).max() / np.abs(gradients[name]).max()
        assert noted("gradient", gap) < TOLERANCE, name
    vectors = loss.encoder({"tokens": np.arange(WORDS, dtype=np.int32)[None]}).tokens[0]
    assert noted("vectors", np.abs(vectors - summed).max()) < TOLERANCE
