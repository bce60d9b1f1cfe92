"""Workers make the artefacts of a plan, one at a time, in the run folder.

    python -m ptmbench.bench.runs.work RUN-FOLDER THREADS MEMORY

`bench.runs.executors.local` starts this command, which answers to keys of artefacts. Other executors call `Worker`.
"""

import contextlib
import json
import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptmbench import models, tasks
from ptmbench.bench import environment
from ptmbench.bench.console import say
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.checkpoint import write_bytes, write_text
from ptmbench.bench.runs import artefacts, plugins
from ptmbench.bench.runs.artefacts import COST, AdaptationTrial, AdaptedModel, Artefact, Cell, Given
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import failure_of, intact, tokenizer_in, unfinished_of
from ptmbench.bench.runs.trainings import Pretraining, TokenizerTraining
from ptmbench.bench.runs.tuning import adaptation_trials, trials
from ptmbench.bench.runs.tuning.trials import Trial
from ptmbench.models.text.corpus import CorpusError
from ptmbench.models.text.tokenizers import Tokenizer

if TYPE_CHECKING:
    from ptmbench.bench.runs.answers import Context

CORPUS = "corpus"
"""The reason code of a failure that the corpus causes."""


class UnusableInput(Exception):
    """An artefact cannot be made: something that it needs failed, is damaged, or is a corpus that cannot be read."""

    def __init__(self, status: str, code: str, text: str):
        super().__init__(text)
        self.status, self.reason = status, {"code": code, "text": text}


