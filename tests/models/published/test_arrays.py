"""Tensors in checkpoint files name their own offset, shape and strides. None may reach outside its file or storage."""

import json
import struct

import numpy as np
import pytest

from ptmbench.models.published import PublishedError, _arrays, _pickles, folder


def read_tensor(offset, shape, strides):
    tensor = _pickles.Tensor(_pickles.Storage("0", "<f4", 6), offset, shape, strides)
    tensors = _arrays._tensors({"a": tensor}, lambda storage: np.arange(6, dtype=np.float32), "x.bin")
    return tensors["a"]()


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [(0, (2, 3), (3, 1)), (0, (3, 2), (1, 3)), (2, (2, 2), (2, 1)), (5, (4,), (0,)), (9, (0, 2), (2, 1)), (3, (), ())],
)
def test_strided_views_of_a_storage(offset, shape, strides):
    """Entry (i, j, ...) is at offset + i s_0 + j s_1 + ..."""
    expected = np.array([offset + np.dot(place, strides) for place in np.ndindex(shape)]).reshape(shape)
    np.testing.assert_array_equal(read_tensor(offset, shape, strides), expected)


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (7,), (1,)),
        (-1, (2,), (1,)),
        (4, (2, 2), (2, 1)),
        (1, (2, 2), (-2, 3)),
        (5, (2,), (-1,)),
        (1, (-2, -2), (1, 1)),
        (0, (10**9, 10**9), (0, 0)),
        (5, (7,), (0,)),
    ],
)
def test_view_outside_its_storage_is_refused(offset, shape, strides):
    """With a negative stride, an entry can be before the storage although the last one is inside. In the fourth case,
    entry (1, 0) is at -1."""
    with pytest.raises(PublishedError, match="damaged or cut short"):
        read_tensor(offset, shape, strides)


@pytest.mark.parametrize(
    "header",
    [
        '{"a": {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]}}',
        '{"a": {"dtype": "F32", "shape": [2.0, 2], "data_offsets": [0, 16]}}',
        '{"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [-16, 0]}}',
        "[" * 200_000,
    ],
)
def test_invalid_safetensors_header_is_refused(header, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(16))
    with pytest.raises(PublishedError, match="damaged or cut short"):
        _arrays.safetensors(path)


def test_index_without_arrays_is_refused(tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {}}))
    with pytest.raises(PublishedError, match="does not name files of this folder"):
        folder._open(tmp_path)
