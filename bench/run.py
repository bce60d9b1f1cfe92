"""Walks a plan: prepares what its cells share, starts workers, shows how far they are, and builds the board.

The process of the command line trains nothing and never imports TensorFlow; `bench.work` does. So a crash of a worker
is seen, told and survived here, and the same command goes on where it stopped.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import models
import tasks
from bench import corpora, environment, plan, suites
from bench.budget import Budget
from bench.checkpoint import write_text
from bench.console import duration, progress, say
from bench.errors import CELLS_FAILED, OK, EnvironmentProblem, UsageError
from bench.plan import Plan, Pretraining, Row
from bench.work import Job, recorded
from tasks.task import MissingData, Task


def run_suite(
    *,
    suite: str,
    data: Path | None = None,
    models: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    sizes: Sequence[str] | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    out: Path | None = None,
    adaptations: Sequence[str] | None = None,
    budget: Budget | None = None,
    settings: Mapping[str, Any] | None = None,
    corpus: Sequence[Path] = (),
    tokenizer: str | None = None,
    vocabulary: int | None = None,
    baselines: bool = True,
    dry_run: bool = False,
    jobs: int | None = None,
    limit: int | None = None,
    keep: bool = False,
    retry: bool = False,
) -> int:
    """Run the suite called ``suite``, changed by the options; returns the exit status."""
    chosen = suites.load(suite)
    out = out or Path("runs") / suite
    if data is None and not chosen.embedded:
        raise UsageError(
            f"The suite '{suite}' needs data: give its folder with --data. `python -m bench data ls` shows which."
        )
    rows = plan.rows_of(models or chosen.models, sizes or chosen.sizes, baselines)
    found = _tasks(tasks or chosen.tasks)
    check_rows(rows)
    if data is None:
        data = embedded(out)
    budget = budget if budget is not None and budget.unit else chosen.budget
    pretrained = [row for row in rows if row.kind == "pretrained"]
    pretrainings, path, fingerprint = [], "", ""
    if any(row.model for row in rows):
        files = corpora.files_of(corpus, chosen.corpus, data)
        kind, size = tokenizer or chosen.tokenizer, vocabulary or chosen.vocabulary
        sha256 = corpora.fingerprint(files)
        fingerprint = plan.digest({"corpus": sha256, "kind": kind, "size": size})
        if not dry_run:
            path = str(corpora.tokenizer(files, kind, size))
        pretrainings = [
            Pretraining(
                model=row.model,
                size=row.size,
                corpus=tuple(map(str, files)),
                corpus_sha256=sha256,
                corpus_name=corpora.name_of(files),
                tokenizer=kind,
                vocabulary=size,
                budget=budget,
                recipe=dict(chosen.recipe),
            )
            for row in pretrained
        ]
    cells = plan.cells_of(
        rows,
        found,
        adaptations=adaptations or chosen.adaptations,
        seeds=[seed] if seed is not None else range(seeds or chosen.seeds),
        data_sha256={task.name: data_sha256(task, data) for task in found},
        pretraining_of={row: p.key for row, p in zip(pretrained, pretrainings, strict=True)},
        tokenizer=fingerprint,
        suite_settings=chosen.settings,
        settings=settings,
        limit=limit or 0,
    )
    whole = Plan(pretrainings=tuple(pretrainings), cells=cells)
    if dry_run:
        from bench.estimate import table

        print(table(whole, data))
        return OK
    job = Job(
        data=str(data.resolve()),
        source=source_of(data),
        command=repeatable(),
        tokenizer=path,
        keep=keep,
        length=max(int(cell.settings["length"]) for cell in cells),
    )
    return execute(whole, job, out, jobs, retry)


def evaluate(
    *,
    checkpoint: Path,
    tasks: Sequence[str] | None = None,
    data: Path | None = None,
    out: Path | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    adaptations: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    jobs: int | None = None,
    limit: int | None = None,
    keep: bool = False,
    retry: bool = False,
) -> int:
    """Adapt the pre-trained model in ``checkpoint`` to tasks and score it; returns the exit status."""
    from bench.checkpoint import CheckpointError, read

    found = read(checkpoint)
    if found.about.get("kind") != "pretrained":
        raise CheckpointError(
            f"{checkpoint} holds no pre-trained model but a {found.about.get('kind')} one. Use `predict` with it."
        )
    out = out or Path("runs") / Path(checkpoint).name
    data = data or embedded(out)
    row = Row(name=found.about["model"], kind="pretrained", model=found.about["model"], size=found.about["size"])
    chosen = _tasks(tasks)
    cells = plan.cells_of(
        [row],
        chosen,
        adaptations=adaptations or ("finetune",),
        seeds=[seed] if seed is not None else range(seeds or 3),
        data_sha256={task.name: data_sha256(task, data) for task in chosen},
        pretraining_of={row: f"checkpoint:{found.weights_sha256}"},
        tokenizer=found.about["tokenizer"]["sha256"],
        settings=settings,
        limit=limit or 0,
    )
    longest = int(found.about["shape"]["length"])
    for cell in cells:
        if cell.settings["length"] > longest:
            raise UsageError(
                f"{row.name} in {checkpoint} reads at most {longest} tokens, but {cell.task} asks for "
                f"{cell.settings['length']:g}. "
                f"Add --set length={longest}."
            )
    whole = Plan(pretrainings=(), cells=cells)
    if dry_run:
        from bench.estimate import table

        print(table(whole, data))
        return OK
    job = Job(
        data=str(data.resolve()),
        source=source_of(data),
        command=repeatable(),
        tokenizer=str(found.path("tokenizer.json").resolve()),
        keep=keep,
        length=longest,
        checkpoint=str(Path(checkpoint).resolve()),
    )
    return execute(whole, job, out, jobs, retry)


def check_rows(rows: Sequence[Row]) -> None:
    """Unknown models and sizes are told before anything is trained."""
    for row in rows:
        if row.model:
            module = models.load(row.model)
            if row.size not in module.SIZES:
                raise models.UnknownModel(f"{row.model} has no size '{row.size}'; it has {', '.join(module.SIZES)}.")


def _tasks(names: Sequence[str] | None) -> list[Task]:
    return [tasks.load(name) for name in names or tasks.names()]


def data_sha256(task: Task, data: Path) -> str:
    """What the data of ``task`` is, or that it is not there: a file that turns up later makes a new cell."""
    try:
        return task.fingerprint(
            data,
            [name for name in ("train", "dev", "test") if name in task.files and name in (task.report, "train", "dev")],
        )
    except MissingData as error:
        return plan.digest({"missing": re.sub(re.escape(str(data)), "", str(error))})


def source_of(data: Path) -> dict[str, Any]:
    """Whose data this is: what ``SOURCE.json`` at its root says, or the official data sets."""
    try:
        return json.loads((data / "SOURCE.json").read_text())
    except FileNotFoundError:
        return {"name": "official"}
    except (ValueError, OSError) as error:
        raise EnvironmentProblem(f"{data / 'SOURCE.json'} cannot be read: {error}. Make the data again.") from error


def embedded(out: Path) -> Path:
    """The microworld, made below the run folder when it is not there yet."""
    from tasks import microworld

    folder = out / "data"
    if not (folder / "SOURCE.json").exists():
        say("Making the microworld ...")
        microworld.make(folder)
    return folder


def repeatable() -> str:
    """This process's command without the options that choose among cells: what repeats one cell begins with it."""
    drop = {"--models", "--sizes", "--tasks", "--adaptation", "--seeds", "--seed", "--jobs", "--out"}
    arguments, kept = iter(sys.argv[1:]), []
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if name in drop:
            if not equals:
                next(arguments, None)
        elif name not in ("--retry", "--no-baselines", "--debug"):
            kept.append(argument)
    import shlex

    return shlex.join(["python", "-m", "bench", *kept])


