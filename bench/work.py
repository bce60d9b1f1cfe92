"""A worker: does the pieces of a plan that it is told to do, one at a time, and leaves their results in a folder.

    python -m ptmbench.bench.work RUN-FOLDER THREADS

reads keys of pieces from stdin and answers on stdout, for `bench.executors.local`; elsewhere a `Worker` is called.
"""

import contextlib
import json
import os
import queue
import shutil
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptmbench import models
from ptmbench.bench import checkpoint, environment
from ptmbench.bench.checkpoint import write_text
from ptmbench.bench.console import say
from ptmbench.bench.engine.stopping import SAVE_SECONDS
from ptmbench.bench.plan import Cell, Plan, Pretraining
from ptmbench.bench.schedule import Piece

if TYPE_CHECKING:
    from ptmbench.bench.answers import Context


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
    """Tokens that a pre-training reads at a time: a random twin is the same network, as long as that."""
    checkpoint: str = ""
    """The checkpoint that ``evaluate`` was given; otherwise rows find theirs below ``pretrained/``."""
    tokenizers: dict[str, str] = field(default_factory=dict)
    """Paths of further tokenizers, by kind: what neighbours read that read another kind than the rows."""
    neighbours: dict[str, str] = field(default_factory=dict)
    """The checkpoints of neighbours that ``evaluate`` was given, by model."""
    strategy: str = "one"
    """Devices that a pre-training uses, one of `bench.options.STRATEGIES`."""
    save_every: float = SAVE_SECONDS

    def command_of(self, cell: Cell) -> str:
        """The command that repeats one cell."""
        only = (
            ["--tasks", cell.task, "--adaptation", cell.adaptation]
            if cell.method not in ("likelihood", "probe", "words", "baseline")
            else ["--tasks", cell.task]
        )
        who = [] if self.checkpoint else ["--models", cell.row.name, "--no-baselines"]
        size = ["--sizes", cell.row.size] if cell.row.size and not self.checkpoint else []
        return " ".join([self.command, *who, *size, *only, "--seed", str(cell.seed)])

    def context(self, out: Path, cell: Cell, **found: Any) -> "Context":
        """What ``cell`` needs besides its plan; ``found`` are the parts of a network's row."""
        from ptmbench.bench.answers import Context

        where = {"data": Path(self.data), "out": out, "unfinished": unfinished_of(out, cell)}
        how = {"command": self.command_of(cell), "keep": self.keep, "save_every": self.save_every}
        return Context(**where, **how, source=self.source, **found)


def folder_of(out: Path, pretraining: Pretraining) -> Path:
    return out / "pretrained" / f"{pretraining.model}-{pretraining.size}.{pretraining.key[:12]}"


def unfinished_of(out: Path, cell: Cell) -> Path:
    """Where a cell that takes long saves what it has learnt, until it has its record."""
    return out / "unfinished" / cell.key[:12]


def failure_of(out: Path, pretraining: Pretraining) -> Path:
    """Where the reason is noted when a pre-training failed."""
    return folder_of(out, pretraining).with_suffix(".failed.json")


def checkpoint_of(out: Path, pretraining: Pretraining) -> checkpoint.Checkpoint | None:
    """What a pre-training left; None where that is nothing, or cannot be read: then it is made again."""
    try:
        return checkpoint.read(folder_of(out, pretraining))
    except checkpoint.CheckpointError:
        return None


def recorded(out: Path) -> set[str]:
    """The first twelve digits of the keys of all cells that have a record."""
    return {path.name.split(".")[-2] for path in (out / "records").glob("*.json")}


