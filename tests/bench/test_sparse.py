"""Pruning before fine-tuning: which weights are masked, and that they stay zero."""

import dataclasses

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench.adapt import built, heads
from ptmbench.bench.adapt.course import Bookmark
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.settings import SettingError, baked, defaults
from ptmbench.bench.adapt.sparse import Own
from ptmbench.bench.adapt.transforms import kernels
from ptmbench.bench.engine import packing
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs.answers import Context
from ptmbench.models.card import Size
from ptmbench.tasks.forms import Form
from tests.bench.cells import check_resumed, make
from tests.bench.test_condition_cells import kept
from tests.bench.test_transform_cells import transformed

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
def fresh_network(network, tokenizer):
    """The network at the start of a training."""
    network.reset(built.random_weights("bert", SHAPE, tokenizer, 1), 0)
    return network


def pruned(fresh_network):
    """Returns the pruned kernels as arrays."""
    return [one.kernel.numpy() for one in kernels.products(fresh_network)]


def begin(fresh_network, rows, settings):
    fresh_network.first(fresh_network, rows, settings, 0, Bookmark())


def learn(fresh_network, rows, settings, steps=2):
    begin(fresh_network, rows, settings)
    for number in range(steps):
        fresh_network.step(stack(rows), (0, number), 1e-2)


def smallest(kernel, share):
    """Returns NumPy's mask that removes the ``share`` of weights of smallest magnitude."""
    gone = np.argsort(np.abs(kernel), axis=None)[: round(share * kernel.size)]
    return ~np.isin(np.arange(kernel.size), gone).reshape(kernel.shape)


def test_the_smallest_pretrained_weights_are_zero_and_stay_zero(fresh_network, rows):
    before = pruned(fresh_network)
    learn(fresh_network, rows, Own(sparsity=0.75))
    for kernel, old in zip(pruned(fresh_network), before, strict=True):
        assert np.array_equal(kernel != 0, smallest(old, 0.75))
        assert not np.array_equal(kernel[kernel != 0], old[kernel != 0])


@pytest.mark.parametrize(("pattern", "shape"), [("2:4", (4, 1)), ("4x2", (4, 2))])
def test_patterns_remove_the_smallest_magnitudes(fresh_network, rows, pattern, shape):
    before = pruned(fresh_network)
    learn(fresh_network, rows, Own(pattern=pattern), steps=1)
    for kernel, old in zip(pruned(fresh_network), before, strict=True):
        blocks = [
            one.reshape(one.shape[0] // shape[0], shape[0], -1, shape[1]).swapaxes(1, 2) for one in (kernel, old)
        ]  # [I / i, O / o, i, o]
        if pattern == "2:4":
            left, magnitudes = (np.abs(one).reshape(-1, 4) for one in blocks)
            assert np.array_equal(np.sort(np.argsort(magnitudes)[:, :2]), np.argsort(left != 0, kind="stable")[:, :2])
        else:
            left, means = (np.abs(one).mean((2, 3)) for one in blocks)
            assert np.array_equal(left != 0, smallest(means, 0.5))


def test_controls_mask_random_weights_or_let_masked_weights_learn_again(fresh_network, rows, tokenizer):
    before = pruned(fresh_network)
    learn(fresh_network, rows, Own(by="random"), steps=1)
    drawn = [kernel != 0 for kernel in pruned(fresh_network)]
    for mask, old in zip(drawn, before, strict=True):
        assert mask.sum() == old.size / 2 and not np.array_equal(mask, smallest(old, 0.5))
    fresh_network.step.reset()  # a second training, as after another task: zero weights stay zero
    learn(fresh_network, rows, Own(by="random"), steps=1)
    assert all(np.array_equal(kernel != 0, mask) for kernel, mask in zip(pruned(fresh_network), drawn, strict=True))
    fresh_network.reset(built.random_weights("bert", SHAPE, tokenizer, 1), 0)
    begin(fresh_network, rows, Own(hold=0))
    assert {np.mean(kernel == 0) for kernel in pruned(fresh_network)} == {0.5}
    learn(fresh_network, rows, Own(hold=0), steps=1)
    assert all(np.mean(kernel == 0) < 0.1 for kernel in pruned(fresh_network))


def test_masks_are_saved_and_restored_with_the_training_state(fresh_network, rows):
    learn(fresh_network, rows, Own(), steps=1)
    weights, state = fresh_network.state(), fresh_network.step.state()
    learn(fresh_network, rows, Own(), steps=1)
    after = pruned(fresh_network)
    fresh_network.step.reset()
    begin(fresh_network, rows, Own(by="random"))
    fresh_network.restore(weights)
    fresh_network.step.restore(state)  # replaces the masks that a resumed cell has chosen
    fresh_network.step(stack(rows), (0, 0), 1e-2)
    masks = [kernel != 0 for kernel in pruned(fresh_network)]
    assert all(np.array_equal(mask, kernel != 0) for mask, kernel in zip(masks, after, strict=True))


def test_a_pattern_that_does_not_fit_is_rejected(fresh_network, rows):
    with pytest.raises(NotApplicable, match="cannot be divided by the pattern 5x1"):
        learn(fresh_network, rows, Own(pattern="5x1"))
    with pytest.raises(SettingError, match="pattern=2:4 fixes the sparsity at 0.5, but sparsity is 0.8"):
        Own(pattern="2:4", sparsity=0.8)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"by": "random", "hold": 0}])
