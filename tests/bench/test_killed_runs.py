"""A run that is killed in each of its trainings, one after another, ends with the same record."""

import signal
import subprocess
import sys
import time

import pytest

from ptmbench.bench.errors import OK
from ptmbench.bench.runs.artefacts import AdaptedModel
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import intact
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.leaderboard.records import record
from ptmbench.leaderboard.scores import frames
from tests.bench.processes import PATIENCE, ROOT, states, wait_for

SCRIPT = """
import sys
from dataclasses import replace
from pathlib import Path
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.options import CellOptions, OutputOptions, RunOptions, TrainingOptions, WorkerOptions
from ptmbench.bench.runs.run import run_suite
from ptmbench.bench.runs.suites import Stage
from ptmbench.bench.runs.suites import demo

demo.SUITE = replace(demo.SUITE, base=Stage(budget=Budget(steps=40), corpus=("corpus/*.txt",)))
sys.exit(run_suite(RunOptions(
    suite="demo", data=Path(sys.argv[1]), models=("bert",), baselines=False,
    cells=CellOptions(tasks=("sst2",), adaptations=("finetune:after=cola",), seeds=1,
                      settings={"length": 32, "batch": 4, "max_steps": 40}),
    training=TrainingOptions(budget=Budget(steps=40), recipe={"batch": 4, "length": 32}, vocabulary=300),
    workers=WorkerOptions(jobs=1, threads=1),
    output=OutputOptions(out=Path(sys.argv[2]), save_every=float(sys.argv[3])),
)))
"""


@pytest.mark.slow
def test_a_run_killed_in_each_training_ends_with_the_same_record(world, tmp_path):
    """It is killed in the base, in the pre-training that continues it, in the intermediate task, and in the cell."""

    log = tmp_path / "log"

    def start_run(out, save_every="600"):
        with open(log, "w") as file:
            return subprocess.Popen([sys.executable, "-c", SCRIPT, world, out, save_every], cwd=ROOT, stderr=file)

    assert start_run(tmp_path / "straight").wait(timeout=PATIENCE) == OK, log.read_text()
    whole = Plan.from_json((tmp_path / "straight" / "plan.json").read_text())
    first, second = whole.pretrainings
    (adapted,) = (one for one in whole.artefacts if isinstance(one, AdaptedModel))
    out = tmp_path / "killed"
    for saved, made in (
        (lambda: states(first.place(out)), []),
        (lambda: states(second.place(out)), [first]),
        (lambda: list((adapted.place(out) / "unfinished").glob("*/*/step-*")), [first, second]),
        (lambda: list((out / "unfinished").glob("*/*/step-*")), [first, second, adapted]),
    ):
        process = start_run(out, "0.01")
        wait_for(lambda saved=saved, process=process: saved() or process.poll() is not None)
        process.kill()
        assert process.wait() == -signal.SIGKILL, log.read_text()
        time.sleep(1.5)  # its worker stops when the pipe is closed
        done = [one for one in whole.artefacts if isinstance(one, Pretraining | AdaptedModel) and intact(out, one)]
        assert [one.key for one in made] == [one.key for one in done]
    assert start_run(out).wait(timeout=PATIENCE) == OK, log.read_text()
    found = [record.read(next((folder / "records").iterdir())) for folder in (tmp_path / "straight", out)]
    for part in ("key", "scores", "curve", "predictions", "adaptation"):
        left, right = (_comparable(getattr(one, part)) for one in found)
        assert left == right
    assert found[0].pretraining["weights_sha256"] == found[1].pretraining["weights_sha256"]
    including = found[1].pretraining["including"]
    assert (including["steps"], found[1].pretraining["base"]["steps"]) == (80, 40)
    (line,) = frames.records(found[1:]).to_dict("records")
    assert line["tokens_pretrain"] == 80 * 128 and line["flops_pretrain"] == including["flops"]


def _comparable(value):
    """``value`` without times, energy and memory."""
    if not isinstance(value, dict):
        return value
    measured = ("seconds", "energy", "peak_memory_bytes")
    return {name: _comparable(part) for name, part in value.items() if name not in measured}
