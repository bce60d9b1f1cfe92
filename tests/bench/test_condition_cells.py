"""Cells under conditions: plans, runs, records and the board. Plain cells do not change."""

import dataclasses
import gzip
import json
import signal
import subprocess
import sys
import time

import pytest

from ptmbench import tasks
from ptmbench.bench import baselines
from ptmbench.bench.adapt import conditions, predictor, settings
from ptmbench.bench.adapt.settings import SettingError
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.cost import add_costs
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs import suites
from ptmbench.bench.runs.artefacts import AdaptedModel, Given, Row
from ptmbench.bench.runs.examples import parts_of, read
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import intact
from ptmbench.bench.runs.suites import demo
from ptmbench.bench.runs.work import Worker
from ptmbench.bench.scoring import rescore, score
from ptmbench.leaderboard.gate import sides
from ptmbench.leaderboard.records import record
from ptmbench.leaderboard.scores.arrange import arrange
from tests.bench.cells import make
from tests.bench.processes import PATIENCE, ROOT, wait_for
from tests.bench.test_plan import COLA, CONLL, WIKI, first_key
from tests.bench.test_plan import cells as planned
from tests.leaderboard import made
from tests.leaderboard.gates import side


class Models:
    """Collects the adapted models that a plan needs."""

    def __init__(self):
        self.found = {}

    def __call__(self, cell):
        assert not cell.condition and not cell.predictor
        one = AdaptedModel(cell=cell)
        self.found[one.key] = one
        return one.key


def under(asked="misspellings", found=(COLA,), names=("bert", "majority"), **changes):
    """Plans cells of the tasks ``found`` under the conditions ``asked``. Returns the cells and the adapted models."""
    models = Models()
    rows = [Row.parse(name, None if name in baselines.names() else "tiny") for name in names]
    return planned(rows, found, conditions=asked.split(","), adapted=models, **changes), models.found


# Plans ---------------------------------------------------------------------------------------------------------------


def test_plans_add_cells_under_the_condition_and_keep_the_keys_of_plain_cells():
    rows = [Row.parse("bert", "tiny"), Row.parse("majority", None)]
    plain = planned(rows, seeds=range(2))
    found, models = under(seeds=range(2))
    assert [one.key for one in found if not one.condition] == [one.key for one in plain]
    assert [(one.row.name, one.seed, one.condition) for one in found] == [
        ("bert", 0, ""), ("bert", 0, "misspellings"), ("bert", 1, ""), ("bert", 1, "misspellings"),
        ("majority", 0, ""), ("majority", 0, "misspellings"),
    ]  # fmt: skip
    assert len({one.key for one in found}) == len(found) and len(models) == 2
    for before, after in zip(found[::2], found[1::2], strict=True):
        assert before.predictor == after.predictor and bool(before.predictor) == (before.row.kind != "baseline")
        if before.predictor:  # adapted once for both
            assert models[before.predictor].cell.key == before.key
            assert before.predictor in before.needs and before.relation(before.predictor) == "Its adaptation"
    (left,) = {one.group for one in found if one.row.model}  # one traced step
    assert left == plain[0].group
    whole = Plan((Given(key="t", path="x"), *models.values(), *found))
    assert Plan.from_json(whole.to_json()) == whole


def test_keys_of_cells_without_a_condition_do_not_change():
    (plain, *_), _ = under()
    assert plain.predictor and plain.key == first_key(plain)


def test_the_key_depends_on_the_condition_and_not_on_the_adapted_model():
    (_, one, *_), _ = under("misspellings:share=0.2")
    assert dataclasses.replace(one, predictor="").key == one.key
    for other in ({"condition": ""}, {"condition_version": 9}, {"condition_settings": {"share": 0.3}}):
        assert dataclasses.replace(one, **other).key != one.key


def test_all_spellings_of_a_condition_have_one_name():
    names = [conditions.choose(text).title for text in (
        "misspellings", "misspellings:share=0.1", "misspellings:share=0.20", "misspellings:kinds=swap+delete+share=.2",
    )]  # fmt: skip
    assert names == [
        "misspellings", "misspellings", "misspellings:share=0.2", "misspellings:share=0.2+kinds=swap+delete"
    ]  # fmt: skip
    found, _ = under("misspellings,misspellings:share=0.1,misspellings:share=0.2", names=("bert",), seeds=[0])
    assert [one.condition for one in found] == ["", "misspellings", "misspellings:share=0.2"]


