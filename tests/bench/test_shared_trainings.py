"""Cells with the same training share one adapted model: FastBERT speeds, beam sizes, and an intermediate task."""

import dataclasses

import pytest

from ptmbench.bench.adapt import loop
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.artefacts import AdaptedModel, Given, Row, TransformedModel
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan, training_cell
from ptmbench.bench.runs.run import AdaptedModels
from ptmbench.bench.runs.trainings import TokenizerTraining
from ptmbench.bench.runs.work import Worker
from ptmbench.leaderboard.records import record
from ptmbench.tasks import load
from tests.bench.cells import make
from tests.bench.test_plan import COLA, WIKI, first_key
from tests.bench.test_plan import cells as planned

SPEEDS = ("fastbert", "fastbert:speed=0.0", "fastbert:speed=0.9")


def plan_of(*adaptations, found=(COLA,), names=("bert", "majority"), **changes):
    """Returns cells with ``adaptations``, and the adapted models that they share."""
    models = AdaptedModels()
    rows = [Row.parse(name, None if name == "majority" else "tiny") for name in names]
    made = planned(rows, found, adaptations=adaptations, adapted=models, **({"seeds": [0]} | changes))
    return made, models.models


def test_all_speeds_share_one_training_and_keep_their_keys():
    found, models = plan_of(*SPEEDS, seeds=range(2))
    assert [(one.cell.seed, one.cell.adaptation) for one in models] == [(0, "fastbert"), (1, "fastbert")]
    for one in found:
        assert one.key == first_key(one)
        assert bool(one.predictor) == (one.row.kind != "baseline")
    for model in models:
        users = [one for one in found if one.predictor == model.key]
        assert [one.adaptation for one in users] == list(SPEEDS)
        assert {training_cell(one).key for one in users} == {model.cell.key} == {users[0].key}
    assert [one.settings["speed"] for one in found if one.seed == 1] == [0.5, 0.0, 0.9]
    whole = Plan((Given(key="t", path="x"), *models, *found))
    assert Plan.from_json(whole.to_json()) == whole


@pytest.mark.parametrize(
    ("adaptations", "trainings"),
    [
        (("fastbert:speed=0.9",), []),  # a single cell trains and predicts in one step
        (("fastbert:speed=0.1+distilling=0.4", "fastbert:distilling=0.4", "fastbert"), ["fastbert:distilling=0.4"]),
        (("finetune", "finetune:dropout=0.2"), []),
        (("finetune", "fastbert"), []),
        (("finetune:beam=2", "finetune:beam=3+sample=1+top_k=5", "finetune:beam=3+label_smoothing=0.1"), ["finetune"]),
    ],
)
def test_settings_that_only_affect_prediction_share_one_training(adaptations, trainings):
    task = load("multi30k-en-mw") if "beam" in adaptations[0] else COLA
    sums = {"data_sha256": {task.name: "d"}}
    found, models = plan_of(*adaptations, found=(task,), names=("t5",) if task is not COLA else ("bert",), **sums)
    assert [one.cell.adaptation for one in models] == trainings
    assert all(
        bool(one.predictor) == any(training_cell(one).key == model.cell.key for model in models) for one in found
    )


def test_transforms_and_conditions_of_all_speeds_share_their_models():
    found, models = plan_of(*SPEEDS, names=("bert",), transforms=("int8",), conditions=("misspellings",))
    assert [type(one) for one in models] == [AdaptedModel, TransformedModel] and len(found) == 3 * 2 * 2
    assert {one.predictor for one in found if one.transforms} == {models[1].key}
    assert {one.predictor for one in found if not one.transforms} == {models[0].key}


def test_tasks_without_training_share_no_model():
    found, models = plan_of("finetune", "features", found=(WIKI,), names=("gpt",))
    assert not models and not any(one.predictor for one in found)


def test_an_intermediate_task_of_the_run_is_trained_once():
    sst2 = load("sst2")
    sums = {"data_sha256": {"cola": "d", "sst2": "d"}}
    found, models = plan_of("finetune", "finetune:after=sst2", found=(COLA, sst2), names=("bert",), **sums)
    (model,) = models
    assert model.cell.task == "sst2" and model.cell.adaptation == "finetune"
    by_name = {(one.task, one.adaptation): one for one in found}
    assert by_name["cola", "finetune:after=sst2"].adapted == model.key
    assert not by_name["cola", "finetune"].predictor and not by_name["cola", "finetune:after=sst2"].predictor
    assert {by_name["sst2", name].predictor for name in ("finetune", "finetune:after=sst2")} == {model.key}


@pytest.fixture
def trainings(monkeypatch):
    """A list with one entry for each training that has begun."""
    begun, train = [], loop.train
    monkeypatch.setattr(loop, "train", lambda *given: begun.append(given) or train(*given))
    return begun


def comparable_fields(result):
    """Returns the fields of a record that describe its predictions and the training behind them."""
    cost = {name: value for name, value in result.cost.items() if name.startswith(("flops", "mean_exit"))}
    names = ("steps", "tokens", "parameters", "bits_per_weight", "zero_weights", "disk_bytes")
    return result.status, result.scores, result.curve, result.predictions, cost, [result.cost[name] for name in names]


@pytest.mark.slow
def test_a_shared_training_gives_the_same_results_as_separate_trainings(context, world, trainings):
    """Compares cells that train separately with cells that share one adapted model. Each of these uses a new worker."""
    words = TokenizerTraining(tokenizer="wordpiece", vocabulary=400, corpus=(str(world / "corpus"),), corpus_sha256="c")

    def fastbert_cell(name, **settings):
        changes = {"epochs": 2, "batch": 16, "learning_rate": 3e-3}
        cell = make("sst2", "bert", "fastbert", **changes, **settings)
        return dataclasses.replace(cell, adaptation=name, tokenizer=words.key)

    speeds = {"fastbert": {}, "fastbert:speed=0.0": {"speed": 0.0}, "fastbert:speed=1.0": {"speed": 1.0}}
    alone = [fastbert_cell(name, **changes) for name, changes in speeds.items()]
    model = AdaptedModel(cell=training_cell(alone[1]))
    assert model.cell.key == alone[0].key
    shared = [dataclasses.replace(one, predictor=model.key) for one in alone]
    whole = Plan((words, model, *shared))
    job = Job(data=str(world), source={"name": "microworld"}, command="", keep=False, length=96)
    Worker(context.out, whole, job).do(words.key)
    assert Worker(context.out, whole, job).do(model.key).endswith(": done") and len(trainings) == 1
    for one in shared:
        Worker(context.out, whole, job).do(one.key)  # a new worker, as after a restart
    assert len(trainings) == 1
    apart = Plan((words, *alone))
    found = []
    for one in alone:
        together = record.read(one.place(context.out))
        own = cells.run(one, Worker(context.out, apart, job)._context(one, context.out / "apart"))
        assert own.key == together.key and comparable_fields(own) == comparable_fields(together)
        found.append(together)
    assert len(trainings) == 4
    half, none, all_ = (one.cost["mean_exit_layer"] for one in found)
    assert none == 2 >= half >= all_ == 1, "at speed 0 no text leaves early, at speed 1 all do"
