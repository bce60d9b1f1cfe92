"""Quantisation-aware training: the Toolkit's rounding against formulas, trained cells, and stored weights."""

import dataclasses
from importlib.util import find_spec

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench import console
from ptmbench.bench.adapt import predictor
from ptmbench.bench.adapt.built import traced
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.settings import SettingError
from ptmbench.bench.engine import packing
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.runs import cell as cells
from ptmbench.leaderboard.records import record
from ptmbench.models.text.tokenizers import Tokenizer
from tests.bench.cells import make
from tests.bench.test_condition_cells import kept
from tests.bench.test_transform_cells import WAYS, transformed

SHORT = "qat:epochs=1+calibration=3"
FEW = "qbert:epochs=1+calibration=2+slices=2+iterations=3"


@pytest.fixture(scope="module")
def quantisation():
    if find_spec("tensorflow_model_optimization") is None:  # an import here would change the environment
        pytest.skip("needs tensorflow-model-optimization")
    from ptmbench.bench.adapt.transforms import quantisation

    return quantisation


def make_rounding(quantisation, grid, shape):
    made = quantisation.Rounding()
    made.prepare(grid, shape)
    return made


def toolkit_rounding(x, grid):
    """The Toolkit's formula in NumPy, float32: rounds columns [N, G] to the grid between the ends of each column."""
    levels = np.float32(2**grid.bits - 1)
    first = np.float32(1 if grid.symmetric else 0)
    low, high = np.minimum(x.min(0), np.float32(0)), np.maximum(x.max(0), np.float32(0))
    if grid.symmetric:
        high = np.maximum(high, -low)
        low = -high
    step = (high - low) / (levels - first)
    zero = np.clip(np.round(first - low / step), first, levels).astype(np.float32)
    start, end = (first - zero) * step, (levels - zero) * step
    half, inverse = np.float32(0.5), (levels - first) / (high - low)
    code = np.floor((np.clip(x, start, end) - start) * inverse - np.floor(half - start * inverse) + half)
    return code * step


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("groups", "rows"), [(1, False), (4, False), (12, False), (8, True)])
def test_weights_are_rounded_by_the_formulas_and_stored_exactly(quantisation, bits, symmetric, groups, rows):
    grid = quantisation.Grid(bits, groups, symmetric, rows)
    x = np.random.default_rng(bits).normal(0.1, 1, (16, 12)).astype(np.float32)
    made = make_rounding(quantisation, grid, x.shape)
    result = made.rounded(quantisation.tf.constant(x)).numpy()
    columns = grid.columns(x)
    assert np.array_equal(grid.matrix(columns, x.shape), x)
    group = x.reshape(groups, -1, 12)[1] if rows else x.reshape(16, groups, -1)[:, min(1, groups - 1)]
    assert np.array_equal(np.sort(columns[:, min(1, groups - 1)]), np.sort(group, axis=None))
    assert np.array_equal(grid.columns(result), toolkit_rounding(columns, grid))
    if symmetric:  # Zafrir et al. (2019), section 2.1
        largest_code = 2 ** (bits - 1) - 1
        scale = largest_code / np.abs(columns).max(0)
        assert grid.columns(result) == pytest.approx(
            np.clip(np.rint(columns * scale), -largest_code, largest_code) / scale, abs=1e-6
        )
    stored = made.packed("x", x)
    if "x#codes" in stored:
        assert packing.unpacked(stored)["x"] == pytest.approx(result, rel=2e-7)
    else:
        assert np.array_equal(packing.unpacked(stored)["x"], result)
    size = packing.size_of(stored, "x")
    assert (size.entries, size.bits, size.zeros) == (x.size, bits, np.sum(result == 0))
    if bits < 8:
        assert stored["x#levels"].nbytes == x.size * bits / 8


def test_gradients_use_the_straight_through_estimator(quantisation):
    tf = quantisation.tf
    x = tf.Variable(np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32))
    made = make_rounding(quantisation, quantisation.Grid(bits=3), x.shape)
    with quantisation.tracing(quantisation.LEARNING), tf.GradientTape() as tape:
        total = tf.reduce_sum(made(x) ** 2)
    rounded = made.rounded(x).numpy()
    assert len(np.unique(rounded)) <= 7 and np.array_equal(tape.gradient(total, x), 2 * rounded)
    assert np.array_equal(made(x), x)  # outside of training, the variable already has rounded values


