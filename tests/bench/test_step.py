"""The training step for every model: splitting, compiling or recomputing a batch changes nothing but rounding."""

import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.engine import numerics
from ptmbench.bench.engine.optimizers import optimizer
from ptmbench.bench.engine.recipe import ADAM
from ptmbench.bench.engine.step import TrainStep
from tests.bench.processes import ROOT
from tests.models.networks import LENGTH, ROWS, build, corpus_of, small, swept_model

every_model = pytest.mark.parametrize("name", models.names())


def built(name, precision="float32"):
    """Returns the model ``name``, always with the same weights, and its batches."""
    import keras

    keras.utils.set_random_seed(3)
    module = models.load(name)
    with numerics.computing_in(precision):
        network = build(module, small(module))
    network.encoder.dropout = 0.0
    return network, network.batches(corpus_of(name), ROWS, LENGTH)


def uneven(batch):
    """Returns ``batch`` with fewer masked positions in one row, and with padding at the end of another."""
    batch = {name: value.copy() for name, value in batch.items()}
    if "masked_weights" in batch:
        batch["masked_weights"][1, 1:] = batch["masked_weights"][2] = 0.0
    for name in {"tokens", "targets", "original"} & batch.keys():
        batch[name][2, 6:] = 0
    return batch


def gradients(network, batch, *totals):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        values = network.loss(batch, tf.constant([1, 2]), *totals)
    silent = tuple(getattr(network.loss, "unreached", ()))
    variables = [v for v in network.loss.trainable_variables if not v.path.startswith(silent)]
    found = tape.gradient(values["loss"], [v.value for v in variables])
    return [np.asarray(tf.convert_to_tensor(g)) for g in found], {k: float(v) for k, v in values.items()}


@every_model
def test_losses_and_gradients_of_the_parts_of_a_batch_add_up(name):
    """This also holds if one part has more targets than the other."""
    network, batches = built(name)
    batch = uneven(batches(0, 1))
    whole, values = gradients(network, batch)
    parts = [
        gradients(network, {key: value[rows] for key, value in batch.items()}, network.loss.totals(batch))
        for rows in (slice(0, 1), slice(1, None))
    ]
    for key, value in values.items():
        assert sum(part[key] for _, part in parts) == pytest.approx(value, rel=1e-5, abs=1e-6), key
    for expected, *pieces in zip(whole, *(found for found, _ in parts), strict=True):
        assert np.abs(expected - sum(pieces)).max() < 1e-6 + 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("word2vec", {"accumulate": 2}),
        ("word2vec", {"accumulate": 4, "optimizer": "lamb"}),
        pytest.param("bert", {"accumulate": 2}, marks=pytest.mark.slow),
    ],
)
def test_accumulated_steps_equal_steps_on_the_whole_batch(name, changes):
    """Rows have different numbers of targets, so the mean of the means of the parts would be wrong."""
    ends, seen = [], []
    for options in ({**changes, "accumulate": 1}, changes):
        network, batches = built(name)
        variables = network.loss.trainable_variables
        step = TrainStep(network.loss, variables, totals=network.loss.totals, **options)
        for number in range(3):
            scalars = step(uneven(batches(number, 1)), (1, number), 1e-3)
        ends.append([v.numpy() for v in variables])
        seen.append({key: float(value) for key, value in scalars.items()})
    assert seen[0] == pytest.approx(seen[1], rel=1e-4)
    assert max(np.abs(one - other).max() for one, other in zip(*ends, strict=True)) < 2e-5


def test_gradients_of_a_repeated_row_are_summed_before_use():
    """The gradient is sparse. Squaring it before the sum would make the norm and Adam's second moment wrong."""
    import keras
    import tensorflow as tf

    table = keras.Variable(np.zeros((3, 1), np.float32), name="table")
    step = TrainStep(
        lambda batch, seed: {"loss": tf.reduce_sum(tf.gather(table.value, batch["tokens"]))}, [table], clip=100.0
    )
    scalars = step({"tokens": np.array([1, 1], np.int32)}, (0, 0), 0.1)
    assert float(scalars["gradient_norm"]) == pytest.approx(2.0)
    assert float(step.optimizer._velocities[0][1, 0]) == pytest.approx((1 - 0.999) * 4.0, rel=1e-3)


