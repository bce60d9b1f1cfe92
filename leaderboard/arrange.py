"""From records to the grid: which records share a row, a column and a cell, and which must not.

Scores of two task versions, two data sets, two pre-training corpora or, of one seed, two budgets are never averaged,
whether they are the row's own or those of models that it reads besides; where one label covers several of them, each
gets a row or column of its own that says which.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import itemgetter

from ptmbench.leaderboard.grid import Cell, Column, Grid, Row, tokenizer_of
from ptmbench.leaderboard.record import THEN, Record, beside
from ptmbench.leaderboard.stats import summarise


def arrange(records: Iterable[Record]) -> Grid:
    """The grid of ``records``; rows by falling average, the incomplete ones after them by name."""
    notes: list[str] = []
    columns, column_of = _columns(list(records), notes)
    rows, row_of = _rows(column_of)
    seeds: dict[tuple[Row, Column], dict[int, Record]] = {}
    aside: Counter[tuple[str, str]] = Counter()
    placed = ((record, row, column) for record, column in column_of.values() for row in row_of[id(record)])
    for record, row, column in placed:
        held = seeds.setdefault((row, column), {})
        if rival := held.get(record.seed):
            aside[(row.title, column.title)] += 1
            record = max(record, rival, key=lambda one: (one.finished, one.seal))
        held[record.seed] = record
    for (row, column), count in sorted(aside.items()):
        notes.append(
            f"{row} on {column}: {count} older record{'s' * (count > 1)} of a seed that was run again with other "
            f"settings or code {'are' if count > 1 else 'is'} left out; the newest counts."
        )
    cells = {pair: Cell(records=tuple(held[seed] for seed in sorted(held))) for pair, held in seeds.items()}
    grid = Grid(rows=rows, columns=columns, cells=cells, notes=tuple(notes))
    ordered = sorted(rows, key=lambda row: (_rank(grid, row), row.title))
    return Grid(rows=tuple(ordered), columns=columns, cells=cells, notes=tuple(notes))


def _rank(grid: Grid, row: Row) -> float:
    mean = summarise(list(grid.macro(row).values())).mean
    return -mean if math.isfinite(mean) else math.inf


def _columns(
    records: Sequence[Record], notes: list[str]
) -> tuple[tuple[Column, ...], dict[int, tuple[Record, Column]]]:
    by_name: dict[str, list[Record]] = {}
    for record in records:
        by_name.setdefault(record.task["name"], []).append(record)
    columns, column_of = [], {}
    for name in sorted(by_name):
        parts = _parts(by_name[name], _task_identity)
        for number, (identity, members) in enumerate(parts):
            version, data, split, examples, condition = identity or (None,) * 5
            words = f"version {version}, {split}, {examples} examples, data {str(data)[:8]}"
            words += f", condition version {condition}" if condition is not None else ""
            part = words if len(parts) > 1 else ""
            column = Column(task=_newest(members).task, part=part, key=f"{name}.{number}")
            columns.append(column)
            column_of |= {id(record): (record, column) for record in members}
        if len(parts) > 1:
            notes.append(
                f"{by_name[name][0].task['title']} was run in {len(parts)} versions or on different data. Their scores "
                "may not be compared, so each has its own column, and the average takes the one with most rows."
            )
    return tuple(columns), column_of


def _rows(column_of: dict[int, tuple[Record, Column]]) -> tuple[tuple[Row, ...], dict[int, list[Row]]]:
    by_name = _by_name([record for record, _ in column_of.values()])
    rows: list[Row] = []
    row_of: dict[int, list[Row]] = {}
    for key in sorted(by_name):
        label, name, size, kind, division, adaptation = key
        members = by_name[key]
        own = _parts(members, _telling(members, _pretraining_identity))
        beside = [_parts(part, _telling(part, _neighbours_identity)) for _, part in own]
        for (identity, _), parts in zip(own, beside, strict=True):
            for others, part in parts:
                words = [_pretraining_words(identity, part)] if len(own) > 1 else []
                words += [_neighbours_words(others)] if len(parts) > 1 else []
                row = Row(
                    name=name, label=label, size=size, kind=kind, division=division, adaptation=adaptation,
                    part="; ".join(words), beside=others, records=tuple(part),
                )  # fmt: skip
                rows.append(row)
                for record in part:
                    row_of.setdefault(id(record), []).append(row)
    return tuple(rows), row_of


def _by_name(records: Iterable[Record]) -> dict[tuple, list[Record]]:
    """Records by model and adaptation. A language model is scored as it is, without an adaptation, so its perplexity
    stands in every row of the model instead of making a row of its own; not in rows of transformed models, which would
    have another one."""
    models: dict[tuple, dict[str, list[Record]]] = {}
    as_it_is: dict[tuple, list[Record]] = {}
    for record in records:
        row = record.row
        key = (row["label"], row["name"], row["size"] or "", row["kind"], row["division"])
        if record.task.get("form") == "language_modelling" and THEN not in record.adaptation["name"]:
            as_it_is.setdefault(key, []).append(record)
        else:
            models.setdefault(key, {}).setdefault(record.adaptation["name"], []).append(record)
    for key, found in as_it_is.items():
        rows = models.setdefault(key, {})
        if all(THEN in adaptation for adaptation in rows):
            rows[found[0].adaptation["name"]] = []
        for adaptation, members in rows.items():
            members.extend([] if THEN in adaptation else found)
    return {(*key, adaptation): members for key, rows in models.items() for adaptation, members in rows.items()}


def _parts(
    records: Sequence[Record], identity: Callable[[Record], Hashable | None]
) -> list[tuple[Hashable | None, list[Record]]]:
    """``records`` parted by ``identity``; those that cannot tell (None: their data was missing) go with the largest
    part."""
    parts: dict[Hashable | None, list[Record]] = {}
    for record in records:
        parts.setdefault(identity(record), []).append(record)
    silent = parts.pop(None, [])
    if not parts:
        return [(None, silent)]
    ordered = sorted(parts.items(), key=lambda part: (-len(part[1]), str(part[0])))
    ordered[0][1].extend(silent)
    return ordered


def _task_identity(record: Record) -> tuple | None:
    """Version, data, split, number of examples (a run on part of the data is another measurement), and the version of
    the condition."""
    task = record.task
    if record.status != "ok" and not (task["data_sha256"] and task.get("examples")):
        return None
    condition = (task.get("condition") or {}).get("version")
    return (task["version"], task["data_sha256"], task.get("split"), task.get("examples"), condition)


def _telling(records: Sequence[Record], identity: Callable[[Record, bool], Hashable | None]) -> Callable:
    """``identity``, with the budget only where those of one seed differ, on one task or on two, since a budget in
    minutes differs from seed to seed."""
    known = {(record.seed, identity(record, False), identity(record, True)) for record in records}
    budget = len({(seed, short) for seed, short, _ in known}) < len(known)
    return lambda record: identity(record, budget)


def _pretraining_identity(record: Record, budget: bool) -> tuple | None:
    """Corpus and tokenizer, and tokens if asked for. Random weights have a tokenizer."""
    made, tokenizer = record.pretraining or {}, tokenizer_of(record)
    if not made and tokenizer is None:
        return None
    return (made.get("corpus_sha256"), tokenizer, made.get("tokens") if budget else None)


def _neighbours_identity(record: Record, budget: bool) -> tuple | None:
    """What `_pretraining_identity` has of the row, of each model that is read besides; None where there is none."""
    found = []
    for name, made in sorted(beside(record.adaptation, "neighbours"), key=itemgetter(0)):
        tokenizer = (made.get("tokenizer") or {}).get("sha256")
        found.append((name, made.get("corpus_sha256"), tokenizer, made.get("tokens") if budget else None))
    return tuple(found) or None


def _neighbours_words(identity: Hashable | None) -> str:
    of = [
        f"{name} {str(corpus)[:6]}, tokenizer {str(tokenizer)[:6]}" + (f", {tokens:,} tokens" if tokens else "")
        for name, corpus, tokenizer, tokens in identity or ()
    ]
    return f"beside {' and '.join(of)}" if of else ""


def _pretraining_words(identity: Hashable | None, records: Sequence[Record]) -> str:
    if identity is None:
        return ""
    corpus, tokenizer, tokens = identity
    made = next((record.pretraining for record in records if record.pretraining), None)
    words = f"tokenizer {str(tokenizer)[:6]}"
    words = f"{made.get('corpus')} {str(corpus)[:6]}, {words}" if made else words
    return f"{words}, {tokens:,} tokens" if tokens is not None else words


def _newest(records: Sequence[Record]) -> Record:
    return max(records, key=lambda record: (record.status == "ok", record.finished, record.seal))
