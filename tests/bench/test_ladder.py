"""Ladders of budgets and several pre-trainings of one model: plans, the commands that repeat cells, and a run on the
microworld that is killed in the middle."""

import json
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ptmbench.bench.__main__ import main
from ptmbench.bench.engine.budget import Budget, parse_rungs, rungs, written
from ptmbench.bench.errors import OK, USAGE, UsageError
from ptmbench.bench.options import PretrainOptions, RunOptions, TrainingOptions
from ptmbench.bench.runs import run, suites
from ptmbench.bench.runs.artefacts import AdaptedModel
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.pretrain import pretrain_command
from ptmbench.bench.runs.results import failure_of, intact
from ptmbench.bench.runs.suites import Stage, demo
from ptmbench.bench.runs.work import Worker
from ptmbench.leaderboard import tables
from ptmbench.leaderboard.records import record
from ptmbench.tasks import microworld
from tests.bench import asking
from tests.bench.processes import ROOT, wait_for

TWO = (Budget(steps=2), Budget(steps=5))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("microworld") / "data"
    microworld.make(folder)
    return folder


@pytest.fixture
def planned(world, tmp_path, monkeypatch):
    """Runs `run_suite` without executing the plan. Returns the plan and the job."""

    def plans(**options):
        found = []
        monkeypatch.setattr(run, "execute", lambda whole, job, *_: found.append((whole, job)) or OK)
        usual = {"suite": "demo", "models": ("bert", "gpt"), "tasks": ("cola",), "seeds": 2, "vocabulary": 300}
        usual |= {"data": world, "out": tmp_path, "budget": TWO, "recipe": {"batch": 4, "length": 32}}
        assert asking.run_suite(**(usual | options)) == OK
        return found[0]

    return plans


def budgets_and_seeds(whole, name="bert"):
    """The budgets and seeds of the pre-trainings that the cells of a row use."""
    made = [whole.by_key[cell.pretraining] for cell in whole.cells if cell.row.name == name]
    return sorted({(one.budget.steps, one.seed) for one in made})


def test_budgets_are_parsed_from_one_option():
    assert parse_rungs(flops="1e12,1e13, 1e14") == tuple(Budget(flops=10.0**n) for n in (12, 13, 14))
    assert parse_rungs(tokens="20e6") == (Budget(tokens=20_000_000),) and parse_rungs(steps=None) == ()
    assert parse_rungs(flops="1e12,1e12") == (Budget(flops=1e12),)
    for wrong in ({"flops": "1e12,"}, {"flops": "1e12,-1"}, {"flops": "1e12", "steps": "3"}, {"steps": "2,2.5"}):
        with pytest.raises(UsageError):
            parse_rungs(**wrong)
    assert rungs(Budget()) == () and rungs((Budget(), Budget(steps=1))) == (Budget(steps=1),)
    assert [written(x) for x in (1e12, 3.2e10, 20_000_001, 1 / 3)] == ["1e+12", "3.2e+10", "20000001", repr(1 / 3)]


def test_models_have_cells_for_every_budget_and_random_twins_for_one(planned):
    whole, _ = planned()
    assert (
        budgets_and_seeds(whole) == budgets_and_seeds(whole, "gpt") == [(2, 0), (5, 0)] and len(whole.pretrainings) == 4
    )
    counts = {name: sum(cell.row.name == name for cell in whole.cells) for name in ("bert", "random-bert", "majority")}
    assert counts == {"bert": 4, "random-bert": 2, "majority": 1}
    assert len({cell.key for cell in whole.cells}) == len(whole.cells)
    assert Plan.from_json(whole.to_json()) == whole
    titles = {cell.title for cell in whole.cells if cell.row.name == "bert"}
    assert "bert-tiny cola finetune seed 1 --steps 5" in titles


def test_cells_of_a_rung_equal_those_of_a_run_with_one_budget(planned):
    whole, _ = planned()
    for budget in TWO:
        alone, _ = planned(budget=budget)
        assert {cell.key for cell in alone.cells} <= {cell.key for cell in whole.cells}
        assert {one.key for one in alone.pretrainings} <= {one.key for one in whole.pretrainings}
        assert all(not one.chosen_by for one in (*alone.cells, *alone.pretrainings))
    seeds, _ = planned(budget=TWO[0], pretraining_seeds=2)
    assert {cell.key for cell in planned(budget=TWO[0])[0].cells} <= {cell.key for cell in seeds.cells}


def test_models_are_pretrained_with_several_seeds(planned):
    assert budgets_and_seeds(planned(pretraining_seeds=2)[0]) == [(2, 0), (2, 1), (5, 0), (5, 1)]
    assert budgets_and_seeds(planned(pretraining_seed=7)[0]) == [(2, 7), (5, 7)]
    whole, _ = planned(budget=TWO[0], pretraining_seed=7)
    assert budgets_and_seeds(whole) == [(2, 7)] and not whole.cells[0].chosen_by


