"""Tests of convolutional cells against NumPy: every operation, the graph of a cell, the mix of depths, and padding."""

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.layers.cells import Choice, shift_in_window
from ptmbench.models.layers.cells_config import CONVOLUTIONS, OPERATIONS, CellStackConfig, OperationConfig
from ptmbench.models.layers.config import from_dict
from ptmbench.models.layers.core import Rows, built
from ptmbench.models.layers.embeddings import padding_bias

D, T = 6, 7
SOME = ("conv5", "dilated3", "mean3", "skip", "zero")
EVERY = tuple((source, target, SOME) for target in (2, 3) for source in range(target))


def with_random_weights(layer, seed=0):
    """Returns ``layer`` with different random values for all weights."""
    rng = np.random.default_rng(seed)
    for variable in layer.variables:
        variable.assign(rng.normal(variable.path.endswith("scale"), 0.3, variable.shape))
    return layer


def reference(kind, x, layer):
    """The operation ``kind`` of ``x`` float64 [T, D], one token at a time."""
    if kind == "skip":
        return x
    if kind == "zero":
        return 0 * x
    r, window, rate = np.maximum(x, 0), int(kind[-1]), 2 if kind.startswith("dilated") else 1
    result = np.zeros_like(x)
    for t in range(len(x)):
        places = [t + rate * (offset - window // 2) for offset in range(window)]
        seen = [r[p] if 0 <= p < len(x) else None for p in places]
        if kind == "max3":
            result[t] = np.max([one for one in seen if one is not None], axis=0)
        elif kind == "mean3":
            result[t] = np.mean([one for one in seen if one is not None], axis=0)
        else:
            kernel = layer.filters.kernel.numpy().astype(np.float64).reshape(window, D, D)
            v = sum(one @ kernel[i] for i, one in enumerate(seen) if one is not None) + layer.filters.bias.numpy()
            result[t] = (v - v.mean()) / np.sqrt(v.var() + 1e-12) * layer.norm.scale.numpy() + layer.norm.bias.numpy()
    return result


def softmax(x):
    return np.exp(x) / np.exp(x).sum()


@pytest.mark.parametrize("kind", OPERATIONS)
def test_operations_match_numpy_and_ignore_padding(kind):
    layer = with_random_weights(built(OperationConfig(width=D, kind=kind), name="operation"))
    x = np.random.default_rng(1).normal(size=(2, T, D)).astype(np.float32)
    lengths = (T, 4)
    present = (np.arange(T)[None] < np.array(lengths)[:, None]).astype(np.float32)[:, :, None]
    result = layer(tf.constant(x), tf.constant(present)).numpy()
    for row, length in enumerate(lengths):
        expected = reference(kind, x[row, :length].astype(np.float64), layer)
        assert np.abs(result[row, :length] - expected).max() <= 1e-5
    assert bool(layer.variables) == (kind in CONVOLUTIONS)


def test_windows_are_centred():
    x = tf.reshape(tf.range(1, 6, dtype=tf.float32), [1, 5, 1])
    result = [one.numpy().ravel().tolist() for one in shift_in_window(x, 3, 2, 0.0)]
    assert result == [[0, 0, 1, 2, 3], [1, 2, 3, 4, 5], [3, 4, 5, 0, 0]]


def test_stack_matches_its_graph():
    """Two cells of two nodes. The second node has an edge from each input and none from the first node."""
    edges = ((0, 2, ("conv3",)), (1, 2, ("skip",)), (0, 3, ("max3",)), (1, 3, ("dilated5",)))
    config = CellStackConfig(width=D, layers=2, nodes=2, edges=edges)
    stack = with_random_weights(built(config, name="stack"))
    x = np.random.default_rng(2).normal(size=(1, T, D)).astype(np.float32)
    tokens = np.ones((1, T), np.int32)
    flat = stack(tf.constant(x[0]), padding_bias(tokens), rows=Rows(1, T))
    assert len(flat) == config.dims[1] + 1
    layers = [x[0].astype(np.float64)]
    for index in range(2):
        before, last, cell = layers[max(0, index - 1)], layers[-1], getattr(stack, f"cell_{index}")
        first = reference("conv3", before, cell.edge_0_2.conv3) + last
        second = reference("max3", before, None) + reference("dilated5", last, cell.edge_1_3.dilated5)
        mix = softmax(cell.mix.numpy().astype(np.float64))
        layers.append(mix[0] * first + mix[1] * second)
    layers.append(sum(a * one for a, one in zip(softmax(stack.mix_2.numpy().astype(np.float64)), layers, strict=True)))
    assert max(np.abs(a.numpy() - b).max() for a, b in zip(flat, layers, strict=True)) <= 2e-5


def test_parameters_and_flops_match_the_weights():
    config = CellStackConfig(width=D, layers=3, nodes=2, edges=EVERY[:2])
    stack = built(config, name="stack")
    assert config.parameters().total == sum(int(np.prod(v.shape)) for v in stack.variables)
    assert config.flops(10) == 3 * 2 * 2 * 10 * D * D * (5 + 3)
    assert from_dict(config.to_dict()) == config


def test_choice_weights_operations_and_depths():
    """One-hot weights give the output of a stack with these operations only. Without a choice, all operations have
    equal weights."""
    kinds, depth = ("conv5", "mean3", "skip", "zero", "dilated3"), 1
    relaxed = with_random_weights(built(CellStackConfig(width=D, layers=2, nodes=2, edges=EVERY), name="stack"))
    edges = tuple((*edge[:2], (kind,)) for edge, kind in zip(EVERY, kinds, strict=True) if kind != "zero")
    alone = built(CellStackConfig(width=D, layers=depth, nodes=2, edges=edges), name="stack")
    known = {variable.path: variable for variable in relaxed.variables}
    for variable in alone.variables:
        variable.assign(known[variable.path])
    rng, tokens = np.random.default_rng(3), np.array([[5, 5, 5, 5], [5, 5, 0, 0]], np.int32)
    x, given = tf.constant(rng.normal(size=(8, D)), tf.float32), (padding_bias(tokens),)
    one_hot = np.eye(len(SOME), dtype=np.float32)[[SOME.index(kind) for kind in kinds]]
    relaxed.choice = Choice(tf.constant(one_hot), tf.constant(np.eye(2, dtype=np.float32)[depth - 1]))
    present = tokens.ravel() > 0
    chosen = relaxed(x, *given, rows=Rows(2, 4))[-1].numpy()[present]
    assert np.abs(chosen - alone(x, *given, rows=Rows(2, 4))[-1].numpy()[present]).max() <= 1e-6
    relaxed.choice = Choice(tf.fill([5, 5], 0.2), tf.constant([0.0, 1.0]))
    mean = relaxed(x, *given, rows=Rows(2, 4))[-1].numpy()
    relaxed.choice = None
    assert np.abs(mean - relaxed(x, *given, rows=Rows(2, 4))[-1].numpy()).max() <= 1e-6
    assert np.abs(mean[present] - chosen).max() > 1e-2
