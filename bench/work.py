"""A worker: walks a plan, takes what nobody else is at, and leaves a record of each cell.

    python -m bench.work RUN-FOLDER

Several workers may walk one plan on one machine. A worker holds an operating-system lock on what it does; when it
dies, however it dies, the lock is gone and the next one takes over. Nothing else is shared.
"""

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

import models
from bench import checkpoint, environment
from bench.checkpoint import write_text
from bench.console import say
from bench.plan import Cell, Plan, Pretraining

_WAIT = 0.3


@dataclass(frozen=True, kw_only=True)
class Job:
    """What the workers of a run share besides the plan: where things are, and how a cell is repeated."""

    data: str
    source: dict[str, Any]
    command: str
    tokenizer: str
    """Path of the shared tokenizer, or "" when no row needs one."""
    keep: bool
    length: int
    checkpoint: str = ""
    """The checkpoint that ``evaluate`` was given; otherwise rows find theirs below ``pretrained/``."""

    def command_of(self, cell: Cell) -> str:
        """The command that repeats one cell."""
        only = (
            ["--tasks", cell.task, "--adaptation", cell.adaptation]
            if cell.adaptation in ("finetune", "features")
            else ["--tasks", cell.task]
        )
        who = [] if self.checkpoint else ["--models", cell.row.name, "--no-baselines"]
        size = ["--sizes", cell.row.size] if cell.row.size and not self.checkpoint else []
        return " ".join([self.command, *who, *size, *only, "--seed", str(cell.seed)])


def folder_of(out: Path, pretraining: Pretraining) -> Path:
    return out / "pretrained" / f"{pretraining.model}-{pretraining.size}.{pretraining.key[:12]}"


def failure_of(out: Path, pretraining: Pretraining) -> Path:
    """Where the reason is noted when a pre-training failed."""
    return folder_of(out, pretraining).with_suffix(".failed.json")


def recorded(out: Path) -> set[str]:
    """The first twelve digits of the keys of all cells that have a record."""
    return {path.name.split(".")[-2] for path in (out / "records").glob("*.json")}


def work(out: Path) -> None:
    """Do what is left of the plan in ``out``, until every cell has its record."""
    plan = Plan.from_json((out / "plan.json").read_text())
    job = Job(**json.loads((out / "job.json").read_text()))
    worker = _Worker(out, plan, job)
    while worker.left():
        if not (worker.pretrain_one() or worker.adapt_one_group() or worker.help_out()):
            time.sleep(_WAIT)  # what is left is in other hands, or waits for what is


