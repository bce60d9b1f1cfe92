"""A tuning that is killed and resumed."""

import json
import os
import signal
import subprocess
import sys

import pytest

from ptmbench.bench.runs.tuning import tuned, tuned_settings
from tests.bench.processes import PATIENCE, ROOT, wait_for
from tests.bench.tuning.asked import unmeasured

PRETRAININGS = ["--models", "word2vec,glove", "--tokens", "60000", "--share", "1", "--held-out", "2000"]
PROBES = ["--models", "word2vec", "--tokens", "18000", "--share", "1", "--held-out", "2000", "--probe", "sst2,cola"]
PROBES += ["--seeds", "2", "--set", "epochs=2", "--set", "train_limit=200"]
ADAPTATIONS = ["--models", "word2vec", "--tokens", "18000", "--adaptation", "finetune", "--tasks", "sst2"]
ADAPTATIONS += ["--limit", "200", "--seeds", "2"]


@pytest.mark.parametrize(
    ("asked", "file"),
    [
        pytest.param(PRETRAININGS, tuned.FILE, marks=pytest.mark.slow, id="pretrainings"),
        pytest.param(PROBES, tuned.FILE, marks=pytest.mark.sweep, id="probes"),
        pytest.param(ADAPTATIONS, tuned_settings.FILE, marks=pytest.mark.sweep, id="adaptations"),
    ],
)
def test_a_killed_tuning_resumes_to_the_same_result(world, tmp_path, asked, file):
    """SIGKILL arrives while trials train. The same command then continues with the remaining trials."""
    arguments = ["tune", "demo", "--data", str(world), "--vocabulary", "300", "--recipe", "batch=4", *asked]
    arguments += ["--trials", "4", "--jobs", "1", "--threads", "1", "--save-every", "0.05"]

    def start(out):
        return subprocess.Popen(
            [sys.executable, "-m", "ptmbench", *arguments, "--out", str(out)],
            cwd=ROOT,
            env=os.environ | {"PTMBENCH_CACHE": str(tmp_path / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    straight = start(tmp_path / "straight")
    printed, _ = straight.communicate(timeout=PATIENCE)
    assert straight.returncode == 0, printed
    out = tmp_path / "killed"
    for records in (1, 5):
        process = start(out)
        wait_for(lambda n=records: len(list(out.glob("trials/*.json"))) >= n)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
        assert not (out / file).exists()
    before = {path: path.read_bytes() for path in out.glob("trials/*.json")}
    again = start(out)
    printed, _ = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, printed
    assert all(path.read_bytes() == content for path, content in before.items())
    assert unmeasured(json.loads((out / file).read_text())) | {"seal": ""} == unmeasured(
        json.loads((tmp_path / "straight" / file).read_text())
    ) | {"seal": ""}
