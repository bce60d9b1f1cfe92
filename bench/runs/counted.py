"""Counts the overlap of a run's tasks with their training data, and caches the counts by content.

`bench.data.overlap` compares the texts. The cache key contains the task's version, the hash of its data, the limit on
its examples and, for a corpus, the hash of the corpus. Workers call `of_cell`, which reads a corpus once for all tasks
of the plan.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock

from ptmbench import tasks
from ptmbench.bench import environment
from ptmbench.bench.data import corpora, overlap, sources
from ptmbench.bench.data.overlap import Overlap
from ptmbench.bench.engine.checkpoint import digest, write_text
from ptmbench.bench.runs.artefacts import Cell
from ptmbench.bench.runs.examples import read
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.models.text.corpus import CorpusError
from ptmbench.tasks.task import DataError, Example, MissingData, Task


def of_cell(cell: Cell, plan: Plan, data: Path) -> Overlap | None:
    """Returns the overlap of the reported examples of ``cell`` with its training data, or None if the task's data
    cannot be read.

    Its counts are the part ``overlap`` of the record's task: ``version`` of the definitions, ``run_words``,
    ``report``, ``train`` and, for a model that was pre-trained in the run, ``corpus``.
    """
    task = tasks.load(cell.task)
    try:
        own = of_task(task, data, cell.data_sha256, cell.limit)
    except DataError:
        return None  # the record of the cell has the error
    counts, rows = {"version": overlap.VERSION, **own.counts}, set(own.overlapping)
    taught = plan.by_key[cell.teacher].cell.pretraining if cell.teacher else None
    stages = _stages(plan, *filter(None, (cell.pretraining, taught)))
    if stages:
        try:
            hashes = {one.task: one.data_sha256 for one in plan.cells}
            files = [Path(file) for one in stages for file in one.corpus]
            sha256 = stages[0].corpus_sha256 if len(stages) == 1 else digest([one.corpus_sha256 for one in stages])
            found = of_corpus(hashes, data, cell.limit, files, sha256)[cell.task]
            counts["corpus"] = found.counts
            rows |= set(found.overlapping)
        except (CorpusError, OSError) as error:
            counts["corpus"] = {"unknown": f"The corpus could not be read: {error}"}
    elif taught or (cell.pretraining and cell.row.kind != "random"):  # a random twin has read nothing
        counts["corpus"] = {"unknown": "The corpus of this checkpoint is not available."}
    return Overlap(counts, tuple(sorted(rows)))


def _stages(plan: Plan, *keys: str) -> list[Pretraining]:
    """The pre-trainings ``keys``, their bases and teachers, one for each corpus; [] if a corpus is unknown."""
    found: dict[str, Pretraining] = {}
    waiting = list(keys)
    while waiting:
        one = plan.by_key.get(waiting.pop())
        if not isinstance(one, Pretraining):
            return []
        found.setdefault(one.corpus_sha256, one)
        waiting += filter(None, (one.teacher, one.base))
    return list(found.values())


def of_task(task: Task, data: Path, sha256: str, limit: int = 0) -> Overlap:
    """Returns `bench.data.overlap.between` for the first ``limit`` examples of the splits of ``task``, 0 for all.

    ``sha256`` identifies the data. Raises `DataError` for a split that cannot be read, except a missing training file.
    """
    key = digest([overlap.VERSION, task.name, task.version, sha256, limit])
    with FileLock(environment.cache_subfolder("overlap") / f"{key[:32]}.lock"):
        if (kept := _kept(key)) is None:
            report = read(task, data, task.report)[: limit or None]
            kept = overlap.between(task, training_of(task, data, limit), report)
            _keep(key, kept)
    return kept


def of_corpus(
    hashes: Mapping[str, str], data: Path, limit: int, files: Sequence[Path], corpus_sha256: str
) -> dict[str, Overlap]:
    """Returns `bench.data.overlap.against` for each task of ``hashes``, a mapping from names to SHA-256 of their data.

    Leaves out tasks whose report split cannot be read. Raises `CorpusError` for a corpus that cannot be read.
    """
    keys = {
        name: digest([overlap.VERSION, name, tasks.load(name).version, sha256, limit, corpus_sha256])
        for name, sha256 in hashes.items()
    }
    with FileLock(environment.cache_subfolder("overlap") / f"{corpus_sha256[:32]}.lock"):
        found = {name: kept for name, key in keys.items() if (kept := _kept(key)) is not None}
        left: list[tuple[Task, Sequence[Example]]] = []
        for name in keys.keys() - found.keys():
            task = tasks.load(name)
            with suppress(DataError):
                left.append((task, read(task, data, task.report)[: limit or None]))
        if left:
            documents, as_read = corpora.texts(files)
            for (task, _), one in zip(left, overlap.against(left, documents, as_read), strict=True):
                found[task.name] = one
                _keep(keys[task.name], one)
    return found


def of_folder(data: Path, names: Iterable[str], corpus: Sequence[Path] = ()) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Yields each task of ``names`` that ``data`` has, with its counts in the format of `of_cell`."""
    found, hashes = {}, {}
    for name in sorted(names):
        task = tasks.load(name)
        sha256 = sources.fingerprint(task, data)
        with suppress(DataError):
            found[name], hashes[name] = of_task(task, data, sha256).counts, sha256
    seen = of_corpus(hashes, data, 0, corpus, corpora.fingerprint(corpus)) if corpus else {}
    for name, counts in found.items():
        more = {"corpus": seen[name].counts} if name in seen else {}
        yield tasks.load(name), {"version": overlap.VERSION, **counts, **more}


def training_of(task: Task, data: Path, limit: int = 0) -> Sequence[Example] | None:
    """The training split of ``task``; None if the task has none or its file is missing."""
    try:
        return read(task, data, "train")[: limit or None] if "train" in task.files else None
    except MissingData:
        return None


def _path(key: str) -> Path:
    return environment.cache_subfolder("overlap") / f"{key[:32]}.json"


def _kept(key: str) -> Overlap | None:
    with suppress(OSError, ValueError, KeyError, TypeError):  # missing or damaged: count again
        content = json.loads(_path(key).read_text(encoding="utf-8"))
        return Overlap(content["counts"], tuple(content["overlapping"]))
    return None


def _keep(key: str, found: Overlap) -> None:
    write_text(_path(key), json.dumps(asdict(found)))
