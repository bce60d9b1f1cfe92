"""Tensors of a pickle that say of themselves where they lie: none may reach beyond the storage that it names."""

import numpy as np
import pytest

from models.published import PublishedError, _arrays


def made(offset, shape, strides):
    tensor = _arrays._Tensor(_arrays._Storage("0", "<f4"), offset, shape, strides)
    found = _arrays._tensors({"a": tensor}, lambda key, kind: np.arange(6, dtype=np.float32), "x.bin")
    return found["a"]()


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [(0, (2, 3), (3, 1)), (0, (3, 2), (1, 3)), (2, (2, 2), (2, 1)), (5, (4,), (0,)), (9, (0, 2), (2, 1)), (3, (), ())],
)
def test_views_of_a_storage(offset, shape, strides):
    """Entry (i, j, ...) stands at offset + i s_0 + j s_1 + ..."""
    expected = np.array([offset + np.dot(place, strides) for place in np.ndindex(shape)]).reshape(shape)
    np.testing.assert_array_equal(made(offset, shape, strides), expected)


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (7,), (1,)),
        (-1, (2,), (1,)),
        (4, (2, 2), (2, 1)),
        (1, (2, 2), (-2, 3)),
        (5, (2,), (-1,)),
        (1, (-2, -2), (1, 1)),
    ],
)
def test_what_lies_outside_is_damage(offset, shape, strides):
    """A negative stride reaches before the storage though the last entry lies inside: (1, 0) of the fourth is at -1."""
    with pytest.raises(PublishedError, match="damaged or cut short"):
        made(offset, shape, strides)
