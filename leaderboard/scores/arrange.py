"""Arranges records in a grid: decides which records share a row, a column and a cell.

Some scores are never averaged: those of two task versions, two data sets, two pre-training corpora or two budgets, and
those of tuned and untuned recipes or adaptations. This holds for the row and for its extra encoders. If one label
covers several of them, each gets a row or column of its own that says which. Older records do not state the requested
budget. There, only two numbers of tokens for one seed show that there are two budgets, since a budget in minutes gives
every seed another number of tokens.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from ptmbench.leaderboard.records.record import THEN, Draw, Record, draw_of, extra_encoders, planned
from ptmbench.leaderboard.scores.costs import adaptation_tuning_of, budget_words, tuning_of
from ptmbench.leaderboard.scores.grid import FORMS_WITHOUT_ADAPTATION, Cell, Column, Grid, Row, tokenizer_of


def arrange(records: Iterable[Record]) -> Grid:
    """Returns the grid of ``records``. Rows are ordered by falling average. Incomplete rows follow by their mean place
    on the tasks that they have, and rows without a score are last."""
    notes: list[str] = []
    rows, columns, found = _place_records(list(records), notes)
    draws: dict[tuple[Row, Column], dict[Draw, Record]] = {}
    left_out: Counter[tuple[str, str]] = Counter()
    for record, row, column in found:
        held, draw = draws.setdefault((row, column), {}), draw_of(record)
        if rival := held.get(draw):
            left_out[(row.title, column.title)] += 1
            record = max(record, rival, key=lambda one: (one.finished, one.seal))
        held[draw] = record
    for (row, column), count in sorted(left_out.items()):
        notes.append(
            f"{row} on {column}: {count} older record{'s' * (count > 1)} of a seed that was run again with other "
            f"settings or code {'are' if count > 1 else 'is'} left out; the newest counts."
        )
    cells = {pair: Cell(records=tuple(held[draw] for draw in sorted(held))) for pair, held in draws.items()}
    grid = Grid(rows=rows, columns=columns, cells=cells, notes=tuple(notes))
    share_ahead = _share_ahead(grid)
    ordered = sorted(rows, key=lambda row: (_rank(grid, row), share_ahead[row], row.title))
    return Grid(rows=tuple(ordered), columns=columns, cells=cells, notes=tuple(notes))


def places(records: Iterable[Record]) -> list[tuple[Record, Row, Column]]:
    """Returns each record with its row and column. A record in several rows is listed once for each. In contrast to the
    cells of a grid, older records of a seed that was run again are included."""
    return _place_records(list(records), [])[2]


def _place_records(
    records: Sequence[Record], notes: list[str]
) -> tuple[tuple[Row, ...], tuple[Column, ...], list[tuple[Record, Row, Column]]]:
    columns, column_of = _columns(records, notes)
    rows, row_of = _rows(column_of)
    return rows, columns, [(record, row, one) for record, one in column_of.values() for row in row_of[id(record)]]


def _rank(grid: Grid, row: Row) -> float:
    mean = grid.macro_summary(row).mean
    return -mean if math.isfinite(mean) else math.inf


def _share_ahead(grid: Grid) -> dict[Row, float]:
    """Returns for each row the share of the other rows that are ahead of it, averaged over the columns where it has a
    score; infinite for a row without a score."""
    shares: dict[Row, list[float]] = {row: [] for row in grid.rows}
    for column in grid.columns:
        means = {row: cell.summary.mean for row in grid.rows if (cell := grid.cells.get((row, column))) and cell.ok}
        sign = 1 if column.task["higher_is_better"] else -1
        known = sorted((row for row, mean in means.items() if math.isfinite(mean)), key=lambda row: -sign * means[row])
        for place, row in enumerate(known):
            shares[row].append(place / max(len(known) - 1, 1))
    return {row: math.fsum(found) / len(found) if found else math.inf for row, found in shares.items()}


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
        own = _parts(members, _identity_with_planned(members, _identity_with_budget(members, _pretraining_identity)))
        extras = [_parts(part, _identity_with_budget(part, _extra_encoders_identity)) for _, part in own]
        for (identity, _), parts in zip(own, extras, strict=True):
            for others, part in parts:
                words = [_pretraining_words(identity, part, [one for one, _ in own])] if len(own) > 1 else []
                words += [_extra_encoders_words(others)] if len(parts) > 1 else []
                for tuning, tuned in _by_tuning(part):
                    row = Row(
                        name=name, label=label, size=size, kind=kind, division=division, adaptation=adaptation,
                        part="; ".join([*words, *tuning]), extra_encoders=others, records=tuple(tuned),
                    )  # fmt: skip
                    rows.append(row)
                    for record in tuned:
                        row_of.setdefault(id(record), []).append(row)
    return tuple(rows), row_of


def _by_tuning(records: Sequence[Record]) -> list[tuple[list[str], list[Record]]]:
    """Groups ``records`` by the tuning of their adaptation, in words if there are several. Records of forms that train
    nothing belong to all groups."""
    parts: dict[str, list[Record]] = {}
    for record in records:
        if record.task.get("form") not in FORMS_WITHOUT_ADAPTATION:
            parts.setdefault(adaptation_tuning_of(record.adaptation), []).append(record)
    if len(parts) < 2:
        return [([], list(records))]
    shared = [record for record in records if record.task.get("form") in FORMS_WITHOUT_ADAPTATION]
    return [([words], [*found, *shared]) for words, found in sorted(parts.items())]


def _by_name(records: Iterable[Record]) -> dict[tuple, list[Record]]:
    """Groups records by model and adaptation. Language modelling and minimal pairs use a model without an adaptation.
    So their scores are in every row of the model and have no row of their own. Rows of transformed models do not get
    them, because the transform would change these scores."""
    models: dict[tuple, dict[str, list[Record]]] = {}
    unadapted: dict[tuple, list[Record]] = {}
    for record in records:
        row = record.row
        key = (row["label"], row["name"], row["size"] or "", row["kind"], row["division"])
        if record.task.get("form") in FORMS_WITHOUT_ADAPTATION and THEN not in record.adaptation["name"]:
            unadapted.setdefault(key, []).append(record)
        else:
            models.setdefault(key, {}).setdefault(record.adaptation["name"], []).append(record)
    for key, found in unadapted.items():
        rows = models.setdefault(key, {})
        if all(THEN in adaptation for adaptation in rows):
            rows[found[0].adaptation["name"]] = []
        for adaptation, members in rows.items():
            members.extend([] if THEN in adaptation else found)
    return {(*key, adaptation): members for key, rows in models.items() for adaptation, members in rows.items()}


def _parts(
    records: Sequence[Record], identity: Callable[[Record], Hashable | None]
) -> list[tuple[Hashable | None, list[Record]]]:
    """Groups ``records`` by ``identity``. Records whose identity is not known (None), such as those whose data was
    missing, go to the largest group."""
    parts: dict[Hashable | None, list[Record]] = {}
    for record in records:
        parts.setdefault(identity(record), []).append(record)
    unidentified = parts.pop(None, [])
    if not parts:
        return [(None, unidentified)]
    ordered = sorted(parts.items(), key=lambda part: (-len(part[1]), str(part[0])))
    ordered[0][1].extend(unidentified)
    return ordered


def _task_identity(record: Record) -> tuple | None:
    """Returns the version, data, split, number of examples (a run on part of the data is another measurement), and the
    version of the condition. None for a record without a score that does not know its data."""
    task = record.task
    if record.status != "ok" and not (task["data_sha256"] and task.get("examples")):
        return None
    condition = (task.get("condition") or {}).get("version")
    return (task["version"], task["data_sha256"], task.get("split"), task.get("examples"), condition)


def _identity_with_budget(records: Sequence[Record], identity: Callable[[Record, bool], Hashable | None]) -> Callable:
    """Returns ``identity`` with the budget included only if there are several: if a record states its requested budget,
    or if records of the same draw have different budgets."""
    known = {(draw_of(record), identity(record, False), identity(record, True)) for record in records}
    budget = len({(draw, short) for draw, short, _ in known}) < len(known)
    budget |= any((record.pretraining or {}).get("budget") for record in records)
    return lambda record: identity(record, budget)


def _identity_with_planned(records: Sequence[Record], identity: Callable[[Record], Hashable | None]) -> Callable:
    """Returns ``identity`` with one change: a record whose pre-training failed gets the identity of the records with
    the budget that was planned for it."""
    found = {}
    for record in records:
        if record.pretraining and identity(record) is not None:
            found.setdefault(_requested_pretraining(record.pretraining), identity(record))

    def of(record: Record) -> Hashable | None:
        if not (plan := planned(record)):
            return identity(record)
        corpus = plan.get("corpus_sha256")
        tokenizer, teacher = next((one[1:3] for one in found.values() if one[0] == corpus), (None, None))
        return found.get(_requested_pretraining(plan), (corpus, tokenizer, teacher, budget_words(plan), None))

    return of


def _requested_pretraining(made: Mapping[str, Any]) -> tuple:
    """Returns the requested corpus and budget."""
    return (made.get("corpus_sha256"), budget_words(made))


def _pretraining_identity(record: Record, budget: bool) -> tuple | None:
    """Returns the corpus, the tokenizer, the teacher, the spent budget (with ``budget``) and the trials of tuning.
    Random weights have a tokenizer only."""
    made, tokenizer = record.pretraining or {}, tokenizer_of(record)
    if not made and tokenizer is None:
        return None
    tuning = made.get("tuning") or {}
    trials = tuning.get("trials"), str(tuning.get("probe"))
    spent = _spent(made) if budget else None
    return (made.get("corpus_sha256"), tokenizer, _teacher(made), spent, trials if tuning else None)


def _teacher(made: Mapping[str, Any]) -> Hashable | None:
    """Returns the model, size and corpus of the teacher in the pre-training ``made``, or the hash of its weights if it
    was not pre-trained here; None without a teacher."""
    about = made.get("teacher")
    if not isinstance(about, dict):
        return None
    here = about.get("corpus_sha256")
    return (str(about.get("model")), str(about.get("size")), str(here)) if here else str(about.get("weights_sha256"))


def _spent(made: Mapping[str, Any]) -> Any:
    """Returns the value that identifies a budget: the tokens that were read, or the words of the budget if it is in
    minutes."""
    return budget_words(made) if "minutes" in (made.get("budget") or {}) else made.get("tokens")


def _extra_encoders_identity(record: Record, budget: bool) -> tuple | None:
    """Returns the name, corpus, tokenizer and (with ``budget``) cost of each extra encoder; None without extra
    encoders."""
    found = []
    for name, made in sorted(extra_encoders(record), key=itemgetter(0)):
        tokenizer = (made.get("tokenizer") or {}).get("sha256")
        found.append((name, made.get("corpus_sha256"), tokenizer, _spent(made) if budget else None))
    return tuple(found) or None


def _extra_encoders_words(identity: Hashable | None) -> str:
    of = [
        f"{name} {str(corpus)[:6]}, tokenizer {str(tokenizer)[:6]}" + (f", {_tokens_words(spent)}" if spent else "")
        for name, corpus, tokenizer, spent in identity or ()
    ]
    return f"with {' and '.join(of)}" if of else ""


def _pretraining_words(identity: Hashable | None, records: Sequence[Record], others: Sequence[Hashable | None]) -> str:
    """Returns words that distinguish the pre-training ``identity`` of ``records`` from the ``others`` of the same
    label."""
    if identity is None:
        return ""
    corpus, tokenizer, teacher, spent, _ = identity
    made = next((record.pretraining or planned(record) for record in records if record.pretraining), None)
    made = made or next(filter(None, map(planned, records)), {})
    known = [one for one in others if one is not None]
    budget = "" if spent is None else budget_words(made) or _tokens_words(spent)
    tuning = tuning_of(made) if made and any(trials for *_, trials in known) else ""
    taught = _teacher_words(made) if teacher and len({one[2] for one in known}) > 1 else ""
    if taught and len({one[3] for one in known}) == 1:
        budget = ""  # it is the same
    if len({one[:2] for one in known}) == 1 and (taught or budget or tuning):
        return ", ".join(filter(None, (taught, budget, tuning)))
    text = f"{made.get('corpus')} {str(corpus)[:6]}" if made else ""
    return ", ".join(filter(None, (text, f"tokenizer {str(tokenizer)[:6]}", taught, budget, tuning)))


def _teacher_words(made: Mapping[str, Any]) -> str:
    about = made.get("teacher") or {}
    if about.get("tokens") == 0:
        return "teacher with random weights"
    return f"teacher {about.get('model')} {about.get('size')} {str(about.get('weights_sha256'))[:6]}"


def _tokens_words(spent: Any) -> str:
    return f"{spent:,} tokens" if isinstance(spent, int) else str(spent)


def _newest(records: Sequence[Record]) -> Record:
    return max(records, key=lambda record: (record.status == "ok", record.finished, record.seal))
