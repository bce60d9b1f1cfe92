"""Compression while training, killed by a signal that nothing can catch: the resumed cell ends as a straight one does.

The cell trains gates, which have the most state: weights, their optimizer, and parameters outside of the network.
"""

import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.errors import OK
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from tests.bench.cells import make
from tests.bench.processes import PATIENCE, ROOT, wait_for
from tests.bench.test_condition_cells import kept
from tests.bench.test_transform_cells import changes_of

SHAPE = Size(layers=2, width=32, heads=4, inner=24, length=96)
ASKED = "gates:epochs=4+penalty=10+gate_rate=3000"  # twelve steps
SCRIPT = """
import sys
from pathlib import Path
import tests.bench.test_compression_kills as here
here.alone(*map(Path, sys.argv[1:]))
"""


def context_of(data, out):
    vocabulary = Tokenizer.load(corpora.tokenizer([data / "corpus"], "wordpiece", 400))
    return Context(data=data, out=out, shape=SHAPE, tokenizer=vocabulary, source={"name": "microworld"})


def alone(data: Path, adapted: Path, out: Path) -> None:
    """The cell in a process of its own, which saves after every step and begins with the model in ``adapted``. What it
    ends with goes to a file."""
    (folder,) = (adapted / "home" / "adapted").iterdir()
    spent = json.loads((adapted / "spent.json").read_text())
    given = dataclasses.replace(context_of(data, out), predictor=checkpoint.read(folder), spent=spent)
    cell = make("sst2", "bert", "finetune", epochs=4, batch=16)
    cell = dataclasses.replace(cell, predictor="x", **changes_of(ASKED))
    found = cells.run(cell, dataclasses.replace(given, unfinished=out / "unfinished", save_every=0.0))
    told = ("steps", "tokens", "flops", "flops_evaluate", "parameters", "heads_kept", "head_sparsity")
    ended = {"scores": dict(found.scores), "curve": list(found.curve), "sha": found.predictions["sha256"]}
    (out / "ended.json").write_text(json.dumps(ended | {name: found.cost[name] for name in told}))


@pytest.mark.slow
def test_killed_in_the_middle_it_ends_the_same(world, tmp_path):
    adapted = tmp_path / "adapted"
    given = kept(make("sst2", "bert", "finetune", epochs=4, batch=16), context_of(world, adapted))
    (adapted / "spent.json").write_text(json.dumps(given.spent))

    def begin(out):
        out.mkdir(exist_ok=True)
        with open(tmp_path / "log", "a") as log:
            command = [sys.executable, "-c", SCRIPT, world, adapted, out]
            return subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=log)

    def come(out):
        found = (out / "unfinished").glob("training-1/step-*/manifest.json")
        return max((int(path.parent.name.rpartition("-")[2]) for path in found), default=0)

    straight, killed = tmp_path / "straight", tmp_path / "killed"
    assert begin(straight).wait(timeout=PATIENCE) == OK, (tmp_path / "log").read_text()
    process = begin(killed)
    wait_for(lambda: come(killed) >= 2 or process.poll() is not None)
    process.kill()
    assert process.wait() == -signal.SIGKILL, (tmp_path / "log").read_text()
    assert 2 <= come(killed) < 12
    assert begin(killed).wait(timeout=PATIENCE) == OK, (tmp_path / "log").read_text()
    assert "The cell goes on at step" in (tmp_path / "log").read_text()
    assert (killed / "ended.json").read_text() == (straight / "ended.json").read_text()
    assert json.loads((straight / "ended.json").read_text())["heads_kept"] < 8
