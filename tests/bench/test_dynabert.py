"""DynaBERT: the choice of sub-networks, their outputs, their training, and their extraction."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import tasks
from ptmbench.bench.adapt import built, heads, predictor, shapes, transforms
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.settings import SettingError, baked, defaults
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.leaderboard.records import record
from ptmbench.tasks.forms import Form
from tests.bench.cells import make
from tests.bench.test_condition_cells import kept
from tests.bench.test_shrinking import DEEP, exact, logits, open_gates
from tests.bench.test_transform_cells import transformed

CLASSES = Form.CLASSIFICATION
SETTINGS = transforms.load("dynabert").settings


def adapted(tokenizer, shape=None):
    """Builds a classifier without dropout, whose weights are so large that its units differ clearly."""
    settings = dataclasses.replace(baked(defaults(CLASSES, "finetune")), dropout=0.0, head_dropout=0.0)
    found = built.traced.__wrapped__("bert", DEEP, tokenizer, CLASSES, "finetune", 2, settings, (), (), shape)
    rng = np.random.default_rng(3)
    found.assign({name: rng.normal(name.endswith("scale"), 0.15, v.shape) for name, v in found.named_variables()})
    return found


@pytest.fixture(scope="module")
def whole(tokenizer):
    return adapted(tokenizer)


@pytest.fixture(scope="module")
def rows(world, tokenizer):
    task = tasks.load("sst2")
    examples = task.examples(world, "train")[:4]
    return heads.of(CLASSES, "finetune").Codec(task, tokenizer, defaults(CLASSES, "finetune"), examples).rows(examples)


# Choice of sub-networks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "kept"),
    [(1, list(range(12))), (0.75, [0, 1, 2, 4, 5, 6, 8, 9, 10]), (0.5, [0, 2, 4, 6, 8, 10]), (0.25, [0, 4, 8])],
)
def test_kept_layers_match_the_authors_code(depth, kept):
    from ptmbench.bench.adapt.transforms.elastic import kept_layers

    assert kept_layers(12, depth) == kept


def test_kept_layers_are_sorted_unique_and_include_the_first():
    from ptmbench.bench.adapt.transforms.elastic import kept_layers

    for layers in range(1, 25):
        for depth in (0.05, 0.1, 0.25, 1 / 3, 0.3333, 0.5, 0.6, 2 / 3, 0.75, 0.9, 1):
            found = kept_layers(layers, depth)
            assert found == sorted(set(found)) and found[0] == 0 and found[-1] < layers


def test_widths_are_shares_of_the_units_of_each_block():
    from ptmbench.bench.adapt.transforms.elastic import scaled

    shape = shapes.StackShape(layers=2, heads=(4, 1), inner=(24, 10))
    assert scaled(shape, 0.5) == ((2, 12), (1, 5))
    assert scaled(shape, 0.05, 0.5) == ((1, 1), None)
    assert scaled(shape, 1) == ((4, 24), (1, 10))
    shared = shapes.StackShape(layers=3, heads=(4,), inner=(24,))
    assert scaled(shared, 0.5, 0.67) == ((2, 12), (2, 12), None)


def test_width_and_depth_settings_are_validated():
    for wrong in ("", "0.5", "1/0.5", "0.5/0.5/1", "0/1", "0.5/2", "a/1", "0.5 /1"):
        with pytest.raises(SettingError):
            transforms.choose(f"dynabert:widths={wrong}")
    (found,) = transforms.choose("dynabert:widths=0.5/1")
    assert found.settings.listed("widths") == [0.5, 1]
    first, second = transforms.choose("dynabert:by=random+subnetwork:width=0.25+depth=0.5")
    assert (first.settings.by, second.settings.width, second.settings.depth) == ("random", 0.25, 0.5)


def test_lessons_have_the_width_of_their_teacher_and_no_duplicates():
    from ptmbench.bench.adapt.transforms.dynabert.network import lessons_of
    from ptmbench.bench.adapt.transforms.elastic import scaled

    shape = shapes.StackShape(layers=2, heads=(2, 2), inner=(8, 8))
    wide, deep = lessons_of(shape, SETTINGS())
    assert {one.teacher for one in wide} == {scaled(shape, 1)} and len(wide) == 4
    assert len(deep) == 8  # a depth of 0.75 keeps both of two layers
    assert all(one.teacher == tuple(w or one.student[0] for w in one.student) for one in deep)


# Outputs -------------------------------------------------------------------------------------------------------------


def test_a_sub_network_equals_the_extracted_network(whole, rows, tokenizer):
    from ptmbench.bench.adapt.transforms.elastic import SharedBlocks, Width, extract_subnetwork

    chosen = (Width(3, 7), None, Width(1, 24))
    shared, batch = SharedBlocks(whole, filter(None, chosen)), stack(rows, multiple=1)
    with shared.using_subnetwork(chosen):
        ours = whole.head_output(whole.encoded(batch), batch).numpy()
        flops = shared.forward_flops(chosen, rows)
    arrays, shape = extract_subnetwork(whole, chosen)
    assert shape == shapes.StackShape(layers=2, heads=(3, 1), inner=(7, 24))
    smaller = adapted(tokenizer, shape)
    smaller.assign(arrays)
    assert np.abs(smaller.forward(batch) - ours).max() <= 1e-5
    assert flops == pytest.approx(smaller.forward_flops(rows)) and flops < whole.forward_flops(rows)
    # It also equals the kept layers of the whole network in NumPy, with the other units set to zero.
    gates, weights = open_gates(), exact(whole)
    for layer, width in enumerate(chosen):
        if width:
            gates["heads"][layer][width.heads :] = 0
            gates["inner"][layer][width.inner :] = 0
    skipped = {name: array for name, array in weights.items() if "layer_1/" not in name}
    expected = [logits(skipped, row, gates, layers=(0, 2)) for row in rows]
    assert np.abs(ours - expected).max() <= 1e-5
    assert np.abs(whole.forward(batch) - ours).max() > 1e-2


def test_rewiring_does_not_change_the_outputs(whole, rows):
    from ptmbench.bench.adapt.transforms.elastic import ranked

    rng = np.random.default_rng(1)
    scores = {"heads": [rng.random(4) for _ in range(3)], "inner": [rng.random(24) for _ in range(3)]}
    before, batch = whole.arrays(), stack(rows)
    arrays, expected = ranked(whole, scores), whole.forward(batch)
    whole.assign(arrays)
    found = whole.forward(batch)
    whole.assign(before)
    assert np.abs(found - expected).max() <= 1e-5
    # The neuron with the highest score comes first, with its input and output weights.
    name, best = "encoder/stack/layer_1/feed_forward", int(np.argmax(scores["inner"][1]))
    assert np.array_equal(arrays[f"{name}/inner/kernel"][:, 0], before[f"{name}/inner/kernel"][:, best])
    assert np.array_equal(arrays[f"{name}/outer/kernel"][0], before[f"{name}/outer/kernel"][best])


# Training ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def teaching_and_weights(tokenizer):
    """A `Teaching` of one narrow and shallow sub-network by one of its width, and the weights of the network."""
    from ptmbench.bench.adapt.transforms.dynabert.network import Lesson, Teaching
    from ptmbench.bench.adapt.transforms.elastic import SharedBlocks, Width

    found, width = adapted(tokenizer), Width(2, 9)
    lesson = Lesson((width,) * 3, (width, None, width))
    shared = SharedBlocks(found, [width])
    shared.copy_weights()
    return Teaching(found, shared, [lesson], 0.3, 10), found.arrays()


@pytest.fixture
def teaching(teaching_and_weights):
    """The `Teaching` with its initial weights."""
    found, weights = teaching_and_weights
    found.adapted.assign(weights)
    return found


def hidden(weights, row, gates, layers, begin=None):
    """The input of each of ``layers`` and the output of the last one, [T, D] each. ``begin``, if given, replaces the
    embeddings."""
    found = []
    logits(weights, row, gates, layers=layers, seen=found, begin=begin)
    return found


def test_the_loss_is_that_of_the_paper_in_numpy(teaching, rows):
    """The reference is BERT in NumPy, for one text at a time. Losses of states are means over all tokens of the
    batch."""
    found = teaching.adapted
    batch = {name: tf.constant(array) for name, array in stack(rows, multiple=1).items()}
    # The student's weights differ from the copy that the teacher uses.
    theirs = exact(found)
    rng = np.random.default_rng(5)
    found.assign({name: v + rng.normal(0, 0.02, v.shape) for name, v in found.arrays().items()})
    ours, gates = exact(found), open_gates()
    for part, count in (("heads", 2), ("inner", 9)):
        gates[part][:, count:] = 0
    entropies, squares = [], np.zeros(3)
    for row in rows:
        z, y = logits(theirs, row, gates), logits(ours, row, gates, layers=(0, 2))
        p = np.exp(z) / np.exp(z).sum()
        entropies.append(np.sum(p * (np.log(p) - y + np.log(np.exp(y).sum()))))
        teacher_states, student_states = hidden(theirs, row, gates, (0, 1, 2)), hidden(ours, row, gates, (0, 2))
        squares += [np.sum((student_states[a] - teacher_states[b]) ** 2) for a, b in ((0, 0), (1, 2), (2, 3))]
    tokens = sum(row.tokens for row in rows) * DEEP.width
    expected = np.mean(entropies) + 0.3 * np.sum(squares / tokens)
    assert abs(float(teaching.losses(batch, None)["loss"]) - expected) <= 2e-5


def test_a_step_updates_only_the_units_of_the_sub_network(teaching, rows):
    found = teaching.adapted
    found.assign({name: v + 0.01 for name, v in found.arrays().items()})  # so that the loss is above 0
    before = found.arrays()
    teaching.step(stack(rows), (0, 0), 1e-3)
    after = found.arrays()
    inner = "encoder/stack/layer_0/feed_forward/inner/bias"
    assert np.flatnonzero(before[inner] != after[inner]).tolist() == list(range(9))
    kernel = "encoder/stack/layer_2/attention/projection/kernel"
    # Weight decay also changes weights without a gradient, but by less than Adam's first step.
    moved = np.abs(before[kernel] - after[kernel]).max(1) > 5e-4
    assert np.flatnonzero(moved).tolist() == list(range(16))
    skipped = "encoder/stack/layer_1/norm/bias"
    assert np.array_equal(before[skipped], after[skipped])
    assert not np.array_equal(before["adapted/000"], after["adapted/000"])


def test_regression_scores_and_tags_are_targets_too():
    """Scores are [B, 1] and tags [B, T, C]. The loss of equal outputs is 0."""
    from ptmbench.bench.adapt.distil.network import soft
    from ptmbench.bench.adapt.transforms.dynabert.network import targets

    rng = np.random.default_rng(0)
    score, tags = rng.normal(size=(3, 1)).astype("float32"), rng.normal(size=(2, 4, 5)).astype("float32")
    batches = [
        (score, {"score": np.zeros(3)}),
        (tags, {"tags": np.ones((2, 4), "int32"), "unused": np.zeros((2, 5), "float32")}),
    ]
    for numbers, batch in batches:
        given = {**batch, "teacher": targets(numbers, batch)}
        assert abs(float(soft(numbers, given, 1.0, "probabilities"))) <= 1e-6
        assert float(soft(numbers[::-1], given, 1.0, "probabilities")) > 0.1


def test_training_flops_count_students_and_teachers(teaching, rows):
    T, D, K = np.array([row.tokens for row in rows]), DEEP.width, 8
    layer = float(np.sum(2 * T * (4 * D * 2 * K + 2 * D * 9) + 4 * T * T * 2 * K))
    pooler = 2 * D * D * len(rows)
    assert teaching.training_flops(rows) == pytest.approx(3 * (2 * layer + pooler) + 3 * layer + pooler)


# Cells ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_dynabert_does_not_apply_to_choice_tasks(context):
    given = dataclasses.replace(context, shape=DEEP)
    cell = make("copa", "bert", "finetune")
    with pytest.raises(NotApplicable, match="because finetune on a choice task gives no logits to learn from"):
        transformed("dynabert", cell, kept(cell, given))


@pytest.mark.parametrize("asked", ["dynabert", "nasbert"])
def test_sub_networks_do_not_learn_from_a_crf(context, asked):
    cell = make("conll2003", "bert", "finetune", crf=1)
    with pytest.raises(NotApplicable, match="because finetune with crf=1 scores sequences of tags") as raised:
        transformed(asked, cell, kept(cell, context))
    assert raised.value.code == "crf"


@pytest.mark.slow
def test_a_cell_is_trained_once_and_its_sub_networks_are_extracted(context, tmp_path):
    given = dataclasses.replace(context, shape=DEEP)
    cell = make("sst2", "bert", "finetune")
    ready = kept(cell, given)
    transform = "dynabert:widths=0.5/1+depths=0.67/1+width_epochs=1+depth_epochs=1+examples=8"
    one, trained = transformed(transform, cell, dataclasses.replace(ready, out=tmp_path / "trained"))
    found = record.read(record.write(tmp_path, cells.run(one, trained)))
    assert found.status == "ok", found.reason
    about = found.adaptation["transform"]
    assert (about["compression"], found.cost["subnetworks"]) == ("width", 4)
    whole = predictor.load(trained.predictor)
    assert whole.shape is None
    steps = about["cost"]["steps"]
    assert (
        steps == found.curve[-1]["step"] - cells.run(dataclasses.replace(cell, predictor="x"), ready).curve[-1]["step"]
    )
    chain = f"{transform}+subnetwork:width=0.5+depth=0.67"
    two, small = transformed(chain, cell, dataclasses.replace(trained, out=tmp_path / "small"))
    extracted_record = cells.run(two, small)
    assert extracted_record.status == "ok", extracted_record.reason
    stored = predictor.load(small.predictor)
    assert dataclasses.astuple(stored.shape) == (2, (2, 2), (12, 12))
    assert extracted_record.cost["parameters"] < found.cost["parameters"]
    assert extracted_record.cost["flops_per_example"] < found.cost["flops_per_example"]
    assert small.spent["transform"]["flops"] == trained.spent["transform"]["flops"]  # extraction costs no FLOPs