@pytest.mark.parametrize(
    ("asked", "error", "told"),
    [
        ("noise", UsageError, "There is no condition 'noise'. Choices: misspellings."),
        ("misspellings:share", UsageError, "'misspellings:share' is not a condition with settings"),
        ("misspellings:share=2", SettingError, "misspellings:share=2: share=2 is not valid. Expected: from 0 to 1"),
        ("misspellings:shore=0.2", SettingError, "There is no setting 'shore' here. Nearest: share"),
        ("misspellings:kinds=swap+swap", SettingError, "kinds=swap[+]swap is not valid. Expected: some of insert,"),
    ],
)
def test_invalid_conditions_are_reported_before_anything_runs(asked, error, told):
    with pytest.raises(error, match=told):
        under(asked)


def test_no_model_is_adapted_for_tasks_that_the_condition_does_not_fit():
    found, models = under(found=(CONLL, WIKI), names=("bert",))
    assert not models and not any(one.predictor for one in found)
    assert {one.column for one in found} == {
        "conll2003", "conll2003@misspellings", "wikitext2", "wikitext2@misspellings"
    }  # fmt: skip


def test_a_suite_lists_its_conditions_in_a_tuple():
    assert demo.SUITE.conditions == ()
    (told,) = suites._mistakes(dataclasses.replace(demo.SUITE, conditions="misspellings"))
    assert told == "SUITE.conditions is a tuple of texts, not 'misspellings'."


def test_the_command_of_a_cell_names_its_condition():
    (plain, one, *_), _ = under("misspellings:share=0.2")
    job = Job(data="", source={}, command="ptmbench run demo", keep=False, length=32)
    assert job.command_of(plain).endswith("--tasks cola --adaptation finetune --seed 0")
    told = job.command_of(one)
    assert told.endswith("--tasks cola --adaptation finetune --condition misspellings:share=0.2 --seed 0")


# Cells ---------------------------------------------------------------------------------------------------------------


def kept(cell, context):
    """Returns ``context`` with the model of ``cell``, which is adapted as a separate artefact."""
    home = context.out / "home"
    cost = cells.adapt(cell, dataclasses.replace(context, out=home))
    (folder,) = (home / "adapted").iterdir()
    return dataclasses.replace(context, predictor=checkpoint.read(folder), spent=cost)


@pytest.mark.parametrize(
    ("task", "model", "adaptation"),
    [("sst2", "bert", "finetune"), ("stsb", "electra", "finetune"), ("copa", "gpt", "features")],
)
def test_plain_cells_have_the_same_results_with_a_shared_adapted_model(context, task, model, adaptation):
    cell = make(task, model, adaptation)
    alone = cells.run(cell, dataclasses.replace(context, out=context.out / "alone"))
    assert alone.status == "ok", alone.reason
    shared = cells.run(dataclasses.replace(cell, predictor="x"), kept(cell, context))
    for part in ("key", "scores", "predictions", "curve", "task", "adaptation"):
        assert getattr(shared, part) == getattr(alone, part)
    assert shared.cost.keys() == alone.cost.keys() | {"disk_bytes_compressed"}  # measured where weights are written
    for name in ("steps", "tokens", "flops", "flops_evaluate", "parameters", "disk_bytes"):
        assert shared.cost[name] == alone.cost[name]
    assert shared.cost["seconds"]["train"] > 0 and list(shared.cost["seconds"])[-1] == "total"


def test_under_a_condition_the_same_model_answers_changed_examples(context, world):
    cell = make("sst2", "bert", "finetune", seed=1)
    given = kept(cell, context)
    chosen = conditions.choose("misspellings:share=1.0")
    changes = {"share": 1.0, "kinds": "insert+delete+swap+mistype"}
    one = dataclasses.replace(
        cell, predictor="x", condition=chosen.title, condition_settings=changes, condition_version=1
    )
    plain, found = cells.run(dataclasses.replace(cell, predictor="x"), given), cells.run(one, given)
    assert found.status == "ok", found.reason
    # Expected: the answers of the saved predictor to misspelt examples.
    task = tasks.load("sst2")
    report = read(task, world, "dev")[:48]
    asked = chosen.condition.changed(task, report, chosen.settings, 1, None)
    assert all(a.inputs != b.inputs for a, b in zip(report, asked, strict=True))
    right = predictor.load(given.predictor).answer(asked)
    assert found.scores == score.scores(task, report, right.predictions)
    with gzip.open(context.out / found.predictions["file"], "rt") as file:
        rows = [json.loads(line) for line in file]
    assert [(row["id"], row["gold"], row["prediction"]) for row in rows] == [
        (example.id, example.gold, answer) for example, answer in zip(report, right.predictions, strict=True)
    ]
    assert found.predictions != plain.predictions and found.key != plain.key
    assert found.task["name"] == "sst2@misspellings:share=1.0"
    assert found.task["title"] == f"{task.title} under misspellings:share=1.0"
    assert found.task["condition"] == {"name": "misspellings:share=1.0", "settings": changes, "version": 1}
    assert "condition" not in plain.task and found.adaptation == plain.adaptation
    assert found.cost["steps"] == plain.cost["steps"]  # the steps behind the score, wherever they were taken
    record.write(context.out, found)
    # The predictions are rescored like those of the plain task.
    assert rescore.scored(found, [context.out]).value == pytest.approx(found.headline["value"])
    # With --keep, only the plain cell saves a model, because a condition does not change the model.
    again = dataclasses.replace(given, keep=True, out=context.out / "again")
    assert cells.run(one, again).status == "ok" and not (context.out / "again/adapted").exists()
    assert cells.run(dataclasses.replace(cell, predictor="x"), again).status == "ok"
    (folder,) = (context.out / "again/adapted").iterdir()
    assert checkpoint.read(folder).weights_sha256 == given.predictor.weights_sha256