def test_an_interrupted_cell_resumes_to_the_same_result(context, monkeypatch, changes):
    given = dataclasses.replace(context, shape=SHAPE)
    cell = make("sst2", "bert", "sparse", epochs=2, batch=16, sparsity=0.75, **changes)
    straight = check_resumed(cell, given, 3, monkeypatch, "zero_weights")
    assert (straight.cost["zero_weights"] > 0.1) == (not changes)


# Transforms ----------------------------------------------------------------------------------------------------------


def zero_shares(checkpoint):
    """Returns the share of zeros of each kernel of the first layer."""
    weights = packing.unpacked(checkpoint.arrays())
    return [np.mean(array == 0) for name, array in weights.items() if "/layer_0/" in name and name.endswith("kernel")]


@pytest.fixture(scope="module")
def sparse_models(world, tokenizer, tmp_path_factory):
    """For each value of ``hold``, a cell of `sparse` and the context with its adapted model."""
    shape, found = dataclasses.replace(SHAPE, layers=2), {}
    for hold in (0, 1):
        out = tmp_path_factory.mktemp("sparse")
        given = Context(data=world, out=out, shape=shape, tokenizer=tokenizer, source={"name": "microworld"})
        cell = make("sst2", "bert", "sparse", batch=16, sparsity=0.5, hold=hold)
        found[hold] = cell, kept(cell, given)
    return found


@pytest.mark.parametrize("asked", ["ffn:epochs=1+by=random", pytest.param("theseus:epochs=1", marks=pytest.mark.slow)])
def test_transforms_that_train_keep_the_zeros(sparse_models, tmp_path, asked):
    cell, given = sparse_models[1]
    _, ready = transformed(asked, cell, dataclasses.replace(given, out=tmp_path))
    assert min(zero_shares(ready.predictor)) > 0.4  # removed neurons take an uneven share of the zeros with them


def test_transforms_that_train_delete_no_weights_after_hold_0(sparse_models, tmp_path):
    """With a tiny learning rate, weights can only change if they are masked again."""
    cell, given = sparse_models[0]
    asked = "prune:sparsity=0+frequency=1+epochs=1+learning_rate=1e-8"
    _, ready = transformed(asked, cell, dataclasses.replace(given, out=tmp_path))
    before, after = (packing.unpacked(one.predictor.arrays()) for one in (given, ready))
    assert all(np.allclose(after[name], before[name], atol=1e-6) for name in before)
