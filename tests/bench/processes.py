"""Pre-training in processes of its own, as a user starts it; and a small text to do it on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ptmbench.bench.perf import strategies

ROOT = Path(__file__).resolve().parents[2]


def made_text(path: Path) -> Path:
    """Documents, a blank line between them, one sentence a line."""
    path.write_text("\n\n".join("\n".join(document) for document in strategies.made_text()))
    return path


def start(
    text: Path, out: Path, *more: str, model: str = "bert", ignored: tuple[int, ...] = (), **environment: str
) -> subprocess.Popen:
    """``ptmbench pretrain`` of a tiny model, under way. Caches lie beside ``text``. The signals ``ignored`` are
    ignored from the start, as SIGINT is in ``command &`` of a script."""

    def ignore() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    arguments = ["--corpus", str(text), "--out", str(out), "--vocabulary", "300", "--batch", "4", "--length", "32"]
    return subprocess.Popen(
        [sys.executable, "-m", "ptmbench", "pretrain", model, *arguments, *more],
        cwd=ROOT,
        env=os.environ | {"PTMBENCH_CACHE": str(text.parent / "cache")} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=ignore if ignored else None,  # noqa: PLW1509
    )


PATIENCE = 900.0
"""Seconds that a test waits for another process; far more than any machine needs, so only a hang ends there."""


def wait_for(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Until ``what()`` is true; `TimeoutError` when it takes longer."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            raise TimeoutError("What the test waits for did not happen.")
        time.sleep(0.005)


def states(out: Path) -> set[Path]:
    """The training states of a run, whole and half-written ones."""
    folder = out.with_name(out.name + ".training")
    return {path for path in folder.iterdir() if "step-" in path.name} if folder.exists() else set()


def check_killed_again_and_again(begin: Callable[..., subprocess.Popen], folder: Path, times: int) -> Path:
    """Of a pre-training that ``begin(out, *options)`` starts: killed so many ``times``, each time after a new state, it
    ends with the weights of one that was left alone. Returns the folder of the killed one."""
    straight, out = begin(folder / "straight"), folder / "killed"
    for _ in range(times):
        before, process = states(out), begin(out, "--save-every", "0.05")
        wait_for(lambda before=before, process=process: states(out) - before or process.poll() is not None)
        process.kill()
        _, said = process.communicate()
        assert process.returncode == -signal.SIGKILL, said
    assert begin(out).wait(timeout=PATIENCE) == straight.wait(timeout=PATIENCE) == 0
    weights = [(one / "weights.safetensors").read_bytes() for one in (folder / "straight", out)]
    assert weights[0] == weights[1]
    return out