def test_input_limits_are_calibrated_and_then_moving_averages(quantisation):
    """Zafrir et al. (2019), equation 4, with the decay of the Toolkit."""
    tf = quantisation.tf
    made = quantisation.InputRounding()
    made.build()
    made.prepare()
    batches = np.random.default_rng(2).normal(size=(5, 8, 4)).astype(np.float32)
    assert np.array_equal(made(batches[0]), batches[0])  # no limit yet
    with quantisation.tracing(quantisation.CALIBRATING):
        for batch in batches[:2]:
            assert np.array_equal(made(batch), batch)
    limit = np.abs(batches[:2]).max()
    assert made.limit.numpy() == limit
    with quantisation.tracing(quantisation.LEARNING):
        for batch in batches[2:]:
            result = made(10 * batch).numpy()
            limit += np.float32(0.001) * (10 * np.abs(batch).max() - limit)
            assert made.limit.numpy() == pytest.approx(limit, rel=1e-6)
            by_formula = np.clip(np.rint(10 * batch * 127 / limit), -127, 127) * limit / 127
            assert result == pytest.approx(by_formula, abs=1e-5)
    assert made(tf.constant(batches[0])).numpy() == pytest.approx(
        np.clip(np.rint(batches[0] * 127 / limit), -127, 127) * limit / 127, abs=1e-5
    )


# Cells ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("task", "model", "adaptation"), [way for way in WAYS if way[1] not in ("bert", "electra")])
def test_architectures_other_than_bert_train_with_rounding(quantisation, context, task, model, adaptation):
    """BERT's encoder is covered by the tests below."""
    cell = make(task, model, adaptation)
    given = kept(cell, context)
    for asked in (SHORT, FEW):
        one, ready = transformed(asked, cell, given)
        result = cells.run(one, ready)
        assert result.status == "ok", result.reason
        about = record.read(record.write(context.out, result)).adaptation["transform"]
        assert about["name"] == one.transform and about["cost"]["flops"] > 0
        assert result.cost["bits_per_weight"] < 32 and result.cost["disk_bytes"] < about["of"]["disk_bytes"]
        arrays, changed = ready.predictor.arrays(), ready.predictor.about["transform"]["changed"]
        sizes = [packing.size_of(arrays, name) for name in changed]
        if asked == FEW:
            assert any(size.bits <= 3 for size in sizes) and all(size.bits in (2, 3, 8) for size in sizes)
        else:
            codes = [arrays[f"{name}#codes"] for name in changed]
            assert all(one.dtype == np.int8 and np.abs(one).max() == 127 for one in codes)
            assert all(arrays[f"{name}#scales"].size == 1 for name in changed)


@pytest.mark.parametrize(
    "asked", [f"{SHORT}+per_channel=1", pytest.param("qat:epochs=1+activations=0", marks=pytest.mark.slow)]
)
def test_the_stored_model_predicts_like_the_trained_network(quantisation, context, monkeypatch, asked):
    cell = make("sst2", "bert", "finetune")
    given = kept(cell, context)
    trained, packed, call = [], quantisation.Rounded.packed, quantisation.InputRounding.call

    def record_instance(self):
        trained.append(self)
        return packed(self)

    def call_with_fixed_limits(self, x):
        with quantisation.tracing(quantisation.ANSWERING):  # limits do not change
            return call(self, x)

    def predict_with_rounding(adapted, batch, number):
        with quantisation.tracing(quantisation.LEARNING):
            return adapted.head.predicted(adapted._outputs(batch, None), batch)

    with monkeypatch.context() as patch:
        patch.setattr(quantisation.Rounded, "packed", record_instance)
        _, ready = transformed(asked, cell, given)
    adapted, ours = trained[-1].adapted, predictor.load(ready.predictor)
    exact = {name: variable.numpy() for name, variable, _ in trained[-1].weights}
    examples = tasks.load("sst2").examples(context.data, "dev")[:16]
    batch = stack(ours.codec.rows(examples))
    with monkeypatch.context() as patch:
        patch.setattr(quantisation.InputRounding, "call", call_with_fixed_limits)
        expected = adapted.run(predict_with_rounding, batch, 0.0)
    stored = packing.unpacked(ready.predictor.arrays())
    assert all(np.abs(stored[name] - value).max() > 1e-5 for name, value in exact.items())
    result = ours.network.forward(batch)
    assert np.abs(result - expected).max() <= 2e-5
    assert np.abs(result).max() > 1e-3
    traced.cache_clear()  # as in a new process
    assert np.array_equal(predictor.load(ready.predictor).network.forward(batch), result)
    scales = [array for name, array in ready.predictor.arrays().items() if name.endswith("#scales")]
    assert any(one.size > 1 for one in scales) == ("per_channel" in asked)
    limits = [array for name, array in ready.predictor.arrays().items() if name.endswith("limit")]
    assert bool(limits) == ("activations=0" not in asked) and all(limit > 0 for limit in limits)