def execute(whole: Plan, job: Job, out: Path, jobs: int | None, retry: bool = False) -> int:
    """Run the cells of ``whole`` that have no record yet, then build the board; the exit status says whether any cell
    failed."""
    from leaderboard import board

    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "plan.json", whole.to_json())
    write_text(out / "job.json", json.dumps(asdict(job), indent=1))
    if retry:
        set_failures_aside(out)
    keys = {cell.key[:12] for cell in whole.cells}
    before = keys & recorded(out)
    if before:
        say(f"{len(before)} of {len(keys)} cells have their record already.")
    started = time.monotonic()
    died = _run_workers(whole, out, _jobs(jobs, whole), keys) if before != keys else []
    counts, missing = _outcomes(whole, out)
    page = board.build([out], out / "board")
    told = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(counts.items()))
    say(
        f"{len(keys) - missing} of {len(keys)} cells recorded ({told}) in {duration(time.monotonic() - started)}. "
        f"Board: {page}"
    )
    for note in died:
        say(f"{note} The same command goes on with what is left.")
    return CELLS_FAILED if missing or counts.get("failed") or counts.get("diverged") else OK


def _jobs(asked: int | None, whole: Plan) -> int:
    """One worker per core: tiny networks gain more from two processes than from two threads. Never more than there are
    groups."""
    cores = environment.cores()
    return max(1, min(asked or cores, len(whole.groups())))


