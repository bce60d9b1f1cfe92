"""``perf suite``: where the time of a run went. The parts add up to the wall time of all workers."""

import json
import os

import pytest

from ptmbench.bench.__main__ import main
from ptmbench.bench.perf import suite
from ptmbench.bench.runs.execute import TIMES
from ptmbench.leaderboard.records import record
from tests.leaderboard.made import record as made

SECONDS = {"other": 0.5, "trace": 2.5, "train": 10.0, "evaluate": 1.0, "score": 1.0, "total": 15.0}


@pytest.fixture
def run(tmp_path):
    for seed in range(2):
        record.write(tmp_path, made(seed=seed, cost={"seconds": SECONDS}, finished="2026-11-21T03:00:30+00:00"))
    return tmp_path


def test_recorded_times_add_up_to_the_wall_time_of_all_workers(run, capsys):
    times = {"began": 0.0, "wall": 20.0, "workers": 2, "start": 2.0, "work": 32.0, "idle": 6.0}
    (run / TIMES).write_text(json.dumps(times) + "\n")
    result = suite.spent(run)
    assert result.total == 40.0 == result.wall * result.workers
    assert result.overhead == pytest.approx(1 - 22 / 40)
    assert main(["perf", "suite", str(run), "--json"]) == 0
    rows = {row["what"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["training steps"]["cells"] == 20.0 and rows["waiting for work"]["all"] == 6.0
    assert sum(
        row["share"] for what, row in rows.items() if "sum" not in what and "outside" not in what
    ) == pytest.approx(1)
    assert rows["outside of training and prediction"]["share"] == pytest.approx(0.45)


def test_a_run_without_recorded_times_uses_its_plan_and_records(run):
    (run / "plan.json").write_text("{}")
    began = 1795230000.0  # half a minute before its records
    os.utime(run / "plan.json", (began, began))
    assert suite.spent(run).wall == 30.0 and suite.spent(run).workers == 1


def test_a_folder_without_a_run_is_an_error(tmp_path, capsys):
    assert main(["perf", "suite", str(tmp_path)]) == 4
    assert "no run wrote there" in capsys.readouterr().err