class Worker:
    """Does pieces of ``plan`` in the folder ``out``. ``do`` returns the line that people are told."""

    def __init__(self, out: Path, plan: Plan, job: Job):
        self.out, self.plan, self.job = out, plan, job
        self.pretrainings = {p.key: p for p in plan.pretrainings}
        self.pieces: dict[str, Piece] = {piece.key: piece for piece in (*plan.pretrainings, *plan.cells)}
        self._tokenizers: dict[str, Any] = {}

    def do(self, key: str) -> str:
        """Do the piece called ``key``. What goes wrong in it is a result too; only signals get through."""
        piece = self.pieces[key]
        return self._pretrain(piece) if isinstance(piece, Pretraining) else self._cell(piece)

    def give_up(self, piece: Piece, reason: dict[str, str]) -> None:
        """Leave ``reason`` ("code", "text") in the place of a result of ``piece``, unless that is there: who dies just
        after the last write has done the work."""
        if isinstance(piece, Pretraining):
            if checkpoint_of(self.out, piece) is None:
                write_text(failure_of(self.out, piece), json.dumps({"status": "failed", **reason}))
        else:
            from ptmbench.bench import cell as cells
            from ptmbench.leaderboard import record

            with contextlib.suppress(record.RecordExists):
                record.write(self.out, cells.unrun(piece, self.job.context(self.out, piece), "failed", reason))

    def _cell(self, cell: Cell) -> str:
        from ptmbench.bench import cell as cells
        from ptmbench.leaderboard import record

        begun, failed, weights, neighbours = time.perf_counter(), None, None, []
        if cell.pretraining is not None:
            failed, weights = self._pretrained(cell.pretraining, self.job.checkpoint)
        whose = "Its pre-training"
        for name, key in cell.neighbours.items():
            if failed is None:
                failed, found = self._pretrained(key, self.job.neighbours.get(name, ""))
                whose = f"The pre-training of {name}"
                neighbours.append(found)
        if failed is not None:
            because = failed["text"]
            told = failed["status"] == "not_applicable" or failed["code"] == "checkpoint"
            text = because if told else f"{whose} failed: {because}"
            reason = {"code": failed["code"], "text": text}
            result = cells.unrun(cell, self.job.context(self.out, cell), failed["status"], reason)
        else:
            tokenizer = self._tokenizer(self.job.tokenizer) if cell.row.model else None
            network: dict[str, Any] = {"shape": self._shape(cell, weights), "tokenizer": tokenizer, "weights": weights}
            network |= {"neighbours": tuple(neighbours), "overlap": self._overlap(cell)}
            result = cells.run(cell, self.job.context(self.out, cell, **network))
        with contextlib.suppress(record.RecordExists):  # by a worker that outlived its run for a moment
            record.write(self.out, result)
        shutil.rmtree(unfinished_of(self.out, cell), ignore_errors=True)
        seconds = time.perf_counter() - begun
        value = (
            f"{result.headline['value']:.2f}" if result.status == "ok" else f"{result.status}: {result.reason['text']}"
        )
        return f"{cell.title}: {value} ({seconds:.1f} s)"

    def _pretrained(self, key: str, given: str) -> tuple[dict[str, str] | None, Any]:
        """Why there are no weights ("status", "code", "text"), or the checkpoint: ``given``, or what the pre-training
        with this ``key`` left."""
        if not given:
            failure = failure_of(self.out, self.pretrainings[key])
            if failure.exists():
                return json.loads(failure.read_text()), None
        try:
            return None, checkpoint.read(Path(given) if given else folder_of(self.out, self.pretrainings[key]))
        except checkpoint.CheckpointError as error:
            return {"status": "failed", "code": "checkpoint", "text": str(error)}, None

    def _overlap(self, cell: Cell) -> Any:
        """What the cell's report split shares with its training data, counted outside the cell's time and cost."""
        from ptmbench.bench.data import counted

        try:
            return counted.of_cell(cell, self.plan, Path(self.job.data))
        except Exception as error:  # a record without the counts is worth more than none
            say(f"{cell.title}: the overlap with its training data was not counted: {type(error).__name__}: {error}")
            return None

    def _shape(self, cell: Cell, weights: Any) -> Any:
        if cell.row.model is None:
            return None
        from ptmbench.bench.engine.networks import sized
        from ptmbench.models.card import Size

        if weights is not None:
            return Size(**weights.about["shape"])
        return sized(models.load(cell.row.model), cell.row.size, self.job.length)

    def _tokenizer(self, path: str) -> Any:
        if path not in self._tokenizers:
            from ptmbench.models.tokenizers import Tokenizer

            self._tokenizers[path] = Tokenizer.load(Path(path))
        return self._tokenizers[path]

    def _pretrain(self, pretraining: Pretraining) -> str:
        try:
            # There already where a worker died between its last write and its answer.
            made = checkpoint_of(self.out, pretraining) or self._pretrained_now(pretraining)
        except Exception as error:  # its cells say why; the other models go on
            from ptmbench.bench.cell import failure

            status, reason = failure(error)
            write_text(failure_of(self.out, pretraining), json.dumps({"status": status, **reason}))
            return f"{pretraining.title} {status.replace('_', ' ')}: {reason['text']}"
        return f"{pretraining.title}: {made.about['steps']} steps, loss {made.about['loss']:.3f}"

    def _pretrained_now(self, pretraining: Pretraining) -> checkpoint.Checkpoint:
        from ptmbench.bench import pretrain
        from ptmbench.bench.data import corpora
        from ptmbench.bench.engine import distribute
        from ptmbench.bench.engine.recipe import recipe_of

        tokenizer = self._tokenizer(self.job.tokenizers.get(pretraining.tokenizer, self.job.tokenizer))
        return pretrain.pretrain(
            pretraining.model,
            pretraining.size,
            corpus=corpora.load(pretraining.corpus, tokenizer),
            tokenizer=tokenizer,
            budget=pretraining.budget,
            out=folder_of(self.out, pretraining),
            recipe=recipe_of(pretraining.recipe),
            seed=pretraining.seed,
            about={"corpus": pretraining.corpus_name},
            strategy=distribute.strategy_of(self.job.strategy),
            save_every=self.job.save_every,
            warn=say,
        )


def _keys(busy: threading.Event) -> queue.Queue:
    """Keys from stdin as they come, then None. A worker outlives its run by nothing: when the pipe closes while it is
    ``busy``, it stops where it is."""
    keys: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        held = b""
        while part := os.read(0, 4096):  # not sys.stdin, whose lock would be held when the interpreter ends
            *lines, held = (held + part).split(b"\n")
            for line in lines:
                keys.put(line.decode())
        if busy.is_set():
            os._exit(1)
        keys.put(None)

    threading.Thread(target=read, daemon=True).start()
    return keys


def main(out: Path, threads: int) -> None:
    """Do what stdin names, until it closes. Answers are JSON lines: {"said": null} when ready, then a line a piece."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is for people
    environment.prepare(threads)
    busy = threading.Event()
    keys = _keys(busy)
    plan = Plan.from_json((out / "plan.json").read_text())
    worker = Worker(out, plan, Job(**json.loads((out / "job.json").read_text())))
    said = None
    while True:
        busy.clear()
        print(json.dumps({"said": said}), file=answers, flush=True)
        key = keys.get()
        if key is None:
            return
        busy.set()
        said = worker.do(key)


if __name__ == "__main__":
    import signal

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # also where it was ignored: the run stops workers by it
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    main(Path(sys.argv[1]), int(sys.argv[2]))