def test_a_suite_can_set_budgets_and_pretraining_seeds(planned, monkeypatch):
    suite = replace(demo.SUITE, budget=TWO, budgets={"gpt": Budget(steps=9)}, pretrainings={"bert": 2})
    monkeypatch.setattr(demo, "SUITE", suite)
    assert suites.load("demo") is suite
    whole, _ = planned(budget=Budget())
    assert budgets_and_seeds(whole) == [(2, 0), (2, 1), (5, 0), (5, 1)] and budgets_and_seeds(whole, "gpt") == [(9, 0)]
    assert budgets_and_seeds(planned(pretraining_seeds=1)[0], "bert") == [(2, 0), (5, 0)]
    assert "bert" in suites.load("ladder").pretrainings and len(suites.load("ladder").budget) == 3
    wrong = replace(suite, budget=(Budget(steps=1), Budget()), pretrainings={"bert": 0}, pretraining_seeds=0)
    assert suites._mistakes(wrong) == [
        "SUITE.pretraining_seeds is a whole number of at least 1, not 0.",
        "SUITE.pretrainings['bert'] is a whole number of at least 1, not 0.",
        "SUITE.budget and SUITE.budgets hold a bench.engine.budget.Budget with a unit.",
    ]
    assert suites._mistakes(replace(suite, budget=(Budget(steps=1), Budget(steps=1))))  # one rung is given twice


def test_teachers_and_earlier_stages_have_the_seeds_of_their_students(planned, monkeypatch):
    whole, _ = planned(models=("distilbert", "bert"), pretraining_seeds=2)
    for cell in whole.cells:
        if cell.row.name == "distilbert":
            student = whole.by_key[cell.pretraining]
            teacher = whole.by_key[student.teacher]
            assert (teacher.budget, teacher.seed) == (student.budget, student.seed)
    assert {one.model for one in whole.pretrainings} == {"bert", "distilbert"} and len(whole.pretrainings) == 8
    stage = Stage(budget=Budget(steps=3), corpus=("corpus/*.txt",))
    monkeypatch.setattr(demo, "SUITE", replace(demo.SUITE, base=stage))
    whole, _ = planned(models=("bert",), pretraining_seeds=2)
    first = [one for one in whole.pretrainings if one.budget.steps == 3]
    assert sorted(one.seed for one in first) == [0, 1] and len(whole.pretrainings) == 2 + 4  # shared by both rungs


def test_extra_encoders_have_the_budget_of_their_row(planned):
    stacked = {"models": ("bert",), "tasks": ("conll2003",), "adaptations": ("stacked:encoders=glove",), "seeds": 1}
    whole, _ = planned(**stacked)
    for cell in whole.cells:
        if cell.neighbours and cell.pretraining:
            extra_encoder = whole.by_key[cell.neighbours["glove"]]
            assert extra_encoder.budget == whole.by_key[cell.pretraining].budget
    twins = [cell for cell in whole.cells if cell.row.name == "random-bert"]
    assert {whole.by_key[cell.neighbours["glove"]].budget for cell in twins} == set(TWO)


@pytest.mark.parametrize(
    "changes", [{}, {"pretraining_seeds": 2}, {"pretraining_seed": 3}, {"budget": TWO[1], "pretraining_seeds": 2}]
)
def test_the_command_of_a_cell_plans_that_cell(planned, monkeypatch, changes, tmp_path):
    whole, job = planned(**changes)
    for cell in whole.cells:
        program, *arguments = shlex.split(job.command_of(cell))
        assert program == "ptmbench"
        found = []
        monkeypatch.setattr(run, "execute", lambda again, *_, found=found: found.append(again) or OK)
        assert main([*arguments, "--out", str(tmp_path)]) == OK
        assert [one.key for one in found[0].cells] == [cell.key]


def test_kept_adapted_models_have_separate_folders(planned):
    whole, _ = planned(pretraining_seeds=2, transforms=("int8",))
    of = [one for one in whole.artefacts if isinstance(one, AdaptedModel)]
    assert len({one.cell.folder for one in of}) == len(of) == len({one.key for one in of})
    assert {cell.folder for cell in whole.cells if cell.chosen_by and cell.transform} >= {
        "bert-tiny.cola.finetune-int8.s0.steps-2-pretraining-seed-0"
    }
    alone, _ = planned(budget=TWO[0])
    assert "bert-tiny.cola.finetune.s0" in {cell.folder for cell in alone.cells}