class Worker:
    """Makes artefacts of ``plan`` in the folder ``out``."""

    def __init__(self, out: Path, plan: Plan, job: Job):
        for folder in job.plugins:
            plugins.use(Path(folder))
        self.out, self.plan, self.job = out, plan, job
        self._makers: dict[str, Callable[[Any], str]] = {
            TokenizerTraining.kind: self._train_tokenizer,
            Pretraining.kind: self._pretrain,
            Trial.kind: self._run_trial,
            AdaptationTrial.kind: self._run_adaptation_trial,
            AdaptedModel.kind: self._adapt,
            artefacts.TransformedModel.kind: self._adapt,
            Cell.kind: self._cell,
        }

    def do(self, key: str) -> str:
        """Makes the artefact ``key`` and returns a line for the user. Records failures; only signals end the call."""
        piece = self.plan.by_key[key]
        try:
            self._check_needs(piece)
            return self._makers[piece.kind](piece)
        except UnusableInput as error:
            self.give_up(piece, error.reason, error.status)
            if isinstance(piece, Cell):
                return f"{piece.title}: {error.status}: {error} (0.0 s)"
            return f"{piece.title} {error.status.replace('_', ' ')}: {error}"

    def give_up(self, piece: Artefact, reason: dict[str, str], status: str = "failed") -> None:
        """Records ``reason`` ("code", "text") as the result of ``piece``, unless the result exists: a worker may have
        died just after its last write."""
        if isinstance(piece, Cell):
            from ptmbench.bench.runs import cell as cells

            context = self.job.context(self.out, piece, planned=self._planned(piece))
            self._record(cells.unrun_record(piece, context, status, reason))
        elif not intact(self.out, piece):
            write_text(failure_of(self.out, piece), json.dumps({"status": status, **reason}))

    def _planned(self, cell: Cell) -> dict[str, Any]:
        """`Pretraining.planned` of the pre-training of ``cell`` if it is one of several, otherwise {}."""
        made = self.plan.by_key[cell.pretraining] if cell.chosen_by and cell.pretraining else None
        return made.planned if isinstance(made, Pretraining) else {}

    def _check_needs(self, piece: Artefact) -> None:
        """Raises `UnusableInput` if an artefact that ``piece`` needs has failed."""
        for key in piece.needs:
            needed = self.plan.by_key[key]
            if not isinstance(needed, Given) and (path := failure_of(self.out, needed)).exists():
                failed = json.loads(path.read_text())
                told = failed["status"] == "not_applicable" or failed["code"] == "checkpoint"
                text = failed["text"] if told else f"{piece.relation(key)} failed: {failed['text']}"
                raise UnusableInput(failed["status"], failed["code"], text)

    def _record(self, result: Any) -> None:
        from ptmbench.leaderboard.records import record

        with contextlib.suppress(record.RecordExists):  # written by a worker of an earlier, killed run
            record.write(self.out, result)

    def _cell(self, cell: Cell) -> str:
        from ptmbench.bench.runs import cell as cells

        begun = time.perf_counter()
        result = cells.run(cell, replace(self._context(cell, self.out), overlap=self._overlap(cell)))
        self._record(result)
        shutil.rmtree(unfinished_of(self.out, cell), ignore_errors=True)
        seconds = time.perf_counter() - begun
        told = (result.reason or {}).get("text", "").removeprefix("because ")
        status = result.status.replace("_", " ")
        value = f"{result.headline['value']:.2f}" if status == "ok" else f"{status}: {told}"
        return f"{cell.title}: {value} ({seconds:.1f} s)"

    def _context(self, cell: Cell, out: Path, weights: checkpoint.Checkpoint | None = None) -> "Context":
        """The context of ``cell``, which writes to ``out``. ``weights``, if given, replace its planned pre-training."""
        weights = weights or (self._checkpoint(cell.pretraining) if cell.pretraining else None)
        neighbours = tuple(self._checkpoint(key) for key in cell.neighbours.values())
        tokenizer = self._tokenizer(cell.tokenizer) if cell.row.model else None
        auxiliary = {name: self._teacher(self.plan.by_key[key]) for name, key in cell.auxiliary_teachers.items()}
        return self.job.context(
            out,
            cell,
            shape=self._shape(cell, weights),
            tokenizer=tokenizer,
            weights=weights,
            neighbours=neighbours,
            **(self._intermediate(self.plan.by_key[cell.adapted]) if cell.adapted else {}),
            **({"teacher": self._teacher(self.plan.by_key[cell.teacher])} if cell.teacher else {}),
            auxiliary_teachers=auxiliary,
            **(self._predictor(self.plan.by_key[cell.predictor]) if cell.predictor else {}),
        )

    def _adapted(self, artefact: AdaptedModel) -> tuple[checkpoint.Checkpoint, dict[str, Any]]:
        """The checkpoint and the cost of ``artefact``. Raises `UnusableInput` if they are damaged."""
        try:
            found = checkpoint.read(artefact.checkpoint(self.out))
            return found, json.loads((artefact.place(self.out) / COST).read_text())
        except (checkpoint.CheckpointError, OSError, ValueError) as error:
            raise UnusableInput("failed", "checkpoint", str(error)) from error

    def _predictor(self, artefact: AdaptedModel) -> dict[str, Any]:
        """Fields of a cell's context for the adapted model that predicts."""
        found, cost = self._adapted(artefact)
        return {"predictor": found, "spent": cost}

    def _intermediate(self, artefact: AdaptedModel) -> dict[str, Any]:
        """Fields of a cell's context for the adapted model that it begins with."""
        found, cost = self._adapted(artefact)
        cell = artefact.cell
        about = {"task": cell.task, "version": cell.task_version, "data_sha256": cell.data_sha256}
        about |= {"adaptation": cell.adaptation, "settings": dict(cell.settings), "cost": cost}
        return {"adapted": found, "intermediate": about}

    def _teacher(self, artefact: AdaptedModel) -> Any:
        """The adapted model that a cell learns from."""
        from ptmbench.bench.runs.teachers import AdaptedTeacher

        found, cost = self._adapted(artefact)
        cell = artefact.cell
        about = {"name": cell.row.name, "size": cell.row.size, "weights_sha256": found.weights_sha256}
        about |= {"adaptation": cell.adaptation, "settings": dict(cell.settings), "seed": cell.seed, "cost": cost}
        weights = self._checkpoint(cell.pretraining) if cell.pretraining else None
        return AdaptedTeacher(adapted=found, weights=weights, about=about)

    def _checkpoint(self, key: str) -> checkpoint.Checkpoint:
        """The checkpoint ``key``, made by the run or given by the user. Raises `UnusableInput` if it is damaged."""
        try:
            return checkpoint.read(self.plan.by_key[key].place(self.out))
        except checkpoint.CheckpointError as error:
            raise UnusableInput("failed", "checkpoint", str(error)) from error

    def _tokenizer(self, key: str) -> Tokenizer:
        return tokenizer_in(self.plan.by_key[key].place(self.out))

    def _overlap(self, cell: Cell) -> Any:
        """The overlap of the cell's reported split with its training data. The cost of the cell leaves out counting."""
        from ptmbench.bench.runs import counted

        try:
            return counted.of_cell(cell, self.plan, Path(self.job.data))
        except Exception as error:  # a record without the counts is better than none
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

    def _make_once(self, piece: Artefact, make: Callable[[], object]) -> str:
        """Calls ``make`` unless the result of ``piece`` exists: a worker may have died between its last write and its
        answer. Returns "", or a line for the user if ``make`` failed."""
        try:
            if not intact(self.out, piece):
                make()
        except UnusableInput:
            raise
        except Exception as error:
            from ptmbench.bench.runs.cell import failure

            task = tasks.load(piece.cell.task).title if isinstance(piece, AdaptedModel | AdaptationTrial) else ""
            status, reason = failure(error, task)
            self.give_up(piece, reason, status)
            return f"{piece.title} {status.replace('_', ' ')}: {reason['text']}"
        return ""

    def _train_tokenizer(self, piece: TokenizerTraining) -> str:
        from ptmbench.bench.data import corpora

        def train() -> None:
            try:
                found = corpora.tokenizer([Path(file) for file in piece.corpus], piece.tokenizer, piece.vocabulary)
            except CorpusError as error:
                raise UnusableInput("failed", CORPUS, str(error)) from error
            write_bytes(piece.place(self.out), found.read_bytes())

        return self._make_once(piece, train)

    def _adapt(self, piece: AdaptedModel) -> str:
        from ptmbench.bench.runs import cell as cells

        def adapt() -> None:
            home = piece.place(self.out)
            cost = cells.adapt(piece.cell, self._context(piece.cell, home))  # no scores, so no overlap is counted
            write_text(home / COST, json.dumps(cost, indent=1))
            shutil.rmtree(home / "unfinished", ignore_errors=True)

        return self._make_once(piece, adapt) or f"{piece.title}: done"

    def _pretrain(self, pretraining: Pretraining) -> str:
        failed = self._make_once(pretraining, lambda: self.train(pretraining, pretraining.place(self.out)))
        if failed:
            return failed
        about = self._checkpoint(pretraining.key).about
        return f"{pretraining.title}: {about['steps']} steps, loss {about['loss']:.3f}"

    def _run_trial(self, trial: Trial) -> str:
        def attempt() -> None:
            vocabulary = self._tokenizer(trial.pretraining.tokenizer_key).vocabulary
            trials.make(trial, self.out, self.train, vocabulary, self._context)

        return self._make_once(trial, attempt) or f"{trial.title}: {trials.outcome(trial, self.out)}"

    def _run_adaptation_trial(self, trial: AdaptationTrial) -> str:
        def attempt() -> None:
            home = trial.home(self.out)
            adaptation_trials.make(trial, self.out, self._context(trial.cell, home))
            shutil.rmtree(home, ignore_errors=True)

        return self._make_once(trial, attempt) or f"{trial.title}: {adaptation_trials.outcome(trial, self.out)}"

    def train(self, pretraining: Pretraining, folder: Path, carry: Path | None = None) -> checkpoint.Checkpoint:
        """Runs ``pretraining`` and writes its checkpoint to ``folder``. ``carry`` is as for `pretrain.pretrain`."""
        from ptmbench.bench.data import corpora
        from ptmbench.bench.engine import distribute
        from ptmbench.bench.engine.monitoring import LogOptions
        from ptmbench.bench.engine.recipe import recipe_of
        from ptmbench.bench.runs import pretrain

        tokenizer = self._tokenizer(pretraining.tokenizer_key)
        corpus, held_out = corpora.parts(pretraining.corpus, tokenizer, pretraining.held_out)
        if held_out is None:
            held_out = corpora.measured_on(pretraining.corpus, tokenizer)
        return pretrain.pretrain(
            pretraining.model,
            pretraining.size,
            corpus=corpus,
            held_out=held_out,
            tokenizer=tokenizer,
            budget=pretraining.budget,
            out=folder,
            recipe=recipe_of(pretraining.recipe),
            seed=pretraining.seed,
            base=self._checkpoint(pretraining.base) if pretraining.base else None,
            teacher=self._checkpoint(pretraining.teacher) if pretraining.teacher else None,
            about=pretraining.about,
            strategy=distribute.strategy_of(self.job.strategy, self.job.model_parallel),
            save_every=self.job.save_every,
            runtime=self.job.runtime,
            carry=carry,
            log=LogOptions(**self.job.log),
            warn=say,
        )


def _keys(busy: threading.Event) -> queue.Queue:
    """A queue of the keys from stdin, then None. If the pipe closes while the worker is ``busy``, the run has ended,
    and the worker exits at once."""
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


def main(out: Path, threads: int, memory: int) -> None:
    """Makes the artefacts whose keys stdin gives, until it closes or the process has more than ``memory`` bytes.
    Answers are JSON lines: {"said": null, "full": false} when ready, then one line per artefact."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of libraries goes to stderr
    environment.prepare(threads)
    busy = threading.Event()
    keys = _keys(busy)
    plan = Plan.from_json((out / "plan.json").read_text())
    worker = Worker(out, plan, Job(**json.loads((out / "job.json").read_text())))
    said, full = None, False
    while True:
        busy.clear()
        print(json.dumps({"said": said, "full": full}), file=answers, flush=True)
        key = None if full else keys.get()
        if key is None:
            return
        busy.set()
        said = worker.do(key)
        full = environment.exceeds(memory)


if __name__ == "__main__":
    import signal

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # even if it was ignored: the run stops workers with it
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