class _Worker:
    def __init__(self, out: Path, plan: Plan, job: Job):
        self.out, self.plan, self.job = out, plan, job
        self.pretrainings = {p.key: p for p in plan.pretrainings}
        self.tokenizer: Any = None
        self.done: set[str] = set()

    def left(self) -> list[Cell]:
        """Cells without a record."""
        self.done = recorded(self.out)
        return [cell for cell in self.plan.cells if cell.key[:12] not in self.done]

    def pretrain_one(self) -> bool:
        needed = {cell.pretraining for cell in self.left()}
        for pretraining in self.plan.pretrainings:
            if pretraining.key not in needed or self._settled(pretraining):
                continue
            with self._hold(pretraining.key) as held:
                if held and not self._settled(pretraining):
                    self._pretrain(pretraining)
                    return True
        return False

    def adapt_one_group(self) -> bool:
        """Take a group whole, so that its cells find their traced step in this process."""
        groups = self.plan.groups()
        left = {cell.key for cell in self.left()}
        for name, cells in sorted(groups.items(), key=lambda item: _weight(item[1]), reverse=True):
            ready = [cell for cell in cells if cell.key in left and self._ready(cell)]
            if not ready:
                continue
            with self._hold(name) as held:
                if held:
                    return any([self._take(cell) for cell in ready])
        return False

    def help_out(self) -> bool:
        """No group is free: take single cells out of those that others are at, last ones first."""
        return any(self._take(cell) for cell in reversed(self.left()) if self._ready(cell))

    def _settled(self, pretraining: Pretraining) -> bool:
        return (folder_of(self.out, pretraining) / checkpoint.MANIFEST).exists() or failure_of(
            self.out, pretraining
        ).exists()

    def _ready(self, cell: Cell) -> bool:
        return (
            cell.pretraining is None or self.job.checkpoint != "" or self._settled(self.pretrainings[cell.pretraining])
        )

    def _take(self, cell: Cell) -> bool:
        """Run ``cell`` unless it has a record or somebody is at it."""
        if cell.key[:12] in recorded(self.out):
            return False
        with self._hold(cell.key) as held:
            if not held or cell.key[:12] in recorded(self.out):
                return False
            self._run(cell)
        return True

    def _run(self, cell: Cell) -> None:
        from bench import cell as cells
        from leaderboard import record

        begun, failed = time.perf_counter(), None
        weights = None
        if cell.row.kind == "pretrained":
            if self.job.checkpoint:
                weights = checkpoint.read(Path(self.job.checkpoint))
            else:
                pretraining = self.pretrainings[cell.pretraining]
                failed = failure_of(self.out, pretraining)
                weights = None if failed.exists() else checkpoint.read(folder_of(self.out, pretraining))
        context = cells.Context(
            data=Path(self.job.data),
            out=self.out,
            shape=self._shape(cell, weights),
            tokenizer=self._tokenizer() if cell.row.model else None,
            weights=weights,
            command=self.job.command_of(cell),
            keep=self.job.keep,
            source=self.job.source,
        )
        if failed is not None and failed.exists():
            result = cells.without_weights(cell, context, json.loads(failed.read_text()))
        else:
            result = cells.run(cell, context)
        record.write(self.out, result)
        seconds = time.perf_counter() - begun
        value = (
            f"{result.headline['value']:.2f}" if result.status == "ok" else f"{result.status}: {result.reason['text']}"
        )
        who = f"{cell.row.name}-{cell.row.size}" if cell.row.size else cell.row.name
        say(f"{who} {cell.task} {cell.adaptation} seed {cell.seed}: {value} ({seconds:.1f} s)")

    def _shape(self, cell: Cell, weights: Any) -> Any:
        if cell.row.model is None:
            return None
        from bench.pretrain import sized
        from models.card import Size

        if weights is not None:
            return Size(**weights.about["shape"])
        return sized(models.load(cell.row.model), cell.row.size, self.job.length)

    def _tokenizer(self) -> Any:
        if self.tokenizer is None:
            from models.tokenizers import Tokenizer

            self.tokenizer = Tokenizer.load(Path(self.job.tokenizer))
        return self.tokenizer

    def _pretrain(self, pretraining: Pretraining) -> None:
        from bench import corpora, pretrain

        try:
            tokenizer = self._tokenizer()
            pretrain.pretrain(
                pretraining.model,
                pretraining.size,
                corpus=corpora.load(pretraining.corpus, tokenizer),
                tokenizer=tokenizer,
                budget=pretraining.budget,
                out=folder_of(self.out, pretraining),
                recipe=pretrain.recipe_of(pretraining.recipe),
                seed=pretraining.seed,
                about={"corpus": pretraining.corpus_name},
                warn=say,
            )
        except Exception as error:  # its cells say why; the other models go on
            from bench.cell import failure

            status, reason = failure(error)
            write_text(failure_of(self.out, pretraining), json.dumps({"status": status, **reason}))
            say(f"Pre-training {pretraining.model}-{pretraining.size} failed: {reason['text']}")

    @contextlib.contextmanager
    def _hold(self, name: str) -> Iterator[bool]:
        """Whether this worker got the lock called ``name``; it is released, not deleted, at the end."""
        folder = self.out / "locks"
        folder.mkdir(exist_ok=True)
        lock = FileLock(folder / f"{name[:64]}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()


def _weight(cells: list[Cell]) -> float:
    """Which group to begin with: the long ones, so that no worker is left alone with one at the end."""
    return len(cells) * (0 if cells[0].row.kind == "baseline" else 1 + (cells[0].adaptation == "finetune"))


def _end_with_parent() -> None:
    """A worker outlives its run by nothing: when the pipe to the parent closes, it stops where it is."""

    def watch() -> None:
        while os.read(0, 4096):  # not sys.stdin, whose lock would be held when the interpreter ends
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    import signal

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    environment.prepare(int(sys.argv[2]) if len(sys.argv) > 2 else None)
    _end_with_parent()
    work(Path(sys.argv[1]))
