"""A tuning that is killed and started again."""

import json
import os
import signal
import subprocess
import sys

import pytest

from ptmbench.bench.runs.tuning import tuned
from tests.bench.processes import ROOT, wait_for
from tests.bench.tuning.asked import unmeasured


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_result(world, tmp_path):
    """SIGKILL falls while trials train; the command, given again, goes on with what is left."""
    arguments = ["tune", "demo", "--data", str(world), "--models", "word2vec,glove", "--vocabulary", "300"]
    arguments += ["--recipe", "batch=4", "--tokens", "60000", "--trials", "4", "--share", "1", "--held-out", "2000"]
    arguments += ["--jobs", "1", "--threads", "1", "--save-every", "0.05"]

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
    said, _ = straight.communicate(timeout=600)
    assert straight.returncode == 0, said
    out = tmp_path / "killed"
    for records in (1, 6):
        process = start(out)
        wait_for(lambda n=records: len(list(out.glob("trials/*.json"))) >= n, 300)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert not (out / tuned.FILE).exists()
    before = {path: path.read_bytes() for path in out.glob("trials/*.json")}
    again = start(out)
    said, _ = again.communicate(timeout=600)
    assert again.returncode == 0, said
    assert all(path.read_bytes() == content for path, content in before.items())
    assert unmeasured(json.loads((out / tuned.FILE).read_text())) | {"seal": ""} == unmeasured(
        json.loads((tmp_path / "straight" / tuned.FILE).read_text())
    ) | {"seal": ""}
