"""Compares GloVe with `mittens`, a package by Dingwall and Potts (2018), on the same random counts and tables."""

import sys
from importlib import metadata

import numpy as np
import pytest

from ptmbench.models.objectives import glove
from tests.models.frozen.word_vectors import WIDTH, cooccurrences

pytestmark = pytest.mark.reference
MODEL = "glove"


@pytest.fixture(scope="module")
def package():
    """Imports the NumPy part of mittens. The TensorFlow part would disable eager execution for the whole process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "mittens.tf_mittens", None)
        yield pytest.importorskip("mittens", reason="the reference needs mittens")


def test_cost_gradient_and_vectors(package, hold):
    counts, arrays = cooccurrences()
    assert (counts > glove.MOST).sum() > 50 and ((counts > 0) & (counts < 1)).sum() > 50
    model = package.GloVe(n=WIDTH, max_iter=0, test_mode=True, display_progress=0)
    assert model.framework == "NumPy"
    counts = counts.astype(np.float64)
    vectors = model.fit(counts, {name: array.astype(np.float64) for name, array in arrays.items()})
    weights, logarithms = model._initialize(counts)
    gradients, cost = model._get_gradients_and_error(model._make_prediction(), logarithms, weights)
    hold("glove", f"mittens {metadata.version('mittens')}", {}, {"cost": cost, "vectors": vectors, **gradients})
