"""Compression during training, killed by SIGKILL: the resumed cell ends with the results of an uninterrupted one.

Gates have the most state: weights, their optimizer, and parameters outside of the network. DynaBERT trains twice, and
the result of its first training is the teacher of the second. AdaBERT trains three times: first probes, whose
predictions the others learn, then the scores of candidates, which determine the network, and last that network. Q-BERT
measures sensitivities, which determine the bits of the training that follows. NAS-BERT measures candidates in and after
its first training, and trains the network that they determine.
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
TWELVE = {"epochs": 4, "batch": 16}
SEARCH = "nasbert:shares=0.5/1+parameters=1+bins=1+search_epochs=2+tuning_epochs=2"
CELLS = "layers=2+nodes=1+width=8+probe_epochs=1+search_epochs=2+tuning_epochs=1"
WAYS = {  # the adaptation, the transform, and the number of steps or measurements after which the process is killed
    "gates": ("finetune", "gates:epochs=4+penalty=100+gate_rate=0.9", 2),
    "theseus": ("finetune", "theseus:epochs=4", 2),
    "dynabert": ("finetune", "dynabert:widths=0.5/1+depths=0.5/1+width_epochs=2+depth_epochs=2", 8),
    "adabert, probes": ("finetune", f"adabert:{CELLS}", 1),
    "adabert, search": ("finetune", f"adabert:{CELLS}", 5),
    "adabert, training": ("finetune", f"adabert:{CELLS}", 10),
    "qbert, eigenvalues": ("finetune", "qbert:epochs=4+slices=1", 3),
    "qbert, training": ("finetune", "qbert:epochs=4+slices=1", 11),
    "nasbert, candidates in the search": ("finetune", SEARCH, 7),
    "nasbert, candidates after the search": ("finetune", SEARCH, 18),
    "nasbert, training": ("finetune", SEARCH, 24),
    "layerdrop": ("layerdrop", "", 2),
    "pabee": ("pabee", "", 2),
}
SCRIPT = """
import sys
from pathlib import Path
import tests.bench.test_compression_kills as here
here.alone(sys.argv[1], *map(Path, sys.argv[2:]))
"""


def context_of(data, out):
    vocabulary = Tokenizer.load(corpora.tokenizer([data / "corpus"], "wordpiece", 400))
    return Context(data=data, out=out, shape=SHAPE, tokenizer=vocabulary, source={"name": "microworld"})


def alone(way: str, data: Path, adapted: Path, out: Path) -> None:
    """Runs the cell in a separate process, which saves a training state after every step.

    With a transform, the cell starts from the model in ``adapted``. The results are written to a file."""
    adaptation, transform, _ = WAYS[way]
    cell, context = make("sst2", "bert", adaptation, **TWELVE), context_of(data, out)
    if transform:
        (folder,) = (adapted / "home" / "adapted").iterdir()
        spent = json.loads((adapted / "spent.json").read_text())
        context = dataclasses.replace(context, predictor=checkpoint.read(folder), spent=spent)
        cell = dataclasses.replace(cell, predictor="x", **changes_of(transform))
    found = cells.run(cell, dataclasses.replace(context, unfinished=out / "unfinished", save_every=0.0))
    assert found.status == "ok", found.reason
    measured = {
        name: value for name, value in found.cost.items() if name.startswith(("flops", "parameters", "heads_", "cell"))
    }
    counted = {name: found.cost[name] for name in ("steps", "tokens")}
    ended = {"scores": dict(found.scores), "curve": list(found.curve), "sha": found.predictions["sha256"]}
    (out / "ended.json").write_text(json.dumps(ended | measured | counted))


@pytest.fixture(scope="module")
def adapted(world, tmp_path_factory):
    """The folder of a fine-tuned model, from which transforms start."""
    out = tmp_path_factory.mktemp("adapted")
    context = kept(make("sst2", "bert", "finetune", **TWELVE), context_of(world, out))
    (out / "spent.json").write_text(json.dumps(context.spent))
    return out


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.slow if way == "gates" else pytest.mark.sweep) for way in WAYS]
)
def test_a_killed_cell_resumes_and_ends_with_the_same_results(world, adapted, tmp_path, way):
    def begin(out):
        out.mkdir(exist_ok=True)
        with open(tmp_path / "log", "a") as log:
            command = [sys.executable, "-c", SCRIPT, way, world, adapted, out]
            return subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=log)

    def saved_steps(out):
        """Returns the number of saved steps of all trainings and measurements together."""
        last = {}
        for path in (out / "unfinished").glob("*/step-*/manifest.json"):
            part, step = path.parent.parent.name, int(path.parent.name.rpartition("-")[2])
            last[part] = max(step, last.get(part, 0))
        return sum(last.values())

    *_, kill = WAYS[way]
    uninterrupted, killed = tmp_path / "straight", tmp_path / "killed"
    assert begin(uninterrupted).wait(timeout=PATIENCE) == OK, (tmp_path / "log").read_text()
    process = begin(killed)
    wait_for(lambda: saved_steps(killed) >= kill or process.poll() is not None)
    process.kill()
    assert process.wait() == -signal.SIGKILL, (tmp_path / "log").read_text()
    assert kill <= saved_steps(killed) < saved_steps(uninterrupted)
    assert begin(killed).wait(timeout=PATIENCE) == OK, (tmp_path / "log").read_text()
    assert "where it was stopped" in (tmp_path / "log").read_text()
    assert (killed / "ended.json").read_text() == (uninterrupted / "ended.json").read_text()
    ended = json.loads((uninterrupted / "ended.json").read_text())
    assert way != "gates" or ended["heads_kept"] < 8