@pytest.mark.parametrize(
    ("model", "adaptation", "code"),
    [("bert", "features", "nothing-learns"), ("bert", "adapters", "nothing-learns"), ("word2vec", "features", "no-k")],
)
def test_models_without_trainable_kernels_are_not_applicable(quantisation, context, model, adaptation, code):
    cell = make("sst2", model, adaptation)
    given = kept(cell, context)
    with pytest.raises(cells.NotApplicable) as raised:
        transformed(SHORT, cell, given)
    assert raised.value.code.startswith(code) and str(raised.value).startswith("because ")


@pytest.mark.slow
def test_training_with_rounding_resumes_with_the_same_weights(quantisation, context, monkeypatch):
    """The cleared cache stands for a new process, which has seen no batch."""
    cell = make("sst2", "bert", "finetune", batch=8)
    given = kept(cell, context)
    one, uninterrupted = transformed(SHORT, cell, given)
    home, steps_taken, step = context.out / "stopped", [], TrainStep.__call__
    stoppable = dataclasses.replace(given, out=home, unfinished=home / "unfinished", save_every=0.0)

    def stop_before_step_5(self, *arguments):
        if len(steps_taken) == 4:
            raise KeyboardInterrupt
        steps_taken.append("step")
        return step(self, *arguments)

    traced.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "__call__", stop_before_step_5)
        with pytest.raises(KeyboardInterrupt):
            cells.adapt(one, stoppable)
    assert list(stoppable.unfinished.rglob("learnt.safetensors")) and not (home / "adapted").exists()
    traced.cache_clear()
    cost = cells.adapt(one, stoppable)
    (folder,) = (home / "adapted").iterdir()
    assert (cost["steps"], cost["flops"]) == (uninterrupted.spent["steps"], uninterrupted.spent["flops"])
    content = (folder / "weights.safetensors").read_bytes()
    assert content == uninterrupted.predictor.path("weights.safetensors").read_bytes()


# Bits by sensitivity -------------------------------------------------------------------------------------------------


def test_the_top_eigenvalue_equals_that_of_the_explicit_hessian(quantisation):
    """Logistic regression minus the squares of two other weights: the Hessian of w is X^T diag(p (1 - p)) X / N."""
    from ptmbench.bench.adapt.transforms.qbert import network

    tf, rng = quantisation.tf, np.random.default_rng(3)
    x, y = rng.normal(size=(40, 6)).astype(np.float32), rng.integers(0, 2, (40, 1)).astype(np.float32)
    w, other = tf.Variable(rng.normal(size=(6, 1)).astype(np.float32)), tf.Variable([1.0, 2.0])

    def loss(batch):
        logits = tf.matmul(batch["x"], w)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(batch["y"], logits)) - tf.reduce_sum(other**2)

    batch = {"x": tf.constant(x), "y": tf.constant(y)}
    products = [network.hessian_product(loss, variable) for variable in (w, other)]
    p = 1 / (1 + np.exp(-(x @ w.numpy()).astype(np.float64)))
    hessian = x.T.astype(np.float64) @ (p * (1 - p) * x) / len(x)
    vector = rng.normal(size=(6, 1)).astype(np.float32)
    first, second = products[0](batch, tf.constant(vector)), products[1](batch, tf.constant([1.0, -1.0]))
    assert first.numpy() == pytest.approx(hessian @ vector, abs=1e-6) and second.numpy().tolist() == [-2, 2]

    def eigenvalue_of(place, shape):
        def multiply(vector):
            return products[place](batch, tf.constant(vector)).numpy()

        return network.top_eigenvalue(multiply, shape, 0, 200, 1e-6)

    result, count = eigenvalue_of(0, (6, 1))
    assert result == pytest.approx(np.linalg.eigvalsh(hessian)[-1], rel=1e-4) and 1 < count <= 200
    # The eigenvalue of largest magnitude, with its sign.
    assert eigenvalue_of(1, (2,))[0] == pytest.approx(-2, rel=1e-6)
    assert network.top_eigenvalue(lambda vector: 0 * vector, (3,), 0, 9, 1e-2) == (0.0, 1)