@pytest.mark.parametrize(("clip", "moved"), [(0.0, 3.0), (float("inf"), 3.0), (1e9, 3.0), (1.0, 1.0)])
def test_gradients_are_clipped_only_above_a_positive_limit(clip, moved):
    import keras
    import tensorflow as tf

    weight = keras.Variable(np.zeros(1, np.float32), name="weight")
    step = TrainStep(lambda batch, seed: {"loss": 3.0 * tf.reduce_sum(weight.value)}, [weight], clip=clip)
    scalars = step({"tokens": np.array([1], np.int32)}, (0, 0), 0.1)
    assert float(scalars["gradient_norm"]) == pytest.approx(3.0)
    assert float(step.optimizer._momentums[0][0]) == pytest.approx((1 - 0.9) * moved)


ADAGRAD = {"optimizer": "adagrad", "weight_decay": 0.0, "clip": 0.01}


@pytest.mark.parametrize("name", ["word2vec", "cbow", "glove", "fasttext"])
def test_adagrad_leaves_rows_without_a_gradient_unchanged(name):
    """Compares sparse steps with NumPy's steps on whole tables.

    These are clipped by the norm of the summed gradients and move by rate * g / sqrt(sum of g^2).
    """
    network, batches = built(name)
    variables = network.loss.trainable_variables
    tables = [v.numpy().astype(np.float64) for v in variables]
    sums, untouched = [np.zeros_like(t) for t in tables], [np.ones(len(t), bool) for t in tables]
    step = TrainStep(network.loss, variables, totals=network.loss.totals, **ADAGRAD)
    assert step.sparse
    for number, rate in enumerate((0.3, 0.2, 0.1)):
        found, _ = gradients(network, batches(number, 1))
        norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in found))
        assert norm > ADAGRAD["clip"]  # so clipping applies
        scalars = step(batches(number, 1), (1, number), rate)
        assert float(scalars["gradient_norm"]) == pytest.approx(norm, rel=1e-5)
        for table, total, still, g in zip(tables, sums, untouched, found, strict=True):
            g = g * (ADAGRAD["clip"] / norm)
            total += g**2
            table -= rate * np.divide(g, np.sqrt(total) + 1e-10)
            still &= ~g.reshape(len(g), -1).any(axis=1)
    assert any(still.any() for still in untouched)
    for table, variable in zip(tables, variables, strict=True):
        assert np.allclose(table, variable, atol=2e-4)


@pytest.mark.parametrize("changes", [{"jit": True}, {"accumulate": 2}])
def test_sparse_adagrad_equals_compiled_and_accumulated_adagrad(changes):
    """Compiled steps keep sparse gradients. Accumulation adds up dense ones."""
    ends = []
    for options in ({}, changes):
        network, batches = built("word2vec")
        variables = network.loss.trainable_variables
        step = TrainStep(network.loss, variables, totals=network.loss.totals, **ADAGRAD, **options)
        assert step.sparse == ("accumulate" not in options)
        for number in range(3):
            step(uneven(batches(number, 1)), (1, number), 0.1)
        ends.append([v.numpy() for v in variables])
    assert max(np.abs(one - other).max() for one, other in zip(*ends, strict=True)) < 1e-3


def test_adagrad_resumes_exactly_from_its_state():
    """Bit for bit, because the gradients of repeated rows are summed in a fixed order."""

    def begun():
        network, batches = built("cbow")
        variables = network.loss.trainable_variables
        return TrainStep(network.loss, variables, totals=network.loss.totals, **ADAGRAD), variables, batches

    straight, variables, batches = begun()
    for number in range(3):
        straight(batches(number, 1), (1, number), 0.1)
        if number == 0:
            state, weights = straight.state(), [v.numpy() for v in variables]
    again, others, _ = begun()
    for variable, weight in zip(others, weights, strict=True):
        variable.assign(weight)
    again.restore(state)
    for number in (1, 2):
        again(batches(number, 1), (1, number), 0.1)
    assert all(np.array_equal(one, other) for one, other in zip(variables, others, strict=True))


