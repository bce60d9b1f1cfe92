"""Transforms in isolation: storage of zeros and int8 codes, names and settings, and the masks of pruning."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from ptmbench.bench.adapt import transforms
from ptmbench.bench.adapt.settings import SettingError
from ptmbench.bench.adapt.transforms.prune import Settings
from ptmbench.bench.engine import packing
from ptmbench.bench.errors import UsageError
from tests.bench.processes import ROOT

RNG = np.random.default_rng(7)


# Storage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_zeros_are_not_stored_and_are_restored_bit_for_bit(share, dtype):
    array = (RNG.normal(size=(37, 11)) * 20).astype(dtype)
    array[RNG.random(array.shape) < share] = 0
    if dtype != "int8":
        array[0, :3] = [-0.0, np.nan, np.inf]  # -0.0 has a bit set, so it is kept
    stored = packing.sparse("x", array)
    found = packing.unpacked(stored | {"y": array})
    assert found.keys() == {"x", "y"} and found["x"].dtype == array.dtype and found["x"].shape == array.shape
    assert found["x"].tobytes() == array.tobytes()
    bits = array.view(f"u{array.itemsize}")
    size = packing.size_of(stored, "x")
    assert (size.entries, size.bits) == (array.size, 8 * array.itemsize)
    if "x" in stored:  # stored whole, because that is as small
        assert np.mean(bits == 0) < 0.2
    else:
        assert size.zeros == np.sum(bits == 0)
        assert sum(one.nbytes for one in stored.values()) < array.nbytes + 16


def test_a_table_of_int8_codes_is_unpacked_to_floats():
    codes, scales = RNG.integers(-127, 128, (5, 3)).astype(np.int8), RNG.random((5, 1)).astype(np.float32) + 1
    codes[0] = 0
    stored = packing.as_codes("table", codes, scales)
    assert np.array_equal(packing.unpacked(stored)["table"], codes.astype(np.float32) / scales)
    assert packing.size_of(stored, "table") == (15, int(np.sum(codes == 0)), 8)


def test_the_size_of_all_weights_matches_hand_computed_values():
    """By hand: 6 float32 weights with 1 zero, 40 of 80 float32 kept, 4 float16, 6 codes of a kernel, 15 of a table."""
    plain = np.array([[1, 2, 0], [4, 5, 6]], np.float32)
    half = np.where(np.arange(80) % 2, 1, 0).astype(np.float32)
    kernel, scales = np.array([[1, 0], [2, 3], [4, 5]], np.int8), np.ones(2, np.float32)
    table = packing.as_codes("table", np.ones((5, 3), np.int8), np.ones((5, 1), np.float32))
    stored = {"bias": plain, "norm": np.ones(4, np.float16), "kernel": kernel, "kernel_scale": scales}
    stored |= packing.sparse("sparse", half) | table
    assert "sparse#mask" in stored
    whole = packing.size_of_all(stored)
    assert (whole.entries, whole.zeros) == (6 + 80 + 4 + 6 + 15, 1 + 40 + 1)
    assert whole.bits == (86 * 32 + 4 * 16 + 21 * 8) / 111
    assert packing.size_of_all({"kernel": plain, "kernel_scale": scales}).entries == 8  # no codes, so not scales


# Names and settings --------------------------------------------------------------------------------------------------


def test_different_spellings_of_a_transform_have_one_name():
    asked = ("int8", "int8:activations=1", "int8:activations=0", "prune:sparsity=.80", "prune:pattern=2:4")
    names = [one.title for text in asked for one in transforms.choose(text)]
    assert names == ["int8", "int8", "int8:activations=0", "prune:sparsity=0.8", "prune:pattern=2:4"]
    for text in names:
        (chosen,) = transforms.choose(text)
        assert transforms.read(chosen.recorded()) == chosen


@pytest.mark.parametrize(
    ("asked", "error", "told"),
    [
        ("squeeze", UsageError, f"There is no transform 'squeeze'. Choices: {', '.join(transforms.names())}."),
        ("prune:sparsity", UsageError, "'prune:sparsity' is not a transform with settings; one is prune:sparsity=0.8"),
        ("prune:sparsity=1", SettingError, "sparsity=1 is not valid. Expected: from 0 to below 1"),
        ("prune:sparsity=0.8+pattern=2:4", SettingError, "pattern=2:4 fixes the sparsity at 0.5, but sparsity is 0.8"),
        ("prune:initial=0.7", SettingError, "initial=0.7 is above sparsity=0.5"),
        ("prune:pattern=4:2", SettingError, "pattern=4:2 is not valid"),
        ("heads:share=1", SettingError, "share=1 is not valid. Expected: from 0 to below 1"),
        ("layers:keep=2.1", SettingError, "keep=2.1 is not valid. Expected: numbers of layers from 1 with a . between"),
        ("layers:keep=1+by=bottom", SettingError, "keep=1 names the layers that stay. Leave out share and by."),
        (
            "layers:epochs=0+learning_rate=1e-4",
            SettingError,
            "learning_rate=0.0001 has no effect with epochs=0",
        ),
        ("prune:pattern=2:4+initial=0.3", SettingError, "initial=0.3 has no effect with pattern=2:4, which sets"),
        ("prune:schedule=constant+ramp=0.9", SettingError, "ramp=0.9 has no effect with schedule=constant, which sets"),
        ("prune:pattern=2:4+frequency=7", SettingError, "frequency=7 has no effect with pattern=2:4, which sets"),
        ("qat:activations=0+calibration=7", SettingError, "calibration=7 has no effect with activations=0"),
        ("qbert:activations=0+calibration=7", SettingError, "calibration=7 has no effect with activations=0"),
        ("adabert:size=1000", SettingError, "size=1000 has no effect with by=search"),
        ("prune:sparsity=0.5+sparsity=0.8", SettingError, "prune:sparsity=0.5+sparsity=0.8 gives sparsity twice"),
        ("prune:head=2", SettingError, "Expected: a whole number, 0 (off) or 1 (on)."),
        ("int8:bits=4", SettingError, "There is no setting 'bits' here. Choices: activations, embeddings"),
    ],
)
def test_invalid_transforms_are_rejected_before_anything_runs(asked, error, told):
    with pytest.raises(error, match=re.sub(r"[\[()+]", r"\\\g<0>", told)):
        transforms.choose(asked)


@pytest.mark.parametrize(("pattern", "sparsity"), [("1:3", "0.333333"), ("2:3", "0.666667"), ("1:6", "0.166667")])
def test_the_sparsity_that_a_pattern_asks_for_is_accepted(pattern, sparsity):
    with pytest.raises(SettingError, match=f"Add sparsity={sparsity}, or leave the pattern out"):
        transforms.choose(f"prune:pattern={pattern}")
    (chosen,) = transforms.choose(f"prune:pattern={pattern}+sparsity={sparsity}")
    assert chosen.settings.zeros == tuple(map(int, pattern.split(":")))


@pytest.mark.parametrize(
    ("asked", "label"),
    [
        ("prune:sparsity=0.8", "pruned 80 %"),
        ("prune:epochs=2+pattern=2:4", "pruned 50 % (2:4), epochs=2"),
        ("prune:sparsity=0.25+pattern=1:4", "pruned 25 % (1:4)"),
        ("int8:embeddings=0", "int8, embeddings=0"),
        ("qbert:mean=2.2+by=random", "Q-BERT 2.2 bits, random"),
        ("qbert:high=8+mean=3.5", "Q-BERT 3.5 bits (2 or 8)"),
        ("layers:keep=1.2+epochs=1", "layers 1, 2 kept, 1 more epoch"),
        ("theseus:start=random+int8", "one layer for 2 by module replacing, start=random, then int8"),
        ("adabert:layers=4+width=64", "searched cells, width 64, layers=4"),
    ],
)
def test_labels_tell_all_changed_settings(asked, label):
    assert transforms.described(transforms.choose(asked))["label"] == label


@pytest.mark.parametrize(
    ("changes", "steps", "end"),
    [
        ({"frequency": 10}, 100, 50),
        ({"frequency": 30}, 100, 30),  # not 50, because no update falls on it
        ({"frequency": 30, "ramp": 1.0}, 100, 90),
        ({"frequency": 60}, 100, 60),  # at least one update
        ({"frequency": 101}, 100, 0),
        ({"schedule": "constant"}, 100, 1),
        ({"pattern": "2:4"}, 100, 1),
    ],
)
def test_the_schedule_ends_with_an_update(changes, steps, end):
    settings = Settings(**changes)
    assert settings.end(steps) == end and (settings.at_once or end % settings.frequency == 0)


# Masks ---------------------------------------------------------------------------------------------------------------


def own_mask(weights, sparsity):
    """Returns a mask that keeps the weights of largest magnitude. Their number is rounded as in the Toolkit."""
    count = max(1, int(np.round(np.float32(weights.size) * (np.float32(1) - np.float32(sparsity)))))
    threshold = np.sort(np.abs(weights), axis=None)[::-1][count - 1]
    return np.abs(weights) >= threshold


def own_sparsity(settings, step, end):
    """Equation 1 of Zhu and Gupta (2017), in float32 like the Toolkit."""
    left = np.float32(1) - np.float32(step) / np.float32(end)
    return np.float32(settings.initial - settings.sparsity) * left**3 + np.float32(settings.sparsity)


@pytest.fixture(scope="module")
def pruning():
    if find_spec("tensorflow_model_optimization") is None:  # imported here, it would change the environment
        pytest.skip("needs tensorflow-model-optimization")
    from ptmbench.bench.adapt.transforms.prune import network

    return network


def masked_steps(network, settings, shapes, steps, end, seed=0):
    """Yields (step, weights before, weights after, masks), while simulated updates change the masked weights."""
    import tensorflow as tf

    rng = np.random.default_rng(seed)
    variables = [tf.Variable(rng.normal(size=shape).astype(np.float32)) for shape in shapes]
    masks = network.Masks(variables, settings, end)
    for step in range(1, steps + 1):
        before = [variable.numpy() for variable in variables]
        masks.advance()
        after = [variable.numpy() for variable in variables]
        yield step, before, after, [mask.numpy() for mask in masks.values]
        for variable in variables:  # as an optimizer does
            variable.assign_add(0.1 * rng.normal(size=variable.shape).astype(np.float32))
        masks.apply()


def test_masks_match_the_formulas_bit_for_bit(pruning):
    settings = Settings(sparsity=0.8, initial=0.1, frequency=3)
    shapes, end, last = [(16, 24), (7, 5), (64, 3)], 12, 15
    expected = [np.ones(shape, np.float32) for shape in shapes]
    for step, before, after, masks in masked_steps(pruning, settings, shapes, last, end):
        if step % 3 == 0 and step <= end:
            expected = [own_mask(one, own_sparsity(settings, step, end)) for one in before]
        for one, right, weights, pruned in zip(masks, expected, before, after, strict=True):
            assert one.tobytes() == right.astype(np.float32).tobytes(), step
            assert np.array_equal(pruned, weights * right)
    for mask, shape in zip(masks, shapes, strict=True):
        assert np.sum(mask == 0) == pruning.zeros_in(shape, settings)


@pytest.mark.parametrize("pattern", ["", "4x1", "2x2", "2:4", "1:4"])
def test_patterns_with_a_constant_schedule(pruning, pattern):
    settings = Settings(schedule="constant", pattern=pattern, sparsity=0.25 if pattern == "1:4" else 0.5)
    (_, (before,), (after,), (mask,)), *later = masked_steps(pruning, settings, [(16, 12)], 4, 1)
    if pattern == "":
        expected = own_mask(before, 0.5)
    elif ":" in pattern:  # the smallest of consecutive inputs are removed
        groups = np.abs(before.T).reshape(12, 4, 4)
        order = np.argsort(np.argsort(groups, axis=-1), axis=-1)
        expected = (order >= settings.zeros[0]).reshape(12, 16).T
    else:
        rows, columns = settings.block
        blocks = np.abs(before).reshape(16 // rows, rows, 12 // columns, columns).mean((1, 3))
        expected = np.repeat(np.repeat(own_mask(blocks, 0.5), rows, 0), columns, 1)
    assert np.array_equal(mask, expected) and np.array_equal(after, before * expected)
    assert np.sum(mask == 0) == pruning.zeros_in((16, 12), settings) == (48 if pattern == "1:4" else 96)
    assert all(np.array_equal(one, mask) for *_, (one,) in later)


def test_masks_resume_from_their_saved_state(pruning):
    import tensorflow as tf

    settings, start = Settings(frequency=2), RNG.normal(size=(8, 8)).astype(np.float32)

    def steps(masks, count):
        for _ in range(count):
            masks.advance()

    whole = tf.Variable(start)
    steps(pruning.Masks([whole], settings, 8), 8)
    part = tf.Variable(start)
    first = pruning.Masks([part], settings, 8)
    steps(first, 5)
    memory = [np.array(one) for one in first.memory()]
    assert memory[0] == 5 and memory[1].dtype == bool
    again = tf.Variable(part.numpy())
    second = pruning.Masks([again], settings, 8)
    second.recall(memory)
    steps(second, 3)
    assert again.numpy().tobytes() == whole.numpy().tobytes() and np.mean(again.numpy() == 0) == 0.5


def test_a_few_weights_of_equal_magnitude_are_kept(pruning):
    """Large kernels of float32 often have two weights at the threshold. The Toolkit keeps both."""
    import tensorflow as tf

    settings = Settings(schedule="constant")
    kernel = RNG.permutation(np.arange(1, 10_001, dtype=np.float32)).reshape(100, 100)
    kernel[kernel == 5000] = -5001
    variable = tf.Variable(kernel)
    pruning.Masks([variable], settings, 1).advance()
    array = variable.numpy()
    assert np.sum(array == 0) == pruning.zeros_in(array.shape, settings) - 1 and np.sum(np.abs(array) == 5001) == 2
    pruning.check_sparsity({"x": array}, settings)
    assert pruning.has_enough_zeros(array, settings) and not pruning.has_enough_zeros(kernel, settings)


def test_many_weights_of_equal_magnitude_are_rejected(pruning):
    from ptmbench.bench.errors import NotApplicable

    with pytest.raises(NotApplicable, match="because x has weights that are equal in magnitude: 0 of 16 are zero, and"):
        pruning.check_sparsity({"x": np.ones((4, 4), np.float32)}, Settings())


@pytest.mark.slow
def test_importing_the_toolkit_does_not_switch_the_process_to_keras_2(pruning):
    """The toolkit requests Keras 2 with an environment variable, which child processes would inherit."""
    from ptmbench.bench.adapt.transforms.toolkit import toolkit

    toolkit()
    assert "TF_USE_LEGACY_KERAS" not in os.environ
    code = (
        "import os, keras, tensorflow as tf\n"
        "from ptmbench.bench.adapt.transforms.toolkit import toolkit\n"
        "toolkit()\n"
        "assert 'TF_USE_LEGACY_KERAS' not in os.environ and keras.__version__.startswith('3.')\n"
        "assert tf.keras.__version__ == keras.__version__, tf.keras.__version__\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def test_transforms_are_listed_without_tensorflow():
    code = (
        "import sys\nfrom ptmbench.bench.adapt import transforms\n"
        "for name in transforms.names(): [one.transform.label(one.settings) for one in transforms.choose(name)]\n"
        "sys.exit(bool({'tensorflow', 'keras', 'tensorflow_model_optimization', 'tf_keras'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=300).returncode == 0
