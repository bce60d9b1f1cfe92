"""Compares our networks with arrays that other implementations computed with the same weights
(`tests.models.frozen`)."""

import pytest

from tests.models import frozen
from tests.models.frozen import (
    bottleneck,
    distillation,
    ernie_thu,
    inner_distillation,
    keras_hub,
    networks,
    progressive_transfer,
    recurrent,
    regions,
    word_vectors,
    xlm,
)

_MODULES = (
    bottleneck,
    distillation,
    ernie_thu,
    inner_distillation,
    keras_hub,
    networks,
    progressive_transfer,
    recurrent,
    regions,
    word_vectors,
    xlm,
)
OURS = {name: compute for module in _MODULES for name, compute in module.OURS.items()}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if "beams" in name else ()) for name in frozen.names()]
)
def test_outputs_match_the_reference(name):
    frozen_arrays = frozen.read(name)
    frozen.compare(OURS[name](frozen_arrays), frozen_arrays.expected, frozen_arrays.tolerance)


def test_every_comparison_has_frozen_arrays():
    assert frozen.names() == sorted(OURS)
    assert all(" " in frozen.read(name).about for name in OURS)  # the packages and the command that wrote it