def test_the_record_of_a_cell_names_the_pretraining_that_failed(planned, tmp_path):
    whole, job = planned(models=("bert",), pretraining_seeds=2)
    cell = next(one for one in whole.cells if one.chosen_by == "--steps 5 --pretraining-seed 1")
    note = failure_of(tmp_path, whole.by_key[cell.pretraining])
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"status": "diverged", "code": "diverged", "text": "The loss was not finite."}))
    Worker(tmp_path, whole, job).do(cell.key)
    (path,) = (tmp_path / "records").glob("*.json")
    found = record.read(path)
    assert found.status == "diverged" and found.pretraining is None
    assert record.planned(found)["budget"] == {"steps": 5} and record.draw_of(found) == (("1",), cell.seed)
    assert found.command.endswith("--no-baselines --sizes tiny --steps 5 --pretraining-seed 1 --tasks cola "
                                  f"--adaptation finetune --seed {cell.seed}")  # fmt: skip


def test_pretrain_refuses_several_budgets_and_seeds(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("one two three\n")
    arguments = ["pretrain", "bert", "--corpus", str(text), "--out", str(tmp_path / "out")]
    assert main([*arguments, "--steps", "2,3"]) == USAGE
    assert "A pre-training has one budget, not --steps 2 and --steps 3." in capsys.readouterr().err
    options = PretrainOptions(
        model="bert", out=tmp_path / "out", training=TrainingOptions(corpus=(text,), budget=TWO[0], pretraining_seeds=2)
    )
    with pytest.raises(UsageError, match="one pre-training"):
        pretrain_command(options)
    with pytest.raises(UsageError, match="pretraining_seeds is a whole number"):
        RunOptions(suite="demo", training=TrainingOptions(pretraining_seeds=0))


SCRIPT = """
import sys
from pathlib import Path
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.options import CellOptions, OutputOptions, RunOptions, TrainingOptions, WorkerOptions
from ptmbench.bench.runs.run import run_suite

sys.exit(run_suite(RunOptions(
    suite="ladder", data=Path(sys.argv[1]), models=("bert", "gpt"), sizes=("tiny",),
    cells=CellOptions(tasks=("cola",), seeds=1, settings={"length": 32, "batch": 4, "max_steps": 20}),
    training=TrainingOptions(budget=tuple(Budget(flops=x) for x in (2e9, 8e9, 3.2e10)), pretraining_seeds=2,
                             recipe={"batch": 8, "length": 32}, vocabulary=300),
    workers=WorkerOptions(jobs=1, threads=1),
    output=OutputOptions(out=Path(sys.argv[2]), save_every=float(sys.argv[3])),
)))
"""


@pytest.mark.slow
def test_a_ladder_killed_in_the_middle_ends_with_the_same_records(world, tmp_path):
    """Two models, three rungs, two pre-trainings each. The run is killed after the sixth pre-training, then resumed."""
    log = tmp_path / "log"

    def start_run(out, save_every="600"):
        with open(log, "w") as file:
            return subprocess.Popen([sys.executable, "-c", SCRIPT, world, out, save_every], cwd=ROOT, stderr=file)

    uninterrupted, out = tmp_path / "straight", tmp_path / "killed"
    assert start_run(uninterrupted).wait(timeout=900) == OK, log.read_text()
    whole = Plan.from_json((uninterrupted / "plan.json").read_text())
    assert len(whole.pretrainings) == 12
    process = start_run(out, "0.01")
    made = lambda: sum(intact(out, one) for one in whole.pretrainings)  # noqa: E731
    wait_for(lambda: made() >= 6 or process.poll() is not None)
    process.kill()
    assert process.wait() == -signal.SIGKILL, log.read_text()
    time.sleep(1.5)  # its worker stops when the pipe is closed
    assert 6 <= made() < 12
    assert start_run(out).wait(timeout=900) == OK, log.read_text()
    first, second = (
        {one.key: one for one in map(record.read, (folder / "records").glob("*.json"))}
        for folder in (uninterrupted, out)
    )
    assert first.keys() == second.keys() == {cell.key for cell in whole.cells}
    for key, one in first.items():
        assert one.scores == second[key].scores
        if one.pretraining:
            assert one.pretraining["weights_sha256"] == second[key].pretraining["weights_sha256"]
    weights = {one.pretraining["weights_sha256"] for one in first.values() if one.pretraining}
    assert len(weights) == 12  # every rung and every seed has other weights
    frame = tables.ladder(second.values())
    assert set(frame.model) == {"1 BERT", "2 GPT"} and set(frame.budget) == {"2e9 FLOPs", "8e9 FLOPs", "3.2e10 FLOPs"}
    losses = frame[(frame.model == "2 GPT") & (frame.task == "pre-training loss")]
    assert losses.score.is_monotonic_decreasing and (losses.over == "2 pre-trainings").all()
    scores = frame[frame.task == "CoLA"]
    assert (scores.over == "2 pre-trainings, 1 seed each").all() and (scores.FLOPs > 0).all()
    page = Path(out / "board" / "index.html").read_text(encoding="utf-8")
    assert 'id="ladder"' in page and "3.2e10" in page
