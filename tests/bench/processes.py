"""Starts pre-trainings in separate processes, as a user does, and makes a small text for them."""

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
    """Writes documents to ``path``, with blank lines between them and one sentence per line. Returns ``path``."""
    path.write_text("\n\n".join("\n".join(document) for document in strategies.made_text()))
    return path


def start(
    text: Path, out: Path, *more: str, model: str = "bert", ignored: tuple[int, ...] = (), **environment: str
) -> subprocess.Popen:
    """Starts ``ptmbench pretrain`` of a tiny model and returns the process. Caches are next to ``text``.

    The process ignores the signals ``ignored`` from its start, as ``command &`` in a script ignores SIGINT."""

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
"""Seconds that a test waits for another process. No machine needs that long, so only a hang reaches this limit."""


def wait_for(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Waits until ``what()`` is true. Raises `TimeoutError` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            raise TimeoutError("What the test waits for did not happen.")
        time.sleep(0.005)


def states(out: Path) -> set[Path]:
    """Returns the folders of the training states of a run, complete and half-written ones."""
    folder = out.with_name(out.name + ".training")
    return {path for path in folder.iterdir() if "step-" in path.name} if folder.exists() else set()


def check_killed_again_and_again(begin: Callable[..., subprocess.Popen], folder: Path, times: int) -> Path:
    """Checks that a pre-training that is killed ``times`` times ends with the weights of an uninterrupted one.

    ``begin(out, *options)`` starts it. Each kill follows a new training state. Returns the folder of the killed one."""
    uninterrupted, out = begin(folder / "straight"), folder / "killed"
    for _ in range(times):
        before, process = states(out), begin(out, "--save-every", "0.05")
        wait_for(lambda before=before, process=process: states(out) - before or process.poll() is not None)
        process.kill()
        _, error_output = process.communicate()
        assert process.returncode == -signal.SIGKILL, error_output
    assert begin(out).wait(timeout=PATIENCE) == uninterrupted.wait(timeout=PATIENCE) == 0
    weights = [(one / "weights.safetensors").read_bytes() for one in (folder / "straight", out)]
    assert weights[0] == weights[1]
    return out
