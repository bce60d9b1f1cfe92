"""Compression while training, killed by a signal that nothing can catch: the resumed cells end as straight ones do."""

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

FOUR = Size(layers=4, width=32, heads=4, inner=24, length=96)
KINDS = {
    "theseus": ("finetune", "theseus:epochs=4"),
    "gates": ("finetune", "gates:epochs=4+penalty=10+gate_rate=3000"),
    "layerdrop": ("layerdrop", ""),
    "pabee": ("pabee", ""),
    "sparse": ("sparse", ""),
}
"""The adaptation and the transform of a cell. Each has twelve steps."""
SCRIPT = """
import sys
from pathlib import Path
import tests.bench.test_compression_kills as here
here.alone(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
"""


def cell_of(name):
    adaptation, asked = KINDS[name]
    cell = make("sst2", "bert", adaptation, epochs=4, batch=16)
    return dataclasses.replace(cell, predictor="x", **changes_of(asked)) if asked else cell


def context_of(data, out):
    vocabulary = Tokenizer.load(corpora.tokenizer([data / "corpus"], "wordpiece", 400))
    return Context(data=data, out=out, shape=FOUR, tokenizer=vocabulary, source={"name": "microworld"})


def alone(data: Path, adapted: Path, out: Path, names: list[str]) -> None:
    """A cell of each of the kinds called ``names``, in a process that saves after every step. What each ends with goes
    to a file. Transforms begin with the model ``adapted``."""
    for name in names:
        given, cell = context_of(data, out / name), cell_of(name)
        if cell.transforms:
            spent = json.loads((adapted / "spent.json").read_text())
            (folder,) = (adapted / "home" / "adapted").iterdir()
            given = dataclasses.replace(given, predictor=checkpoint.read(folder), spent=spent)
        unfinished = out / name / "unfinished"
        found = cells.run(cell, dataclasses.replace(given, unfinished=unfinished, save_every=0.0))
        told = ("steps", "tokens", "flops", "flops_evaluate", "parameters", "heads_kept", "mean_flops", "zero_weights")
        ended = {"scores": dict(found.scores), "curve": list(found.curve), "sha": found.predictions["sha256"]}
        ended |= {name: found.cost.get(name) for name in told}
        (out / f"{name}.json").write_text(json.dumps(ended))


@pytest.mark.slow
def test_killed_in_the_middle_they_end_the_same(world, tmp_path, names=("gates", "sparse")):
    """The process is killed once in each cell, and begun again."""
    adapted = tmp_path / "adapted"
    first = make("sst2", "bert", "finetune", epochs=4, batch=16)
    given = kept(first, context_of(world, adapted))
    (adapted / "spent.json").write_text(json.dumps(given.spent))

    def begin(out):
        out.mkdir(exist_ok=True)
        with open(tmp_path / "log", "a") as log:
            command = [sys.executable, "-c", SCRIPT, world, adapted, out, *names]
            return subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=log)

    def come(out, name):
        found = (out / name / "unfinished").glob("training-1/step-*/manifest.json")
        return max((int(path.parent.name.rpartition("-")[2]) for path in found), default=0)

    straight, killed = tmp_path / "straight", tmp_path / "killed"
    assert begin(straight).wait(timeout=PATIENCE) == OK, (tmp_path / "log").read_text()
    for name in names:
        process = begin(killed)
        wait_for(lambda name=name, process=process: come(killed, name) >= 2 or process.poll() is not None)
        process.kill()
        assert process.wait() == -signal.SIGKILL, (tmp_path / "log").read_text()
        assert 2 <= come(killed, name) < 12 and not (killed / f"{name}.json").exists()
    assert begin(killed).wait(timeout=PATIENCE) == OK, (tmp_path / "log").read_text()
    assert "The cell goes on at step" in (tmp_path / "log").read_text()
    for name in names:
        assert (killed / f"{name}.json").read_text() == (straight / f"{name}.json").read_text()
        assert json.loads((straight / f"{name}.json").read_text())["steps"] >= 12