def test_a_condition_that_does_not_fit_is_not_applicable(context):
    cell = dataclasses.replace(make("conll2003", "bert", "finetune"), condition="misspellings", condition_version=1)
    found = cells.run(cell, context)
    assert (found.status, found.reason["code"]) == ("not_applicable", "condition")
    told = "because the condition misspellings is for classification, regression, choice tasks."
    assert found.reason["text"] == told
    record.write(context.out, found)


def test_a_baseline_predicts_under_a_condition(context):
    (*_, plain, one), _ = under(
        "misspellings:share=1.0", (tasks.load("sst2"),), ("bag-of-words",), data_sha256=SameHash()
    )
    left, right = (cells.run(each, context) for each in (plain, one))
    assert left.status == right.status == "ok"
    task = tasks.load("sst2")
    train, _, report, *_ = parts_of(plain, context.data, task, settings.read("baseline", plain.settings))
    chosen = conditions.choose(one.condition)
    asked = chosen.condition.changed(task, report, chosen.settings, 0, None)
    assert right.scores == score.scores(task, report, baselines.predict("bag-of-words", task, train, asked))
    assert left.predictions != right.predictions and right.task["name"] == one.column


class SameHash(dict):
    """Maps all data to one hash."""

    def __missing__(self, name):
        return "d"


def test_costs_of_adaptation_and_evaluation_add_up():
    first = {"seconds": {"train": 1.0, "total": 1.0}, "peak_memory_bytes": 5, "energy": {"joules": 2.0, "source": "x"}}
    second = {"seconds": {"load": 0.5, "train": 0.25, "total": 0.75}, "peak_memory_bytes": 3}
    assert add_costs(first, second | {"energy": {"joules": 1.0, "source": "x"}}) == {
        "seconds": {"train": 1.25, "load": 0.5, "total": 1.75},
        "peak_memory_bytes": 5,
        "energy": {"joules": 3.0, "source": "x"},
    }
    unknown = {"joules": None, "reason": "none"}
    assert add_costs(first, second | {"energy": unknown})["energy"] == unknown


def test_a_failed_adaptation_is_the_reason_in_all_its_cells(tmp_path):
    (plain, one, *_), models = under(names=("random-bert",), seeds=[0])
    (adapted,) = models.values()
    job = Job(data="", source={}, command="", keep=False, length=32)
    worker = Worker(tmp_path, Plan((Given(key="t", path="x"), adapted, plain, one)), job)
    worker.give_up(adapted, {"code": "diverged", "text": "The loss is not finite."}, "diverged")
    for cell in (plain, one):
        worker.do(cell.key)
        found = record.read(cell.place(tmp_path))
        assert (found.status, found.reason["code"]) == ("diverged", "diverged")
        assert found.reason["text"] == "Its adaptation failed: The loss is not finite."
        assert found.task["name"] == cell.column


# The board -----------------------------------------------------------------------------------------------------------


def misspelt(share=0.1, version=1, **changes):
    """Returns a made-up record of SST-2 under misspellings."""
    name = "misspellings" if share == 0.1 else f"misspellings:share={share}"
    about = {"name": name, "settings": {"share": share}, "version": version}
    own = {"name": f"sst2@{name}", "title": f"SST-2 under {name}", "condition": about}
    return made.record(task="sst2", task_=own, **changes)


