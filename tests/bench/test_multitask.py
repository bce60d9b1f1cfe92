"""Multi-task learning: gates against NumPy, batches of one task, keys, records, and whole cells."""

import dataclasses
import gzip
import json

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import heads, loop, settings
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.multitask import Own
from ptmbench.bench.adapt.multitask import head as multitask
from ptmbench.bench.adapt.multitask.network import Reading
from ptmbench.bench.adapt.settings import SettingError
from ptmbench.bench.data import corpora
from ptmbench.bench.data.sources import Fingerprints, fingerprint
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.errors import NotApplicable, UsageError
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs import plan, predict
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.artefacts import Given
from ptmbench.bench.runs.combinations import Combinations
from ptmbench.bench.runs.estimate import cell_cost as estimated
from ptmbench.bench.runs.examples import auxiliary_examples, read
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import UnknownTask, load
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, MissingData
from tests.bench.test_plan import first_key

RNG = np.random.default_rng(0)
SHAPE = Size(layers=1, width=32, length=64)
TOKENIZER = Tokenizer.train("word", ["good bad film who what where is not a the"] * 3, 60)


def vectors(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def make_reading(width=6, depth=1, **changes):
    made = Reading(type("Encoder", (), {"width": width, "depth": depth}), Own(**changes))
    for variable in made.variables:
        variable.assign(vectors(*variable.shape))
    return made


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def states_by_hand(weights, x, s):
    """The equations of the module, token by token: x, s [T, D] to h [T, D]."""
    W, b, U, V = (getattr(weights, name).numpy() for name in ("input", "bias", "recurrent", "shared"))
    (Wa, Wi, Wf, Wo, Wg), (ba, bi, bf, bo, bg) = np.split(W, 5, axis=1), np.split(b, 5)
    (Ua, Ui, Uf, Uo, Ug), (Va, Vg) = np.split(U, 5, axis=1), np.split(V, 2, axis=1)
    h = c = np.zeros(x.shape[1])
    actual = []
    for x_t, s_t in zip(x, s, strict=True):
        own = sigmoid(x_t @ Wg + h @ Ug + bg)
        shared_gate = sigmoid(x_t @ Wg + s_t @ Vg + bg)
        a = np.tanh(x_t @ Wa + own * (h @ Ua) + shared_gate * (s_t @ Va) + ba)
        c = sigmoid(x_t @ Wf + h @ Uf + bf) * c + sigmoid(x_t @ Wi + h @ Ui + bi) * a
        h = sigmoid(x_t @ Wo + h @ Uo + bo) * np.tanh(c)
        actual.append(h)
    return np.array(actual)


@pytest.mark.parametrize("task", [0, 1, 2])
def test_a_task_layer_is_model_iii_and_ignores_padding(task):
    x, s, made = vectors(2, 4, 6), vectors(2, 4, 6), make_reading(auxiliary="cola+rte")
    encoding = Encoding(tokens=tf.constant(s), pooled=tf.zeros([2, 6]), layers=(tf.constant(x), tf.constant(s)))
    batch = {"tokens": tf.constant([[2, 7, 8, 3], [2, 3, 0, 0]]), "task": tf.constant([task] * 2)}
    actual = made(encoding, batch)
    expected = [states_by_hand(made.tasks[task], *pair) for pair in zip(x, s, strict=True)]
    assert np.allclose(actual.tokens, expected, atol=1e-5)
    assert np.allclose(actual.pooled, [expected[0][3], expected[1][1]], atol=1e-5)


def test_a_batch_trains_only_the_layer_of_its_task():
    x, made = tf.constant(vectors(2, 4, 6)), make_reading(auxiliary="cola")
    batch = {"tokens": tf.ones([2, 4], tf.int32), "task": tf.constant([1, 1])}
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(made(Encoding(tokens=x, pooled=x[:, 0], layers=(x, x)), batch).pooled)
    gradients = tape.gradient(total, [v.value for way in made.tasks for v in vars(way).values()])
    moved = [bool(np.any(g.numpy())) for g in map(tf.convert_to_tensor, gradients)]
    assert moved == [False] * 4 + [True] * 4


def test_flops_of_a_task_layer():
    """By hand for width 6: matrices of 6 x 30, 6 x 30 and 6 x 12, two FLOPs per weight."""
    assert make_reading().flops_per_token == 2 * (6 * 30 + 6 * 30 + 6 * 12)


def test_a_batch_has_one_task_and_each_row_comes_once_per_epoch():
    rows = [InputRow({"tokens": np.full(1 + i % 3, 5), "task": np.int32(i >= 40)}, i) for i in range(70)]
    orders = []
    for epoch in range(20):
        batches = loop.epoch_batches(rows, 10, 0, epoch)
        tasks_of_batches = [{int(row.arrays["task"]) for row in batch} for batch in batches]
        assert all(len(one) == 1 for one in tasks_of_batches)
        assert sorted(row.example for batch in batches for row in batch) == list(range(70))
        orders.append([task for (task,) in tasks_of_batches])
        assert orders[-1].count(0) == 4 and orders[-1].count(1) == 3  # 40 and 30 rows
        again = loop.epoch_batches(rows, 10, 0, epoch)
        assert [[row.example for row in batch] for batch in batches] == [[r.example for r in b] for b in again]
    assert len(set(map(tuple, orders))) > 5 and {order[0] for order in orders} == {0, 1}


def test_courses_of_two_stages_are_joined():
    first = loop.Course(4, 40, 400.0, 9.0, [{"step": 4, "loss": 1.0, "score": 9.0}])
    both = first.then(loop.Course(2, 20, 200.0, 5.0, [{"step": 2, "loss": 0.5, "score": 5.0}]))
    assert (both.steps, both.tokens, both.flops, both.best_score) == (6, 60, 600.0, 5.0)
    assert [point["step"] for point in both.curve] == [4, 6]
    assert loop.Course().then(first) == first


def example(text, gold=None):
    return Example(id=text, inputs=(text,), gold=gold)


def test_each_task_has_its_own_classes():
    """SST-2 has two classes, TREC six: outputs 0 and 1, and 2 to 7, of 16."""
    codec = multitask.Codec(load("sst2"), TOKENIZER, Own(auxiliary="trec"), ())
    (good,) = codec.rows([example("good film", "1")])
    (who,) = codec.auxiliary_rows({"trec": [example("who is", load("trec").labels[3])]})
    assert codec.outputs == 16
    assert (int(good.arrays["task"]), int(good.arrays["label"])) == (0, 1)
    assert (int(who.arrays["task"]), int(who.arrays["label"])) == (1, 2 + 3)
    assert np.flatnonzero(good.arrays["unused"] == 0).tolist() == [0, 1]
    assert np.flatnonzero(who.arrays["unused"] == 0).tolist() == [2, 3, 4, 5, 6, 7]
    (requested,) = codec.rows([example("bad film")])
    assert int(requested.arrays["label"]) == -1
    logits = np.arange(16.0)  # the largest logit belongs to no class of this task
    assert codec.predictions([example("bad film")], [requested], [logits]) == ["1"]


def plan_cell(world, requested, task="sst2", limit=48, **changes):
    (cell,) = Combinations(
        adaptations=[requested],
        seeds=[0],
        data_sha256=Fingerprints(world),
        pretraining_of={},
        tokenizer="x",
        settings=changes,
        limit=limit,
    ).cells([plan.Row.parse("random-lm_lstm", "tiny")], [load(task)])
    return cell


def test_a_cell_lists_its_auxiliary_tasks_and_its_key_depends_on_their_data(world):
    actual = plan_cell(world, "multitask:auxiliary=sst2+cola+joint_epochs=3")
    assert actual.settings["auxiliary"] == "cola" and actual.settings["joint_epochs"] == 3
    task = load("cola")
    about = {"title": task.title, "version": task.version, "data_sha256": fingerprint(task, world)}
    assert actual.auxiliary == {"cola": about}
    other = dataclasses.replace(actual, auxiliary={"cola": about | {"data_sha256": "other"}})
    assert len({actual.key, other.key, dataclasses.replace(actual, auxiliary={}).key}) == 3
    complete = plan.Plan((Given(key="x", path="x"), actual))
    assert plan.Plan.from_json(complete.to_json()).cells[0].key == actual.key


def test_the_task_itself_as_auxiliary_task_changes_nothing(world):
    alone, itself = (plan_cell(world, requested) for requested in ("multitask", "multitask:auxiliary=sst2"))
    assert alone.settings == itself.settings and alone.auxiliary == itself.auxiliary == {}
    assert alone.key == first_key(alone)
    former = dataclasses.replace(alone, adaptation_version=1)
    assert former.key == first_key(former) != alone.key


def test_settings_of_both_stages():
    chosen = Own(auxiliary="cola+rte", joint_epochs=7, epochs=2, max_steps=5)
    assert chosen.of("rte") == dataclasses.replace(chosen, auxiliary="cola") and chosen.others == ("cola", "rte")
    assert (chosen.joint().epochs, chosen.joint().max_steps) == (7, 5)
    plain = settings.Settings()
    assert plain.joint() is None and plain.others == () and plain.of("cola") is plain
    assert plan.variant("multitask:auxiliary=cola+rte+epochs=2") == (
        "multitask",
        {"auxiliary": "cola+rte", "epochs": "2"},
    )


def test_invalid_settings_are_errors(world):
    for wrong in ("cola+", "cola+cola"):
        with pytest.raises(SettingError, match="each once"):
            settings.changed(Own(), {"auxiliary": wrong})
    with pytest.raises(SettingError, match="lowest and the top layer are read"):
        settings.changed(Own(), {"layers": "top"})
    with pytest.raises(UnknownTask, match="no task 'colla'"):
        plan_cell(world, "multitask:auxiliary=colla")
    with pytest.raises(UsageError, match="not an adaptation with settings"):
        plan.variant("multitask:cola")
    with pytest.raises(NotApplicable, match="for classification tasks"):
        heads.of(Form.TAGGING, "multitask")
    with pytest.raises(NotApplicable, match="it has no layers to share"):
        make_reading(depth=0)


def read_auxiliary(world, requested, **changes):
    """The auxiliary examples of a cell of SST-2. A dry run has to report the same error."""
    cell = plan_cell(world, requested, **changes)
    try:
        return auxiliary_examples(cell, world, settings.read("multitask", cell.settings), changes.get("kept_out", ()))
    except (NotApplicable, MissingData) as error:
        assert estimated(cell, world, {}, SHAPE)[2].lower() in str(error).lower()
        raise


def test_tasks_of_other_forms_or_without_data_cannot_be_auxiliary(world):
    with pytest.raises(NotApplicable, match="is regression and not classification"):
        read_auxiliary(world, "multitask:auxiliary=stsb")
    with pytest.raises(MissingData, match="TREC-6: no folder"):
        read_auxiliary(world, "multitask:auxiliary=trec")


def test_auxiliary_examples_exclude_texts_that_the_cell_is_scored_on(world):
    cell = plan_cell(world, "multitask:auxiliary=cola")
    chosen = settings.read("multitask", cell.settings)
    complete = read(load("cola"), world, "train")[:48]
    texts = {e.inputs for e in complete[:3]}
    actual = auxiliary_examples(cell, world, chosen, complete[:3])["cola"]
    assert actual == [e for e in complete if e.inputs not in texts] and len(actual) <= 45
    assert len(auxiliary_examples(cell, world, dataclasses.replace(chosen, train_limit=7), ())["cola"]) == 7
    with pytest.raises(NotApplicable, match="only training examples that this cell is scored on"):
        auxiliary_examples(cell, world, chosen, complete)


def test_a_dry_run_counts_both_stages(world):
    """The tokens of n epochs over SST-2 and CoLA are linear in n, so three estimates predict a fourth one."""

    def tokens(requested):
        return estimated(plan_cell(world, requested), world, {}, SHAPE)[0]

    alone = tokens("multitask:joint_epochs=2+epochs=4") - tokens("multitask:joint_epochs=2+epochs=3")
    assert tokens("multitask:joint_epochs=3") - tokens("multitask:joint_epochs=2") == pytest.approx(alone)
    with_cola, least = tokens("multitask:auxiliary=cola+joint_epochs=2"), tokens("multitask:joint_epochs=2")
    more = tokens("multitask:auxiliary=cola+joint_epochs=3") - with_cola
    assert more == pytest.approx(alone + (with_cola - least) / 2) and with_cola > least
    prediction_tokens = least - 6 * alone  # two joint epochs, then four
    capped = tokens("multitask:joint_epochs=8+epochs=8+max_steps=1+batch=24")  # half an epoch in each stage
    assert capped == pytest.approx(prediction_tokens + alone)


@pytest.mark.slow
def test_a_cell_learns_two_tasks_and_reports_its_own(world, tmp_path):
    tokenizer = Tokenizer.load(corpora.tokenizer([world / "corpus"], "wordpiece", 400))
    context = Context(
        data=world, out=tmp_path, shape=SHAPE, tokenizer=tokenizer, source={"name": "microworld"}, keep=True
    )
    short = {"joint_epochs": 2, "epochs": 1, "batch": 16, "length": 32}
    result = cells.run(plan_cell(world, "multitask:auxiliary=sst2+cola", **short), context)
    assert result.status == "ok", result.reason
    actual = record.read(record.write(context.out, result))
    # SST-2 trains on 44 of 48 examples (4 are for early stopping), CoLA on all 48: 3 + 3 batches, twice.
    assert actual.cost["steps"] == 2 * (3 + 3) + 3 and [p["step"] for p in actual.curve] == [6, 12, 15]
    assert actual.task["examples"] == 48 and list(actual.task["auxiliary"]) == ["cola"]
    assert actual.task["auxiliary"]["cola"]["data_sha256"] == fingerprint(load("cola"), world)
    # The kept checkpoint predicts without the training set.
    (folder,) = (tmp_path / "adapted").iterdir()
    lines = gzip.decompress((tmp_path / actual.predictions["file"]).read_bytes()).splitlines()
    requested = read(load("sst2"), world, "dev")[:48]
    answers = predict._predictions(checkpoint.read(folder), requested)
    assert [json.loads(line)["prediction"] for line in lines] == answers

    alone = cells.run(plan_cell(world, "multitask", **short), context)
    assert alone.cost["steps"] == 2 * 3 + 3 and alone.cost["flops"] < actual.cost["flops"]
    assert "auxiliary" not in alone.task
    missing = cells.run(plan_cell(world, "multitask:auxiliary=trec", **short), context)
    assert missing.status == "not_applicable" and missing.reason["text"].startswith("because TREC-6: no folder")