def test_sensitive_kernels_get_more_bits_within_the_mean_limit(quantisation):
    from ptmbench.bench.adapt.transforms.qbert import Settings, network

    sizes = [100, 300, 100, 100]
    assert network.bits_of(sizes, [1, 0, 2, 3], Settings(mean=2.5)) == [2, 3, 2, 2]
    assert network.bits_of(sizes, [0, 1, 2, 3], Settings(mean=2.5)) == [3, 2, 3, 3]
    assert network.bits_of(sizes, [0, 1, 2, 3], Settings(low=2, high=8, mean=8)) == [8] * 4
    assert network.bits_of(sizes, [0, 1, 2, 3], Settings(mean=2)) == [2] * 4
    assert [network.groups_of(outputs, 128) for outputs in (64, 256, 384, 131)] == [64, 128, 128, 1]
    with pytest.raises(SettingError, match="mean=5 is not between low=2 and high=3"):
        Settings(mean=5)


def test_kernels_are_stored_with_their_number_of_bits(quantisation, context, monkeypatch, capsys):
    cell = make("sst2", "bert", "finetune")
    given = kept(cell, context)
    monkeypatch.setattr(console, "INTERVAL", 0.0)
    one, ready = transformed(FEW, cell, given)
    assert "measure sensitivities: 10/10 eigenvalues" in capsys.readouterr().err  # 2 slices, 5 kernels
    result = cells.run(one, ready)
    assert result.status == "ok", result.reason
    arrays = ready.predictor.arrays()
    changed = ready.predictor.about["transform"]["changed"]
    sizes = {name: packing.size_of(arrays, name) for name in changed}
    inner = {name: size for name, size in sizes.items() if not name.endswith("table")}
    assert {size.bits for size in inner.values()} == {2, 3}
    assert all(size.bits == 8 for name, size in sizes.items() if name.endswith("table"))
    entries = sum(size.entries for size in inner.values())
    assert 2 < sum(size.entries * size.bits for size in inner.values()) / entries <= 2.5
    for name, size in sizes.items():
        assert arrays[f"{name}#levels"].nbytes == -(-size.entries * size.bits // 8)
    plain = packing.size_of_all(given.predictor.arrays())
    assert plain.bits == 32 and result.cost["bits_per_weight"] < 16
    assert result.adaptation["transform"]["cost"]["flops"] > 0


def test_trainings_that_share_a_network_have_their_own_bits(quantisation, context, tokenizer, monkeypatch):
    monkeypatch.setattr(Tokenizer, "load", lambda path: tokenizer)  # networks are shared by their tokenizer
    cell = make("sst2", "bert", "finetune")
    given, found = kept(cell, context), {}
    for name, seeds in (("alone", [1]), ("shared", [0, 1])):
        traced.cache_clear()
        for seed in seeds:
            here = dataclasses.replace(given, out=context.out / f"{name}-{seed}")
            asked = "qbert:by=random+epochs=1+calibration=1+low=2+high=8+mean=5"
            found[name, seed] = transformed(asked, dataclasses.replace(cell, seed=seed), here)[1].predictor
    bits = {key: [packing.size_of(one.arrays(), name).bits for name in one.about["transform"]["changed"]]
            for key, one in found.items()}  # fmt: skip
    assert bits["shared", 0] != bits["shared", 1] == bits["alone", 1]
    assert found["shared", 1].weights_sha256 == found["alone", 1].weights_sha256
    assert found["shared", 1].about["curve"] == found["alone", 1].about["curve"]
