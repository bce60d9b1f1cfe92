"""docs/gate/own-repository: runs the workflow's commands in a small git repository that does not contain ptmbench."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ptmbench.bench.__main__ import main

DOCS = Path(__file__).resolve().parents[2] / "docs" / "gate"
PREDICT = """
import csv
import json
import random
import sys

RATE = {rate}
seed, file = int(sys.argv[1]), sys.argv[2]
draw = random.Random(f"{{seed}} {{RATE}}")
with open("data/glue/SST-2/dev.tsv", newline="", encoding="utf-8") as rows, open(file, "w", encoding="utf-8") as out:
    for number, row in enumerate(csv.DictReader(rows, delimiter="\\t", quoting=csv.QUOTE_NONE)):
        right = draw.random() < RATE
        label = row["label"] if right else str(1 - int(row["label"]))
        out.write(json.dumps({{"id": str(number), "prediction": label}}) + "\\n")
"""


def steps() -> list[str]:
    """The commands of the workflow's steps that record predictions and compare them."""
    text = (DOCS / "own-repository.yml").read_text(encoding="utf-8")
    found = re.findall(r"        run: \|\n((?:          .*\n)+)", text)
    return [re.sub(r"^          ", "", one, flags=re.MULTILINE) for one in found if "-m ptmbench" in one]


def git(*arguments: str) -> None:
    who = ["-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], check=True, capture_output=True)


def workflow(tmp_path: Path) -> tuple[int, str]:
    """Runs the steps like the workflow's shell, in the working directory. Returns the exit status and the output."""
    about = {"TASK": "sst2", "DATA": "data", "NAME": "our-net", "SEEDS": "0 1 2 3 4"}
    environment = os.environ | about | {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    for step in steps():
        command = re.sub(r"\bpython (?=-m|predict)", f"{sys.executable} ", step)
        done = subprocess.run(["bash", "-e", "-c", command], env=environment, capture_output=True, text=True)
        if done.returncode:
            break
    return done.returncode, done.stdout + done.stderr


def version(rate: float) -> None:
    """Commits a system with an accuracy of ``rate``."""
    Path("predict.py").write_text(PREDICT.format(rate=rate))
    git("add", "predict.py")
    git("commit", "-m", f"A system that is right at {rate}")
    subprocess.run(["rm", "-rf", "run"], check=True)


@pytest.mark.slow
def test_the_workflow_gives_pass_regression_and_inconclusive(tmp_path, world, monkeypatch):
    assert len(steps()) == 2
    repository = tmp_path / "repository"
    repository.mkdir()
    monkeypatch.chdir(repository)
    git("init")
    Path("data").symlink_to(world)
    version(0.9)
    for seed in range(5):
        subprocess.run([sys.executable, "predict.py", str(seed), f"{seed}.jsonl"], check=True)
        given = ["--predictions", f"{seed}.jsonl", "--name", "our-net", "--seed", str(seed), "--data", "data"]
        assert main(["record", "sst2", *given, "--out", "run"]) == 0
    assert main(["accept", "run", "--reason", "Release 1.0"]) == 0
    git("add", "baseline")
    git("commit", "-m", "The accepted baseline")

    subprocess.run(["rm", "-rf", "run"], check=True)
    status, output = workflow(tmp_path)
    assert (status, "PASS" in output) == (0, True), output
    version(0.6)
    status, output = workflow(tmp_path)
    assert (status, "REGRESSION" in output) == (1, True), output
    assert "regression" in Path("verdict/gate.md").read_text().lower()
    version(0.885)
    status, output = workflow(tmp_path)
    assert (status, "INCONCLUSIVE" in output) == (0, True), output
    assert main(["gate", "baseline", "run", "--strict"]) == 3