def test_adagrad_applies_weight_decay_only_on_request():
    import keras

    for decay in (0.0, 0.1):
        kernel = keras.Variable(np.ones((2, 2), np.float32))
        made = optimizer("adagrad", [kernel], weight_decay=decay)
        made.learning_rate.assign(0.5)
        made.apply([np.zeros((2, 2), np.float32)], [kernel])
        assert np.allclose(kernel, 1 - 0.5 * decay)


def _apply(made, weight, gradient):
    made.apply([gradient], [weight])


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(("beta1", "beta2"), [(0.9, 0.999), (0.7, 0.99)])
@pytest.mark.parametrize("bias_correction", [True, False])
def test_adam_matches_the_paper(jit, beta1, beta2, bias_correction):
    """Kingma & Ba (2015), algorithm 1, in float64. An epsilon as large as the gradients shows where it is added."""
    import keras
    import tensorflow as tf

    rng, epsilon, decay = np.random.default_rng(0), 0.5, 0.1
    start, gradients = rng.standard_normal((3, 4)), rng.standard_normal((5, 3, 4)).astype(np.float32)
    weight = keras.Variable(start.astype(np.float32))
    options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "bias_correction": bias_correction}
    made = optimizer("adamw", [weight], weight_decay=decay, **options)
    update = tf.function(partial(_apply, made, weight), jit_compile=jit, autograph=False)
    expected, m, v = start.copy(), np.zeros((3, 4)), np.zeros((3, 4))
    for t, (rate, gradient) in enumerate(zip((0.1, 0.2, 0.3, 0.2, 0.1), gradients.astype(np.float64), strict=True), 1):
        made.learning_rate.assign(rate)
        update(gradient.astype(np.float32))
        m, v = beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient**2
        first, second = (m / (1 - beta1**t), v / (1 - beta2**t)) if bias_correction else (m, v)
        expected -= rate * decay * expected + rate * first / (np.sqrt(second) + epsilon)
    assert np.allclose(weight.numpy(), expected, atol=2e-6)
    assert np.allclose(made._momentums[0], m, atol=1e-6) and np.allclose(made._velocities[0], v, atol=1e-6)
    assert np.abs(expected - start).max() > 0.1


def test_adam_has_default_hyperparameters_unless_overridden():
    import keras

    weight = keras.Variable(np.zeros((2, 2), np.float32))
    step = TrainStep(lambda batch, seed: {"loss": 0.0}, [weight])
    found = (step.optimizer.beta_1, step.optimizer.beta_2, step.optimizer.epsilon, step.optimizer.bias_correction)
    assert found == tuple(ADAM.values())
    other = TrainStep(lambda batch, seed: {"loss": 0.0}, [weight], adam={"beta2": 0.98, "epsilon": 1e-6})
    assert (other.optimizer.beta_1, other.optimizer.beta_2, other.optimizer.epsilon) == (0.9, 0.98, 1e-6)


@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_decay_is_decoupled_and_spares_biases_and_gains(name):
    import keras

    kernel, gain = keras.Variable(np.ones((2, 2), np.float32)), keras.Variable(np.ones(2, np.float32))
    heads = keras.Variable(np.ones((2, 1, 3), np.float32), name="content_bias")  # of Transformer-XL and XLNet
    made = optimizer(name, [kernel, gain, heads], weight_decay=0.1)
    made.learning_rate.assign(0.5)
    made.apply([np.zeros(v.shape, np.float32) for v in (kernel, gain, heads)], [kernel, gain, heads])
    assert np.allclose(kernel, 1 - 0.5 * 0.1) and np.array_equal(gain, [1, 1]) and (heads.numpy() == 1).all()


