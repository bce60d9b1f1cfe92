"""AdaBERT: the search space and its costs, the losses of probes and search, and cells with the derived network."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models, tasks
from ptmbench.bench.adapt import built, heads, predictor, shapes, transforms
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.adapt.settings import SettingError, defaults
from ptmbench.bench.adapt.transforms import kernels
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.leaderboard.records import record
from ptmbench.models.layers.cells_config import OPERATIONS
from tests.bench.cells import make
from tests.bench.test_condition_cells import kept
from tests.bench.test_dynabert import CLASSES
from tests.bench.test_shrinking import DEEP
from tests.bench.test_transform_cells import check_transform_resumed, transformed
from tests.bench.test_transform_chains import chained

SETTINGS = transforms.load("adabert").settings
SMALL = "layers=2+nodes=1+width=8+probe_epochs=1+search_epochs=1+tuning_epochs=1"


@pytest.fixture(scope="module")
def space():
    from ptmbench.bench.adapt.transforms.adabert.candidates import space

    return space(8, 3, 2)


@pytest.fixture(scope="module")
def small():
    from ptmbench.bench.adapt.transforms.adabert.candidates import space

    return space(8, 2, 1)


@pytest.fixture(scope="module")
def rows(world, tokenizer):
    task = tasks.load("sst2")
    examples = task.examples(world, "train")[:4]
    return heads.of(CLASSES, "finetune").Codec(task, tokenizer, defaults(CLASSES, "finetune"), examples).rows(examples)


def network(tokenizer, shape, model="bert"):
    """A classifier of cells without dropout, with random weights in all variables."""
    settings = dataclasses.replace(defaults(CLASSES, "finetune"), dropout=0.0)
    found = built.traced.__wrapped__(model, DEEP, tokenizer, CLASSES, "finetune", 4, settings, (), (), shape)
    rng = np.random.default_rng(3)
    found.assign({name: rng.normal(name.endswith("scale"), 0.3, v.shape) for name, v in found.named_variables()})
    return found


# The space -----------------------------------------------------------------------------------------------------------


def test_settings_are_checked():
    for asked, message in (
        ("layers=0", "layers"), ("gamma=2", "gamma"), ("by=luck", "by"), ("hints=all", "hints"),
    ):  # fmt: skip
        with pytest.raises(SettingError, match=message):
            transforms.choose(f"adabert:{asked}")
    assert SETTINGS(by="random").epochs == 8 < SETTINGS().epochs


def test_costs_are_shares_of_parameters_and_flops():
    from ptmbench.bench.adapt.transforms.adabert.candidates import costs

    found, weights, products = costs(8), [], []
    for kind in OPERATIONS:
        window = int(kind[-1]) if kind[:-1] in ("conv", "dilated") else 0
        weights.append(window * 64 + 24 if window else 0)  # kernel; bias, and the norm's scale and bias
        products.append(window * 64)
    shares = [0.5 * w / sum(weights) + 0.5 * p / sum(products) for w, p in zip(weights, products, strict=True)]
    assert np.allclose(found, np.exp(shares) / np.exp(shares).sum())
    assert found[2] > found[1] > found[0] > found[6] == found[9]
    assert np.allclose(costs(128)[[0, 2, 9]], [0.0996, 0.1138, 0.0901], atol=1e-4)


def test_the_expected_cost_equals_a_loop_over_all_architectures(space):
    """Depth and operations are drawn independently, so the mean over every architecture is the product of means."""
    from ptmbench.bench.adapt.transforms.adabert.learners import expected_cost
    from ptmbench.models.layers.cells import Choice

    rng = np.random.default_rng(0)
    costs = rng.random(3)
    edges, depths = (rng.dirichlet(np.ones(n), size).astype(np.float32) for n, size in ((3, 4), (5, None)))
    total = 0.0
    for depth, *kinds in itertools.product(range(5), *[range(3)] * 4):
        probability = depths[depth] * np.prod([edges[at, kind] for at, kind in enumerate(kinds)])
        total += probability * (depth + 1) / 5 * sum(costs[kind] for kind in kinds) / 4
    found = expected_cost(Choice(tf.constant(edges), tf.constant(depths)), costs.astype(np.float32))
    assert float(found) == pytest.approx(total, rel=1e-5)


def test_derivation_keeps_the_likeliest_operations_and_two_edges_per_node(space):
    from ptmbench.bench.adapt.transforms.adabert.candidates import derived

    edges = np.zeros((5, 10), np.float32)  # from 0 and 1 to 2; from 0, 1 and 2 to 3
    edges[0, OPERATIONS.index("conv5")], edges[1, OPERATIONS.index("zero")] = 2, 3
    edges[2, OPERATIONS.index("skip")], edges[4, OPERATIONS.index("dilated3")] = 1, 4
    found = derived(edges, np.array([0.1, 0.3, 0.2]), space)
    assert found == shapes.CellShape(
        width=8, layers=2, nodes=2, edges=((0, 2, ("conv5",)), (0, 3, ("skip",)), (2, 3, ("dilated3",)))
    )
    assert shapes.read(record.json.loads(record.json.dumps(found.stored()))) == found


def test_a_drawn_architecture_has_the_requested_size(space):
    from ptmbench.bench.adapt.transforms.adabert.candidates import drawn, parameters

    found = [drawn(space, 0, seed) for seed in range(20)]
    assert len(set(found)) > 15 and found[3] == drawn(space, 0, 3) and {one.layers for one in found} == {1, 2, 3}
    size = parameters(found[0])
    assert all(0.9 * size <= parameters(drawn(space, size, seed)) <= 1.1 * size for seed in range(5))
    with pytest.raises(NotApplicable, match="because no drawn architecture has 10000000 parameters"):
        drawn(space, 10_000_000, 0)


def test_draws_are_one_hot_and_distributed_by_the_scores():
    from ptmbench.bench.adapt.transforms.adabert.learners import drawn

    scores = tf.math.log(tf.constant([[0.7, 0.2, 0.1]] * 4000))
    with tf.GradientTape() as tape:
        tape.watch(scores)
        found = drawn(scores, tf.constant([1, 2]), 0.5)
        value = tf.reduce_sum(found[:, 0])
    assert set(np.unique(found)) == {0.0, 1.0} and np.all(found.numpy().sum(-1) == 1)
    assert np.abs(found.numpy().mean(0) - [0.7, 0.2, 0.1]).max() < 0.03
    assert np.array_equal(found, drawn(scores, tf.constant([1, 2]), 0.5))
    gradient = tape.gradient(value, scores).numpy()
    assert np.abs(gradient.sum(-1)).max() < 1e-5 and gradient[:, 0].mean() > 0.05


# The losses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layers", "depth"), [(4, 2), (2, 5), (3, 3), (1, 2)])
def test_the_hint_loss_equals_a_loop(layers, depth):
    from ptmbench.bench.adapt.transforms.adabert.learners import hint_loss

    rng = np.random.default_rng(layers)
    soft_labels = rng.dirichlet(np.ones(3), (5, layers))
    logits, labels = rng.normal(size=(depth, 5, 3)), rng.integers(3, size=5)
    total = 0.0
    for x in range(5):
        places = [int(np.ceil((m + 1) * layers / depth)) - 1 for m in range(depth)]
        right = sum(soft_labels[x, at, labels[x]] for at in places)
        for m, at in enumerate(places):
            q = np.exp(logits[m, x]) / np.exp(logits[m, x]).sum()
            total -= soft_labels[x, at, labels[x]] / right * np.sum(soft_labels[x, at] * np.log(q)) / 5
        assert places[-1] == layers - 1
    found = hint_loss(tf.constant(soft_labels, tf.float32), [tf.constant(one, tf.float32) for one in logits], labels)
    assert float(found) == pytest.approx(total, rel=1e-4)


def test_the_derived_network_equals_the_relaxed_one_with_one_hot_weights(tokenizer, small, rows):
    from ptmbench.bench.adapt.transforms.adabert.candidates import drawn, one_hot
    from ptmbench.models.layers.cells import Choice

    relaxed, shape = network(tokenizer, small), drawn(small, 0, 1)
    weights, found = relaxed.arrays(), network(tokenizer, shape)
    found.assign({name: weights[name] for name in found.arrays()})
    batch = {name: tf.constant(array) for name, array in stack(rows).items()}
    relaxed.network.encoder.stack.choice = Choice(*map(tf.constant, one_hot(shape, small)))
    assert np.abs(relaxed.predicted(batch) - found.predicted(batch)).max() <= 1e-5
    described = shapes.described(models.load("bert").describe(DEEP, tokenizer.vocabulary), shape)
    assert described.parameters().total == sum(int(np.prod(v.shape)) for v in found.pretrained)
    encoder = found.network.encoder
    assert (encoder.width, encoder.depth, encoder.pooler, encoder.stepwise) == (8, shape.layers + 1, None, False)


@pytest.mark.parametrize("model", ["bert", "t5", "pegasus"])  # T5 and PEGASUS have a norm after their blocks
def test_the_network_that_is_trained_is_the_one_that_predicts(tokenizer, small, rows, model):
    from ptmbench.bench.adapt.transforms.adabert.candidates import drawn
    from ptmbench.bench.adapt.transforms.adabert.learners import depth_losses

    shape = drawn(small, 0, 1)
    found = network(tokenizer, shape, model)
    batch = {name: tf.constant(array) for name, array in stack(rows).items()}
    (loss,) = depth_losses(found, batch, None, SETTINGS(hints="none"), [shape.layers])
    assert abs(float(loss) - float(found.loss(batch))) <= 1e-6


@pytest.mark.slow
def test_a_search_lowers_the_loss_of_drawn_architectures(tokenizer, small, rows):
    """The loss of a step is that of one drawn architecture and depth, plus the cost. The scores can be restored."""
    from ptmbench.bench.adapt.transforms.adabert.candidates import costs
    from ptmbench.bench.adapt.transforms.adabert.learners import Searching

    rng = np.random.default_rng(4)
    hints = rng.normal(size=(len(rows), 3, 4)).astype(np.float32)
    given = [InputRow(row.arrays | {"hints": one}, row.example) for row, one in zip(rows, hints, strict=True)]
    search = Searching(network(tokenizer, small), SETTINGS(), 40, costs(8))
    settings = defaults(CLASSES, "finetune")
    found = []
    for step in range(40):
        batch, _ = search.make(given, settings, (0, step))
        found.append(search.step(stack(batch), (0, step), 3e-3))
    assert search.temperature.numpy() == pytest.approx(0.2 ** (39 / 40))
    losses = [float(one["loss"]) for one in found]
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
    edges, depths = search.scores()
    assert np.abs(edges).max() > 0.1 and np.abs(depths).max() > 0.1
    state = search.state()
    search.restore([0 * one for one in state])
    assert not search.scores()[0].any()
    search.restore(state)
    assert np.array_equal(search.scores()[0], edges) and np.array_equal(search.scores()[1], depths)
    whole = shapes.described(models.load("bert").describe(DEEP, tokenizer.vocabulary), small)
    products = sum(whole.encoder_flops(row.tokens) for row in given)
    assert search.training_flops(given) == 3 * products > 0


# Cells ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adapted_cell(world, tokenizer, tmp_path_factory):
    """A cell, and its context with a fine-tuned model."""
    from ptmbench.bench.runs.answers import Context

    out = tmp_path_factory.mktemp("adabert")
    given = Context(data=world, out=out, shape=DEEP, tokenizer=tokenizer, source={"name": "microworld"})
    cell = make("sst2", "bert", "finetune")
    return cell, kept(cell, given)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [2, 4, 6])  # the second of two steps of the probes, the search, and the training
def test_a_killed_cell_resumes_and_ends_with_the_derived_network(adapted_cell, tmp_path, monkeypatch, kill):
    cell, given = adapted_cell
    given = dataclasses.replace(given, out=tmp_path)
    one, straight = check_transform_resumed(f"adabert:{SMALL}", cell, given, kill, monkeypatch)
    found = record.read(record.write(tmp_path, cells.run(one, straight)))
    assert found.status == "ok", found.reason
    about, stored = found.adaptation["transform"], predictor.load(straight.predictor)
    assert about["compression"] == "search" and stored.shape.layers == found.cost["cells"]
    assert 0 < found.cost["probe_flops"] < found.cost["search_flops"] < about["cost"]["flops"]
    plain = cells.run(dataclasses.replace(cell, predictor="x"), given)
    assert found.cost["parameters"] < plain.cost["parameters"]


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["by=random", "hints=none+start=new", "hints=logits"])
def test_controls_also_train_a_network(adapted_cell, tmp_path, asked):
    cell, given = adapted_cell
    one, after = transformed(f"adabert:{SMALL}+{asked}", cell, dataclasses.replace(given, out=tmp_path))
    found = cells.run(one, after)
    assert found.status == "ok", found.reason
    tables = kernels.tables(predictor.load(after.predictor).network)
    assert {table.shape[1] for table in tables} == {8} and given.shape.width > 8
    assert found.cost["parameters_embedding"] == sum(math.prod(table.shape) for table in tables)
    assert (found.cost["search_flops"] == 0) == (asked == "by=random")
    assert (found.cost["probe_flops"] == 0) == asked.startswith("hints=none")


@pytest.mark.slow
def test_int8_and_prune_may_follow_and_transforms_of_blocks_may_not(adapted_cell, tmp_path):
    (cell, given), drawn = adapted_cell, f"adabert:{SMALL}+by=random"
    _, (last, quantised) = chained(f"{drawn}+int8", cell, dataclasses.replace(given, out=tmp_path / "int8"))
    assert cells.run(last, quantised).status == "ok"
    _, (last, pruned) = chained(
        f"{drawn}+prune:schedule=constant+epochs=1", cell, dataclasses.replace(given, out=tmp_path)
    )
    assert cells.run(last, pruned).status == "ok"
    with pytest.raises(NotApplicable, match="its encoder is not a stack of Transformer blocks"):
        chained(f"{drawn}+layers", cell, dataclasses.replace(given, out=tmp_path / "layers"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "model", "adaptation", "reason"),
    [
        ("stsb", "bert", "finetune", "because finetune on a regression task gives no probabilities of classes"),
        ("sst2", "gpt", "finetune", "because its encoder is not embeddings and a stack alone"),
        ("sst2", "bert", "features", "because the adaptation features trains no layer"),
        ("sst2", "bert", "adapters", "because the adaptation adapters does more than to train an encoder with a head"),
    ],
)
def test_unsupported_tasks_models_and_adaptations_are_not_applicable(context, task, model, adaptation, reason):
    cell = make(task, model, adaptation)
    given = kept(cell, dataclasses.replace(context, shape=DEEP))
    with pytest.raises(NotApplicable, match=reason):
        transformed(f"adabert:{SMALL}", cell, given)
