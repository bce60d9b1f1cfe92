"""Pruning before fine-tuning: which weights are masked, and that they stay zero."""

import dataclasses

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench.adapt import built, heads
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.settings import SettingError, baked, defaults
from ptmbench.bench.adapt.sparse import Own
from ptmbench.bench.adapt.transforms import kernels
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.card import Size
from ptmbench.tasks.forms import Form
from tests.bench.cells import check_resumed, make

SHAPE = Size(layers=1, width=32, heads=4, inner=24, length=96)
CLASSES = Form.CLASSIFICATION


@pytest.fixture(scope="module")
def rows(world, tokenizer):
    task = tasks.load("sst2")
    examples = task.examples(world, "train")[:4]
    return heads.of(CLASSES, "finetune").Codec(task, tokenizer, defaults(CLASSES, "finetune"), examples).rows(examples)


@pytest.fixture(scope="module")
def network(tokenizer):
    own = baked(Own(dropout=0.0))
    return built.traced.__wrapped__("bert", SHAPE, tokenizer, CLASSES, "sparse", 2, own, (), (), None)


@pytest.fixture
def found(network, tokenizer):
    """The network at the beginning of a training."""
    network.reset(built.random_weights("bert", SHAPE, tokenizer, 1), 0)
    return network


def pruned(found):
    """The kernels that are pruned, as arrays."""
    return [one.kernel.numpy() for one in kernels.products(found)]


def learn(found, rows, settings, steps=2):
    for number in range(steps):
        found.make(rows, settings, (0, number))
        found.step(stack(rows), (0, number), 1e-2)


def smallest(kernel, share):
    """NumPy's mask of the ``share`` of weights that are smallest in magnitude."""
    gone = np.argsort(np.abs(kernel), axis=None)[: round(share * kernel.size)]
    return ~np.isin(np.arange(kernel.size), gone).reshape(kernel.shape)


def test_the_smallest_pretrained_weights_are_zero_and_stay_zero(found, rows):
    before = pruned(found)
    learn(found, rows, Own(sparsity=0.75))
    for kernel, old in zip(pruned(found), before, strict=True):
        assert np.array_equal(kernel != 0, smallest(old, 0.75))
        assert not np.array_equal(kernel[kernel != 0], old[kernel != 0])


@pytest.mark.parametrize(("pattern", "shape"), [("2:4", (4, 1)), ("4x2", (4, 2))])
def test_patterns_are_those_of_the_magnitudes(found, rows, pattern, shape):
    before = pruned(found)
    learn(found, rows, Own(pattern=pattern), steps=1)
    for kernel, old in zip(pruned(found), before, strict=True):
        blocks = [
            one.reshape(one.shape[0] // shape[0], shape[0], -1, shape[1]).swapaxes(1, 2) for one in (kernel, old)
        ]  # [I / i, O / o, i, o]
        if pattern == "2:4":
            left, magnitudes = (np.abs(one).reshape(-1, 4) for one in blocks)
            assert np.array_equal(np.sort(np.argsort(magnitudes)[:, :2]), np.argsort(left != 0, kind="stable")[:, :2])
        else:
            left, means = (np.abs(one).mean((2, 3)) for one in blocks)
            assert np.array_equal(left != 0, smallest(means, 0.5))


def test_the_controls_mask_other_weights_or_let_them_learn_again(found, rows, tokenizer):
    before = pruned(found)
    learn(found, rows, Own(by="random"), steps=1)
    drawn = [kernel != 0 for kernel in pruned(found)]
    for mask, old in zip(drawn, before, strict=True):
        assert mask.sum() == old.size / 2 and not np.array_equal(mask, smallest(old, 0.5))
    found.step.reset()  # a further training, of a transform: the weights that are zero stay zero
    learn(found, rows, Own(by="random"), steps=1)
    assert all(np.array_equal(kernel != 0, mask) for kernel, mask in zip(pruned(found), drawn, strict=True))
    found.reset(built.random_weights("bert", SHAPE, tokenizer, 1), 0)
    found.make(rows, Own(hold=0), (0, 0))
    assert {np.mean(kernel == 0) for kernel in pruned(found)} == {0.5}
    learn(found, rows, Own(hold=0), steps=1)
    assert all(np.mean(kernel == 0) < 0.1 for kernel in pruned(found))


def test_masks_are_a_part_of_the_saved_state(found, rows):
    learn(found, rows, Own(), steps=1)
    weights, state = found.state(), found.step.state()
    learn(found, rows, Own(), steps=1)
    after = pruned(found)
    found.step.reset()
    found.restore(weights)
    found.step.restore(state)
    learn(found, rows, Own(by="random"), steps=1)  # masks are not chosen again
    masks = [kernel != 0 for kernel in pruned(found)]
    assert all(np.array_equal(mask, kernel != 0) for mask, kernel in zip(masks, after, strict=True))


def test_a_pattern_that_does_not_fit_is_told(found, rows):
    with pytest.raises(NotApplicable, match="cannot be divided by the pattern 5x1"):
        learn(found, rows, Own(pattern="5x1"))
    with pytest.raises(SettingError, match="pattern=2:4 fixes the sparsity at 0.5, but sparsity is 0.8"):
        Own(pattern="2:4", sparsity=0.8)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"by": "random", "hold": 0}])
def test_a_cell_that_was_stopped_ends_the_same(context, monkeypatch, changes):
    given = dataclasses.replace(context, shape=SHAPE)
    cell = make("sst2", "bert", "sparse", epochs=2, batch=16, sparsity=0.75, **changes)
    straight = check_resumed(cell, given, 3, monkeypatch, "zero_weights")
    assert (straight.cost["zero_weights"] > 0.1) == (not changes)