def trained(name, steps, jit=False, precision="float32", rematerialise=False):
    """Returns weights and losses after ``steps``."""
    network, batches = built(name, precision)
    variables = network.loss.trainable_variables
    step = TrainStep(numerics.rematerialised(network.loss) if rematerialise else network.loss, variables, jit=jit)
    losses = [float(step(batches(number, 1), (1, number), 1e-3)["loss"]) for number in range(steps)]
    return [v.numpy() for v in variables], losses


def test_xla_compiles_only_networks_that_gain_from_it():
    plain, loops = SimpleNamespace(recurrent=False), SimpleNamespace(recurrent=True)
    assert numerics.compiles("auto", plain, 1e14)
    assert not numerics.compiles("auto", plain, 1e11)
    assert not numerics.compiles("auto", loops, 1e14)
    assert numerics.compiles(True, loops, 1.0) and not numerics.compiles(False, plain, 1e14)


@pytest.mark.sweep
@swept_model
def test_every_step_compiles_with_xla(name):
    """With XLA and static shapes, as a TPU requires.

    Adam divides gradients by their size, so a gradient that is nonzero only by rounding moves its weight by a whole
    step. Such weights are few: the mean difference has to stay below a thousandth of a step (2e-4 was measured).
    """
    plain, compiled = trained(name, 2), trained(name, 2, jit=True)
    assert compiled[1] == pytest.approx(plain[1], rel=1e-4)
    gaps = np.concatenate([np.abs(one - other).ravel() for one, other in zip(plain[0], compiled[0], strict=True)])
    assert gaps.mean() < 1e-3 * 1e-3 and gaps.max() < 1e-3, (gaps.mean(), gaps.max())


@pytest.mark.sweep
@swept_model
def test_bfloat16_learns_as_float32_does(name):
    """Weights and their updates stay float32. Only the computation of the network is rounded."""
    plain, rounded = trained(name, 12), trained(name, 12, precision="bfloat16")
    assert all(array.dtype == np.float32 for array in rounded[0])
    assert rounded[1] != plain[1], "nothing was rounded"
    assert rounded[1] == pytest.approx(plain[1], rel=0.03)


@pytest.mark.sweep
@swept_model
def test_rematerialised_blocks_give_the_same_gradients(name):
    """Up to rounding, which Adam amplifies to a fifth of a step in the worst weight (2e-4 was measured)."""
    plain, again = trained(name, 2), trained(name, 2, rematerialise=True)
    assert again[1] == pytest.approx(plain[1], rel=1e-6)
    gaps = np.concatenate([np.abs(one - other).ravel() for one, other in zip(plain[0], again[0], strict=True)])
    assert gaps.mean() < 1e-3 * 1e-3 and gaps.max() < 1e-3, (gaps.mean(), gaps.max())


BATCHES = """
import hashlib, sys
from ptmbench.bench import environment
environment.prepare(1)
from ptmbench import models
from tests.bench.test_step import built, digest
print({name: digest(built(name)[1], (9, 2, 5)) for name in models.names()})
"""


def digest(make, steps):
    """Returns the SHA-256 of the batch that ``make`` returns for each step."""
    import hashlib

    found = {step: make(step, 7) for step in steps}
    return {
        step: hashlib.sha256(b"".join(found[step][name].tobytes() for name in sorted(found[step]))).hexdigest()
        for step in sorted(found)
    }


@pytest.mark.slow
def test_batches_do_not_depend_on_the_process_or_the_order():
    """Another process gets the same batches in another order. The first axis of each array is the row."""
    done = subprocess.run([sys.executable, "-c", BATCHES], cwd=ROOT, capture_output=True, text=True, check=True)
    here = {}
    for name in models.names():
        make = built(name)[1]
        here[name] = digest(make, (2, 5, 9))
        assert all(len(value) == ROWS for value in make(0, 7).values())
    assert done.stdout.strip().splitlines()[-1] == str(here)