def test_scores_under_a_condition_have_their_own_column():
    plain = [made.record(task="sst2", value=90.0, seed=seed) for seed in range(2)]
    noisy = [misspelt(share, value=value) for share, value in ((0.1, 80.0), (0.2, 60.0))]
    alone, grid = arrange(plain), arrange([*plain, *noisy])
    assert [column.title for column in grid.columns] == [
        "SST-2", "SST-2 under misspellings", "SST-2 under misspellings:share=0.2"
    ]  # fmt: skip
    (row,) = grid.rows
    means = [grid.cells[row, column].summary.mean for column in grid.columns]
    assert means == [90.0, 80.0, 60.0] and not grid.notes
    assert grid.macro(row) == alone.macro(alone.rows[0])  # over tasks, not over conditions
    assert list(grid.macro(row).values()) == [90.0, 90.0]
    assert "under a condition" in grid.definition() and "under a condition" not in alone.definition()
    # Two versions of a condition give different examples.
    both = arrange([misspelt(value=80.0), misspelt(version=2, value=70.0, seed=1)])
    assert len(both.columns) == 2 and all("condition version" in column.part for column in both.columns)


def test_the_gate_compares_only_the_same_condition(tmp_path):
    one, newer = misspelt(value=80.0), misspelt(version=2, value=80.0)
    plain = made.record(task="sst2", value=80.0)
    assert len({sides.identity_of(each) for each in (plain, one, misspelt(0.2))}) == 3
    left, right = (sides.read(side(tmp_path / name, [each])) for name, each in (("a", one), ("b", newer)))
    ((_, _, apart),) = sides.match(left, right)
    assert apart == ["version of the condition"]


@pytest.mark.parametrize("broken", [{"name": "x"}, {"name": 3, "settings": {}, "version": 1}, "misspellings"])
def test_a_record_with_an_incomplete_condition_is_rejected(tmp_path, broken):
    with pytest.raises(record.RecordError, match="condition"):
        record.write(tmp_path, made.record(task_={"condition": broken}))


# Real processes ------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.options import CellOptions, OutputOptions, RunOptions, TrainingOptions, WorkerOptions
from ptmbench.bench.runs.run import run_suite

sys.exit(run_suite(RunOptions(
    suite="demo", data=Path(sys.argv[1]), models=("bert",), baselines=False,
    cells=CellOptions(tasks=("sst2",), seeds=1, conditions=tuple(sys.argv[3:]) or None,
                      settings={"length": 32, "batch": 4, "max_steps": 40}),
    training=TrainingOptions(budget=Budget(steps=40), recipe={"batch": 4, "length": 32}, vocabulary=300),
    workers=WorkerOptions(jobs=1, threads=1), output=OutputOptions(out=Path(sys.argv[2])),
)))
"""


def records(out):
    return {one.task["name"]: one for one in map(record.read, (out / "records").glob("*.json"))}


@pytest.mark.slow
def test_a_run_killed_between_the_adapted_model_and_its_cells_resumes_from_it(world, tmp_path):
    """The plain cell equals that of a run without conditions. The model is not adapted a second time."""
    log = tmp_path / "log"

    def begin(out, *asked):
        with open(log, "w") as file:
            return subprocess.Popen([sys.executable, "-c", SCRIPT, world, out, *asked], cwd=ROOT, stderr=file)

    assert begin(tmp_path / "plain").wait(timeout=PATIENCE) == OK, log.read_text()
    assert begin(tmp_path / "straight", "misspellings:share=0.5").wait(timeout=PATIENCE) == OK, log.read_text()
    assert "Adapting bert" in log.read_text() and not (tmp_path / "straight" / "intermediate").exists()
    whole = Plan.from_json((tmp_path / "straight" / "plan.json").read_text())
    (adapted,) = (one for one in whole.artefacts if isinstance(one, AdaptedModel))
    out = tmp_path / "killed"
    process = begin(out, "misspellings:share=0.5")
    wait_for(lambda: intact(out, adapted) or process.poll() is not None)
    process.kill()
    assert process.wait() == -signal.SIGKILL, log.read_text()
    time.sleep(1.5)  # its worker sees the pipe close and stops
    assert intact(out, adapted) and len(records(out)) < 2
    assert begin(out, "misspellings:share=0.5").wait(timeout=PATIENCE) == OK, log.read_text()
    assert "Adapting" not in log.read_text() and not (out / "intermediate").exists()
    plain, straight, killed = (records(tmp_path / name) for name in ("plain", "straight", "killed"))
    assert plain.keys() == {"sst2"} and straight.keys() == killed.keys() == {"sst2", "sst2@misspellings:share=0.5"}
    for name, one in straight.items():
        for other in (killed[name], plain.get(name, one)):
            for part in ("key", "scores", "curve", "predictions", "adaptation", "task"):
                assert getattr(one, part) == getattr(other, part)
    assert straight["sst2"].predictions != straight["sst2@misspellings:share=0.5"].predictions