def _run_workers(whole: Plan, out: Path, jobs: int, keys: set[str]) -> list[str]:
    """Start ``jobs`` workers and wait; a sentence for each that did not end by itself."""
    threads = max(1, environment.cores() // jobs)
    logs = out / "logs"
    logs.mkdir(exist_ok=True)
    with progress("Cells", len(keys), "cells") as bar:
        bar.skip(len(keys & recorded(out)))
        workers = []
        for number in range(jobs):
            worker = subprocess.Popen(
                [sys.executable, "-m", "bench.work", str(out.resolve()), str(threads)],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=environment.ROOT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            listener = threading.Thread(target=_listen, args=(worker, number, jobs, logs), daemon=True)
            listener.start()
            workers.append((worker, listener))
        try:
            while any(worker.poll() is None for worker, _ in workers):
                time.sleep(0.2)
                bar.advance(len(keys & recorded(out)) - bar.done)
        except BaseException:
            for worker, _ in workers:
                worker.terminate()
            for worker, _ in workers:
                try:
                    worker.wait(timeout=30)
                except subprocess.TimeoutExpired:
                    worker.kill()
            raise
        bar.advance(len(keys & recorded(out)) - bar.done)
    for _, listener in workers:
        listener.join(timeout=5)
    return [_death(worker.returncode, number, logs) for number, (worker, _) in enumerate(workers) if worker.returncode]


def _death(code: int, number: int, logs: Path) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
    return f"Worker {number} {how}; {logs / f'worker-{number}.log'} holds what it said."


def _listen(worker: subprocess.Popen, number: int, jobs: int, logs: Path) -> None:
    """Pass on what a worker says, and keep it. Tracebacks stay in the log: people are told by the exit."""
    prefix, quiet = f"[{number}] " if jobs > 1 else "", False
    with open(logs / f"worker-{number}.log", "a", encoding="utf-8") as log:
        for line in worker.stderr:
            log.write(line)
            log.flush()
            quiet = quiet or line.startswith("Traceback ")
            if not quiet:
                say(prefix + line.rstrip())


def _outcomes(whole: Plan, out: Path) -> tuple[dict[str, int], int]:
    """How many cells of the plan ended how, and how many have no record."""
    files = {path.name.split(".")[-2]: path for path in (out / "records").glob("*.json")}
    counts: dict[str, int] = {}
    missing = 0
    for cell in whole.cells:
        path = files.get(cell.key[:12])
        if path is None:
            missing += 1
            continue
        try:
            status = json.loads(path.read_bytes())["status"]
        except (ValueError, KeyError):
            status = "failed"
        counts[status] = counts.get(status, 0) + 1
    return counts, missing


def set_failures_aside(out: Path) -> None:
    """Move records of failed and diverged cells to ``superseded/`` and forget failed pre-trainings, so that they run
    again."""
    aside = out / "superseded"
    for path in (out / "records").glob("*.json"):
        try:
            status = json.loads(path.read_bytes())["status"]
        except (ValueError, KeyError):
            status = "failed"
        if status in ("failed", "diverged"):
            aside.mkdir(exist_ok=True)
            os.replace(path, aside / f"{path.stem}.{int(path.stat().st_mtime)}.json")
    for note in (out / "pretrained").glob("*.failed.json"):
        note.unlink()
