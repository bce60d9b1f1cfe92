"""NAS-BERT: candidates, block-wise losses, selection and training."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import tasks
from ptmbench.bench.adapt import heads, predictor, shapes, transforms
from ptmbench.bench.adapt.course import Bookmark
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.settings import defaults
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs import estimate
from ptmbench.leaderboard.records import record
from tests.bench.cells import make
from tests.bench.test_condition_cells import kept
from tests.bench.test_dynabert import CLASSES, adapted, hidden
from tests.bench.test_shrinking import DEEP, exact, open_gates
from tests.bench.test_transform_cells import check_transform_resumed, transformed

SETTINGS = transforms.load("nasbert").settings
STACK = shapes.StackShape(layers=3, heads=(4, 4, 4), inner=(24, 24, 24))


@pytest.fixture(scope="module")
def rows(world, tokenizer):
    task = tasks.load("sst2")
    examples = task.examples(world, "train")[:4]
    return heads.of(CLASSES, "finetune").Codec(task, tokenizer, defaults(CLASSES, "finetune"), examples).rows(examples)


# The space -----------------------------------------------------------------------------------------------------------


def space(count=2, shares=(0.5, 1)):
    """The options of each layer and the blocks, with made-up parameter counts and FLOPs."""
    from ptmbench.bench.adapt.transforms.nasbert.candidates import blocks_of, check_count, choices

    options = choices(STACK, shares)
    check_count(options, count)
    sizes = {width: 10.0 * width.heads + width.inner for option in options for width in option if width}
    flops = {width: 3.0 * width.heads + 2 * width.inner for width in sizes}
    return options, blocks_of(options, count, sizes, flops), sizes, flops


def test_layer_options_are_shares_of_heads_and_units_or_no_layer():
    from ptmbench.bench.adapt.transforms.nasbert.candidates import choices

    (first, *_) = choices(STACK, [0.25, 0.5, 1])
    assert first[0] is None and set(first[1:]) == set(itertools.product((1, 2, 4), (6, 12, 24)))
    (narrow,) = choices(shapes.StackShape(layers=1, heads=(2,), inner=(8,)), [0.25, 0.5, 1])
    assert len(narrow) == 1 + 2 * 3  # a quarter and a half of two heads are both one head


def test_by_default_blocks_are_small_enough_for_a_search():
    from ptmbench.bench.adapt.transforms.nasbert import Settings
    from ptmbench.bench.adapt.transforms.nasbert.candidates import check_count, choices

    assert [Settings().block_count(layers) for layers in (1, 2, 6, 7, 12, 24)] == [1, 2, 2, 3, 4, 8]
    assert Settings(blocks=5).block_count(12) == 5
    base = choices(shapes.StackShape(layers=12, heads=(12,) * 12, inner=(3072,) * 12), [0.25, 0.5, 1])
    check_count(base, Settings().block_count(12))
    with pytest.raises(NotApplicable, match="because a block of 6 layers has 1000000 candidates"):
        check_count(base, 2)


def test_blocks_enumerate_all_paths_through_their_layers():
    _, blocks, sizes, flops = space()
    assert [(one.begin, one.end, len(one.paths)) for one in blocks] == [(0, 2, 25), (2, 3, 5)]
    assert all(len(set(one.paths)) == len(one.paths) for one in blocks)
    for place in (0, 7, 24):
        path = blocks[0].paths[place]
        assert blocks[0].parameters[place] == sum(sizes[width] for width in path if width)
        assert blocks[0].flops[place] == sum(flops[width] for width in path if width)
    bins = blocks[0].bins(4)
    assert set(bins) == {0, 1, 2, 3} and bins[blocks[0].parameters.argmax()] == 3
    with pytest.raises(NotApplicable, match="because the model has 3 layers, which do not form 4 blocks"):
        space(count=4)
    with pytest.raises(NotApplicable, match="because a block of 3 layers has 912673 candidates"):
        space(count=1, shares=np.arange(1, 25) / 24)


def test_the_worse_half_of_each_bin_is_dropped_but_two_remain():
    from ptmbench.bench.adapt.transforms.nasbert.candidates import shrunk

    losses = np.array([5.0, 4, 3, 2, 1, 9, 8, 7, np.inf])
    bins = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1])
    alive = np.array([1, 1, 1, 1, 1, 1, 1, 1, 0], bool)
    remaining = shrunk(losses, bins, alive)
    assert np.flatnonzero(remaining).tolist() == [2, 3, 4, 6, 7]
    assert np.flatnonzero(shrunk(losses, bins, remaining)).tolist() == [3, 4, 6, 7]


@pytest.mark.parametrize("seed", range(5))
def test_the_selected_architecture_is_the_best_within_the_limits(seed):
    from ptmbench.bench.adapt.transforms.nasbert.candidates import selected

    rng = np.random.default_rng(seed)
    _, blocks, sizes, flops = space()
    losses = [rng.random(len(one.paths)) for one in blocks]
    alive = [rng.random(len(one.paths)) < 0.7 for one in blocks]
    limits = (0.5 * 3 * 64, 0.6 * 3 * 60)
    candidates = {}
    for places in itertools.product(*(np.flatnonzero(one) for one in alive)):
        path = sum((block.paths[place] for block, place in zip(blocks, places, strict=True)), ())
        costs = [sum(table[width] for width in path if width) for table in (sizes, flops)]
        if any(path) and costs[0] <= limits[0] and costs[1] <= limits[1]:
            candidates[path] = sum(loss[place] for loss, place in zip(losses, places, strict=True))
    assert candidates and selected(blocks, losses, alive, limits) == min(candidates, key=candidates.get)
    with pytest.raises(NotApplicable, match="because no architecture is small enough"):
        selected(blocks, losses, alive, (1, 1))


def test_random_architectures_have_90_to_100_percent_of_the_limit():
    from ptmbench.bench.adapt.transforms.nasbert.candidates import drawn

    options, _, sizes, flops = space()
    found = [drawn(options, sizes, flops, (96, 1e9), seed) for seed in range(20)]
    assert all(0.9 * 96 <= sum(sizes[width] for width in path if width) <= 96 for path in found)
    assert len(set(found)) > 3 and found[4] == drawn(options, sizes, flops, (96, 1e9), 4)
    for limits in ((5, 1e9), (96, 5)):
        with pytest.raises(NotApplicable, match="because no drawn architecture has 90 to 100 % of .* flops higher"):
            drawn(options, sizes, flops, limits, 0)


# The supernet --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def search_and_weights(tokenizer, rows):
    """A search, and the initial weights of its network."""
    from ptmbench.bench.adapt.transforms.elastic import SharedBlocks
    from ptmbench.bench.adapt.transforms.nasbert.candidates import blocks_of, choices
    from ptmbench.bench.adapt.transforms.nasbert.network import Searching

    found, options = adapted(tokenizer), choices(STACK, [0.5, 1])
    shared = SharedBlocks(found, (width for option in options for width in option if width))
    shared.copy_weights()
    sizes = {width: shared.parameters(width) for width in shared.widths}
    blocks = blocks_of(options, 2, sizes, sizes)
    settings = SETTINGS(search_epochs=2, bins=2)
    return Searching(found, shared, options, blocks, rows, settings, 6, Bookmark()), found.arrays()


@pytest.fixture
def search(search_and_weights):
    """The search in its initial state."""
    found, weights = search_and_weights
    found.adapted.assign(weights)
    found.alive = [np.ones(len(block.paths), bool) for block in found.blocks]
    return found


def take_path(search, *path):
    """Sets the current path of the search: the width of each layer."""
    search.take(0, path)


def block_losses(search, rows):
    """The loss of each block on the current path."""
    batch = {name: tf.constant(array) for name, array in stack(rows).items()}
    return search.run("losses", lambda given: search._block_losses(given, None), batch).numpy()


def test_a_block_is_trained_on_the_inputs_and_outputs_of_the_teachers_block(search, rows):
    """The reference is BERT in NumPy. The first block has two layers, and its path skips the second one."""
    from ptmbench.bench.adapt.transforms.elastic import Width

    teacher_weights = exact(search.adapted)
    rng = np.random.default_rng(5)
    moved = {name: v + rng.normal(0, 0.02, v.shape) for name, v in teacher_weights.items() if "/stack/" in name}
    search.adapted.assign(search.adapted.arrays() | moved)
    student_weights = exact(search.adapted)
    take_path(search, Width(2, 12), None, Width(4, 12))
    found = block_losses(search, rows)
    gates, total = open_gates(), np.zeros(2)
    gates["heads"][0, 2:], gates["inner"][0, 12:], gates["inner"][2, 12:] = 0, 0, 0
    for row in rows:
        teacher_states = hidden(teacher_weights, row, open_gates(), (0, 1, 2))
        first = hidden(student_weights, row, gates, (0,))[1]
        second = hidden(student_weights, row, gates, (2,), begin=teacher_states[2])[1]
        total += [np.sum((first - teacher_states[2]) ** 2), np.sum((second - teacher_states[3]) ** 2)]
    assert np.abs(found - total / (DEEP.width * sum(row.tokens for row in rows))).max() <= 2e-5


def test_the_teachers_path_has_zero_loss_and_gradients_stay_in_their_block(search, rows):
    from ptmbench.bench.adapt.transforms.elastic import Width

    whole, narrow = Width(4, 24), Width(2, 12)
    take_path(search, whole, whole, whole)
    assert np.abs(block_losses(search, rows)).max() <= 1e-10
    take_path(search, whole, whole, narrow)
    batch = {name: tf.constant(array) for name, array in stack(rows).items()}
    with tf.GradientTape() as tape:
        loss = search.losses(batch, None)["loss"]
    blocks = search.adapted.network.encoder.stack.blocks
    kernels = [block.feed_forward.inner.kernel.value for block in blocks]
    *first, last = [np.abs(g.numpy()).max() for g in tape.gradient(loss, kernels)]
    assert max(first) <= 1e-7 and last > 1e-3


def test_candidates_are_measured_like_paths_in_training(search, rows, monkeypatch):
    """All candidates of all blocks, with random weights, in two batches. Layers that candidates share are computed
    once: 5 + 25 of the first block and 5 of the second, of which each fifth is the identity."""
    rng = np.random.default_rng(6)
    weights = search.adapted.arrays()
    search.adapted.assign({name: v + rng.normal(0, 0.02, v.shape) for name, v in weights.items()})
    monkeypatch.setattr(search, "_judged", [*rows, *rows] * 9)
    found, spent = search.measured(6)
    for block, losses in zip(search.blocks, found, strict=True):
        for place, path in enumerate(block.paths):
            search.take(block.begin, path)
            assert losses[place] == pytest.approx(block_losses(search, rows)[block.begin // 2], rel=1e-5)
    every = sum(search.shared.block_flops(width, rows) for width in search.shared.widths)
    assert spent == pytest.approx(18 * (search.adapted.forward_flops(rows) + (1 + 5 + 1) * every))
    search.alive[0][[0, 24]] = False
    again, less = search.measured(6)
    assert np.isinf(again[0][[0, 24]]).all() and np.array_equal(again[0][1:24], found[0][1:24]) and less < spent


def test_a_stopped_measurement_of_candidates_resumes_to_the_same_losses(search, rows, monkeypatch, tmp_path):
    """It is stopped after each value. Layers that are computed again are not counted again."""
    from ptmbench.bench.adapt.transforms.nasbert.network import Measuring

    rng = np.random.default_rng(6)
    search.adapted.assign({name: v + rng.normal(0, 0.02, v.shape) for name, v in search.adapted.arrays().items()})
    monkeypatch.setattr(search, "_judged", [*rows, *rows] * 9)
    found, spent = search.measured(6)
    whole, done = Measuring.one, []

    def stopped(measuring, number):
        if len(done) == 1:
            done.clear()
            raise InterruptedError
        done.append(number)
        return whole(measuring, number)

    monkeypatch.setattr(Measuring, "one", stopped)
    monkeypatch.setattr(search, "_bookmark", Bookmark(tmp_path, -1.0, lambda line: None))
    for _ in range(2 * 30 - 1):
        with pytest.raises(InterruptedError):
            search.measured(6)
    again, counted = search.measured(6)
    assert all(map(np.array_equal, found, again)) and counted == spent


def test_candidates_are_dropped_between_epochs_and_saved_in_the_state(search, rows):
    settings = defaults(CLASSES, "finetune")
    before = [one.copy() for one in search.alive]
    for step in range(3):
        _, spent = search.make(rows, settings, (0, step))
        assert spent == 0
    assert all(map(np.array_equal, before, search.alive))
    _, spent = search.make(rows, settings, (0, 3))
    remaining = [int(one.sum()) for one in search.alive]
    assert remaining[0] < 25 and remaining[1] < 5 and spent > search.adapted.forward_flops(rows)
    # In each bin, the remaining candidates have lower losses than the dropped ones.
    memory, alive = search.memory(), search.alive
    search.alive = before
    losses, _ = search.measured(6)
    for loss, bins, stays in zip(losses, search._bins, alive, strict=True):
        for number in set(bins):
            inside = bins == number
            assert not (inside & ~stays).any() or loss[inside & stays].max() <= loss[inside & ~stays].min()
    search.recall(memory)
    assert all(map(np.array_equal, alive, search.alive)) and search.alive[0].dtype == bool


def test_the_cost_of_measuring_is_estimated(search, rows, world):
    _, spent = search.measured(6)
    settings = SETTINGS(shares="0.5/1", examples=len(rows), search_epochs=1)
    texts = settings.measured_texts(3, 8) * search.adapted.forward_flops(rows) / len(rows)
    assert 1 <= texts / spent <= 2  # the estimate has two blocks of two layers
    assert SETTINGS(by="random").measured_texts(3, 8) == 0
    assert SETTINGS(search_epochs=3).measured_texts(3, 8) == 1.75 * SETTINGS(search_epochs=1).measured_texts(3, 8)

    def cost(name):
        chain = transforms.choose(name)
        cell = dataclasses.replace(make("sst2", "bert", "finetune"), transforms=(chain[0].recorded(),))
        return estimate.cell_cost(cell, world, {}, None, transforming=True)[1]

    each, usual = cost("nasbert:examples=2") - cost("nasbert:examples=1"), cost("nasbert")
    assert each > 0 and usual - cost("nasbert:examples=1") == pytest.approx(63 * each)
    assert cost("qbert") > cost("qbert:by=random") > 0


def test_paths_depend_on_seed_and_step_and_cost_their_layers(search, rows):
    def path(seed, step):
        search.make(rows, defaults(CLASSES, "finetune"), (seed, step))
        return tuple(search.chosen.numpy())

    found = [[path(seed, step) for step in range(3)] for seed in range(6)]
    assert len({one for many in found for one in many}) > 8 and found[2][1] == path(2, 1)
    search.chosen.assign([0, 0, 0])
    assert search.training_flops(rows) == search.adapted.forward_flops(rows)  # the teacher alone
    search.chosen.assign([0, 0, 4])
    T, D, F = np.array([row.tokens for row in rows]), DEEP.width, DEEP.inner
    layer = float(np.sum(2 * T * (4 * D * D + 2 * D * F) + 4 * T * T * D))
    assert search.training_flops(rows) == pytest.approx(search.adapted.forward_flops(rows) + 3 * layer)


# Cells ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_cell_stores_the_found_network_and_resumes_after_a_stop(context, tmp_path, monkeypatch):
    given = dataclasses.replace(context, shape=DEEP)
    cell = make("sst2", "bert", "finetune")
    ready = kept(cell, given)
    transform_name = "nasbert:shares=0.5/1+search_epochs=2+tuning_epochs=1"
    one, uninterrupted = check_transform_resumed(transform_name, cell, ready, 6, monkeypatch)
    found = record.read(record.write(tmp_path, cells.run(one, uninterrupted)))
    assert found.status == "ok", found.reason
    about, stored = found.adaptation["transform"], predictor.load(uninterrupted.predictor)
    assert about["compression"] == "search" and 0 < found.cost["search_flops"] < about["cost"]["flops"]
    assert stored.shape.layers == found.cost["layers_kept"] and sum(stored.shape.heads) == found.cost["heads_kept"]
    assert found.cost["parameters"] < cells.run(dataclasses.replace(cell, predictor="x"), ready).cost["parameters"]

    # The search scores the whole network, and the last training scores the found one.
    before, curve = (len(one.predictor.about["curve"]) for one in (ready, uninterrupted))
    each, scores = ready.spent["flops_evaluate"] / before, (curve - before) // 3
    assert 2 * scores * each < about["cost"]["flops_evaluate"] < 3 * scores * each


@pytest.mark.slow
def test_models_with_shared_layers_are_not_applicable(context):
    cell = make("sst2", "albert", "finetune")
    given = kept(cell, dataclasses.replace(context, shape=DEEP))
    with pytest.raises(NotApplicable, match="because its layers share their weights, so they have one shape"):
        transformed("nasbert", cell, given)


@pytest.mark.slow
def test_weights_for_each_layer_are_refused_before_the_search(context, monkeypatch):
    from ptmbench.bench.adapt.transforms.nasbert import network

    monkeypatch.setattr(network, "sort_units", lambda *_: pytest.fail("it began"))
    cell = make("sst2", "bert", "finetune", layers="all")
    given = kept(cell, dataclasses.replace(context, shape=DEEP))
    with pytest.raises(NotApplicable, match="because the adaptation finetune has weights of its own for each layer"):
        transformed("nasbert", cell, given)
