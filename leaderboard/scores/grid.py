"""The grid of a board: rows x columns, with records that must not be mixed kept apart.

A row is a model at a size with one adaptation. A column is a task in one version on one data set. A cell holds the
seeds of a row on a column. Everything that is left out or could mislead is reported in ``notes``.
"""

import json
import math
import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ptmbench.leaderboard.records.record import Draw, Record, draw_of
from ptmbench.leaderboard.scores import overlap
from ptmbench.leaderboard.scores.ranks import Rank, ranks, simultaneous_confidence
from ptmbench.leaderboard.scores.words import words_of
from ptmbench.leaderboard.stats import Error, Interval, Summary, error, from_examples, mean_of, summarise, units
from ptmbench.leaderboard.text import decimals_of

FORMS_WITHOUT_ADAPTATION = ("language_modelling", "minimal_pair")
"""Forms whose tasks use a model without an adaptation."""
_SEED = re.compile(r" --((?:pretraining-)?seed) (\d+)(?=\s|$)")


def tokenizer_of(record: Record) -> str | None:
    """Returns the SHA-256 of the tokenizer of ``record``; None if it is unknown, or if there is none."""
    return ((record.pretraining or record.row).get("tokenizer") or {}).get("sha256")


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """One row of the board. ``part`` distinguishes rows that would otherwise look the same, by corpus for example.
    Rows and columns are keys of all cells. They are compared and looked up by identity."""

    name: str
    label: str
    size: str
    kind: str
    division: str
    adaptation: str
    part: str = ""
    extra_encoders: Hashable | None = None
    """The identity of the pre-trainings of the extra encoders, from the records."""
    records: tuple[Record, ...] = field(default=(), repr=False)

    @cached_property
    def words(self) -> str:
        """Size, kind and adaptation in words: the second line under the label."""
        return words_of(self)

    @cached_property
    def title(self) -> str:
        return f"{self.label} ({self.words})"

    @cached_property
    def transform(self) -> dict[str, Any]:
        """The transform that changed the adapted model before it was scored; {} without one."""
        return next((record.adaptation.get("transform") or {} for record in self.records), {})

    @cached_property
    def teacher(self) -> dict[str, Any]:
        """The adapted model that taught the task: its name, size, adaptation and cost; {} without one."""
        return next((one for record in self.records if isinstance(one := record.adaptation.get("teacher"), dict)), {})

    @cached_property
    def pretraining_teacher(self) -> dict[str, Any]:
        """The model that taught in pre-training: its model, size, hash and cost; {} without one."""
        found = ((record.pretraining or {}).get("teacher") for record in self.records)
        return next((one for one in found if isinstance(one, dict)), {})

    @cached_property
    def compression(self) -> tuple[str, ...]:
        """Kinds of compression of the adapted model, as keys of `leaderboard.survey.reported.COMPRESSION`: by a teacher
        of the task, by the adaptation, or else by a teacher in pre-training; and by transforms."""
        usual = "distillation" if self.pretraining_teacher else ""
        own = next(filter(None, (record.adaptation.get("compression") for record in self.records)), usual)
        kinds = ["distillation" if self.teacher else str(own), *str(self.transform.get("compression") or "").split("+")]
        return tuple(dict.fromkeys(filter(None, kinds)))

    @property
    def student(self) -> bool:
        """Whether the model is a student as it was adapted, of a teacher of the task or in pre-training."""
        return not self.transform and "distillation" in self.compression

    @cached_property
    def card(self) -> dict[str, Any]:
        """The model's card. The scores reported by its paper are left out for a transformed model."""
        card = next((record.row["card"] for record in self.records if record.row["card"]), {})
        return card | {"reported": ()} if card and self.transform else card

    @cached_property
    def tokenizer(self) -> str | None:
        return next(filter(None, map(tokenizer_of, self.records)), None)

    @cached_property
    def tuning(self) -> dict[str, Any]:
        """The tuning of the adaptation, the same for all records that have one: "trials" and "flops"; {} without
        tuning."""
        return next(filter(None, (record.adaptation.get("tuning") for record in self.records)), {})


@dataclass(frozen=True, kw_only=True, eq=False)
class Column:
    """A task in one version on one data set."""

    task: dict[str, Any]
    part: str = ""
    key: str

    @property
    def official(self) -> bool:
        """Whether the data is the complete official data set. Microworld, for example, writes other data in the same
        format."""
        return (self.task.get("source") or "official") == "official"

    @cached_property
    def title(self) -> str:
        """The task's title with the part that distinguishes the column, and the source of the data if it is not
        official."""
        title = f"{self.task['title']} ({self.part})" if self.part else self.task["title"]
        return title if self.official else f"{title} [{self.task['source']}]"

    @property
    def averaged(self) -> bool:
        """Whether the column may be averaged. Headlines that rise with quality are in percent, perplexity is not.
        Scores under a condition are not averaged, because the average is over tasks."""
        return self.task["higher_is_better"] and not self.task.get("condition")

    @property
    def decimals(self) -> int:
        """Decimals of the headline."""
        return decimals_of(self.task)

    @property
    def bounds(self) -> Interval:
        """Lowest and highest possible headline. Correlations can be negative, perplexity has no upper bound."""
        return bounds_of(self.task)


def bounds_of(task: Mapping[str, Any]) -> Interval:
    """Returns the lowest and the highest possible score, from the ``task`` part of a record."""
    if not task["higher_is_better"]:
        return Interval(0.0, math.inf)
    signed = any(word in task["headline"] for word in ("mcc", "pearson", "spearman"))
    return Interval(-100.0 if signed else 0.0, 100.0)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The records of one row on one column; at least one record."""

    records: tuple[Record, ...]

    @cached_property
    def ok(self) -> tuple[Record, ...]:
        return tuple(record for record in self.records if record.status == "ok")

    @cached_property
    def values(self) -> dict[Draw, float]:
        """Scores by draw: the seeds of the pre-trainings, and the record's own seed."""
        return {draw_of(record): float(record.headline["value"]) for record in self.ok}

    @cached_property
    def pretrainings(self) -> int:
        """Number of pre-trainings of the model with a score here; 1 for a model that is not pre-trained."""
        return len({pretraining for pretraining, _ in self.values})

    def at(self, draws: Collection[Draw]) -> dict[Draw, float]:
        """Returns the values at the seeds of ``draws``. A pre-trained model without an adaptation has no seed of its
        own. Its one value per pre-training is repeated for all seeds. Its random twin draws its weights by the seed."""
        seeds = {seed for _, seed in draws}
        one = self.ok[0] if self.ok else None
        unadapted = one and one.task.get("form") in FORMS_WITHOUT_ADAPTATION and one.row["kind"] != "random"
        if unadapted and len(self.values) == self.pretrainings:
            return {(made, seed): value for (made, _), value in self.values.items() for seed in sorted(seeds)}
        return {draw: value for draw, value in self.values.items() if draw[1] in seeds}

    @cached_property
    def summary(self) -> Summary:
        """The summary over seeds, or over the means of pre-trainings if there are several."""
        return summarise(units(self.values))

    @property
    def decimals(self) -> int:
        """Decimals of the cell's numbers."""
        return decimals_of(self.records[0].task)

    @property
    def drawn(self) -> str:
        """The draws behind the summary, in words: "3 seeds", "2 pre-trainings, 3 seeds each"."""
        return drawn_words(self.values)

    @cached_property
    def examples(self) -> float:
        """Variance of the score over examples; NaN if a record has no interval."""
        return from_examples(
            [Interval(_float(score["low"]), _float(score["high"])) for score in (one.headline for one in self.ok)]
        )

    @cached_property
    def error(self) -> Error:
        return error(self.summary, self.examples)

    @cached_property
    def interval(self) -> Interval:
        """The 95 % interval over new seeds and new examples, within the metric's bounds. For one seed, its interval
        over examples."""
        if self.summary.n == 1:
            return Interval(_float(self.ok[0].headline["low"]), _float(self.ok[0].headline["high"]))
        return self.error.around(self.summary.mean).within(bounds_of(self.ok[0].task) if self.ok else _ANYWHERE)

    @property
    def covers(self) -> str:
        """The sources of chance that the interval covers, in words; "" without an interval."""
        if not self.ok or not all(map(math.isfinite, self.interval)):
            return ""
        if self.summary.n == 1:
            return "examples"
        if self.pretrainings > 1:
            return "pre-trainings, seeds and examples" if math.isfinite(self.examples) else "pre-trainings and seeds"
        seeds = "seeds and examples" if math.isfinite(self.examples) else "seeds"
        return f"adaptation {seeds}, one pre-training" if any(one.pretraining for one in self.ok) else seeds

    @property
    def blank(self) -> tuple[str, str] | None:
        """The code and the sentence that say why there is no score; None if there is one."""
        return None if self.ok else (self.records[0].reason["code"], self.records[0].reason["text"])

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """Notes on the score, as short phrases: "1 of 3 seeds diverged"."""
        if not self.ok:
            return ()
        n, bad = len(self.records), [record.status for record in self.records if record.status != "ok"]
        marks = [f"{bad.count(one)} of {n} seeds {one.replace('_', ' ')}" for one in sorted(set(bad))]
        # Records that were read together share equal settings, so in most cells the ids alone show that they agree.
        settings = {id(one): one for one in (record.adaptation["settings"] for record in self.ok)}.values()
        if len(settings) > 1 and len({_canonical(one) for one in settings}) > 1:
            marks.append("settings differ between seeds")
        if len({record.adaptation.get("version", 1) for record in self.ok}) > 1:
            marks.append("versions of the adaptation differ between seeds")
        return (*marks, *filter(None, [overlap.cell_mark(self.ok)]))

    @cached_property
    def commands(self) -> tuple[str, ...]:
        """The commands that repeat the cell. If they differ by their seeds alone, and the seeds run from 0 without
        gaps, it is one equivalent command with ``--seeds`` and ``--pretraining-seeds``."""
        given = [(record.seed, record.command) for record in self.records if record.command]
        commands = [command for _, command in given]
        drawn = [_SEED.findall(command) for command in commands]
        own = all(
            len(found) == len(dict(found)) and dict(found).get("seed") == str(seed)
            for (seed, _), found in zip(given, drawn, strict=True)
        )
        if len(set(commands)) > 1 and own and len({_SEED.sub(r" --\1s", command) for command in commands}) == 1:
            counts = {name: len({dict(found)[name] for found in drawn}) for name, _ in drawn[0]}
            ranges = {name: {str(i) for i in range(n)} for name, n in counts.items()}
            if len(set(commands)) == math.prod(counts.values()) and all(
                value in ranges[name] for found in drawn for name, value in found
            ):
                return (_SEED.sub(lambda found: f" --{found[1]}s {counts[found[1]]}", commands[0]),)
        return tuple(dict.fromkeys(commands))


def drawn_words(draws: Collection[Draw]) -> str:
    """Returns the numbers of pre-trainings and seeds in ``draws``: "3 seeds", "2 pre-trainings, 3 seeds each"."""
    pretrainings = len({pretraining for pretraining, _ in draws})
    n = len(draws) / max(pretrainings, 1)
    if pretrainings > 1:
        return f"{pretrainings} pre-trainings, {n:.3g} seed{'s' * (n != 1)} each"
    return f"{n:.0f} seed{'s' * (n != 1)}"


_ANYWHERE = Interval(-math.inf, math.inf)
NO_SEED = "no seed has every task"
"""Why a row with a score on every task has no average."""
NOT_RUN = ("not-run", "No record of this cell was found.")


@dataclass(frozen=True, kw_only=True)
class Grid:
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    cells: dict[tuple[Row, Column], Cell]
    notes: tuple[str, ...] = ()

    @cached_property
    def averaged(self) -> tuple[Column, ...]:
        """The columns of the average. If a task has several versions, it is the one with most rows."""
        best: dict[str, Column] = {}
        for column in (column for column in self.columns if column.averaged):
            rival = best.get(column.task["name"])
            if rival is None or self._filled(column) > self._filled(rival):
                best[column.task["name"]] = column
        return tuple(column for column in self.columns if column in best.values())

    def macro(self, row: Row) -> dict[Draw, float]:
        """Returns the average over all averaged columns for every draw of seeds that has them all; {} for an incomplete
        row."""
        return self._macros[row]

    @cached_property
    def _macros(self) -> dict[Row, dict[Draw, float]]:
        return {row: self._macro(row) for row in self.rows}

    def _macro(self, row: Row) -> dict[Draw, float]:
        cells = [self.cells.get((row, column)) for column in self.averaged]
        if not cells or any(cell is None or not cell.ok for cell in cells):
            return {}
        draws = set.intersection(*(set(cell.values) for cell in cells))
        return {draw: mean_of([cell.values[draw] for cell in cells]) for draw in sorted(draws)}

    def definition(self) -> str:
        """Returns a description of the average."""
        titles = ", ".join(f"{column.title} ({column.task['headline']})" for column in self.averaged)
        left = [column.title for column in self.columns if column not in self.averaged]
        further = ", or under a condition" if any(one.task.get("condition") for one in self.columns) else ""
        out = f" Not in it: {', '.join(left)} (lower is better, or another version of a task{further})." if left else ""
        if len(self.averaged) == 1:
            return f"Average: of one task, {titles}.{out}"
        mean = f"Average: unweighted mean of the headlines of {len(self.averaged)} tasks: {titles}. It is taken"
        return f"{mean} seed by seed, and only for rows with a score on every one of these tasks.{out}"

    def macro_summary(self, row: Row) -> Summary:
        return self._macro_summaries[row]

    @cached_property
    def _macro_summaries(self) -> dict[Row, Summary]:
        return {row: summarise(units(self.macro(row))) for row in self.rows}

    def macro_error(self, row: Row) -> Error:
        """Returns the error of the average over seeds and examples. Examples of different data are independent. Errors
        of tasks on the same data (the coarse and the fine classes of the same questions) are taken as perfectly
        correlated, which is the worst case."""
        return self._macro_errors[row]

    @cached_property
    def _macro_errors(self) -> dict[Row, Error]:
        return {row: self._macro_error(row) for row in self.rows}

    def _macro_error(self, row: Row) -> Error:
        return error(self.macro_summary(row), self.macro_examples(row))

    def macro_examples(self, row: Row) -> float:
        """Returns the variance of the average over examples; NaN for an incomplete row."""
        if not self.macro(row):
            return math.nan
        by_data: dict[str, float] = {}
        for column in self.averaged:
            data = column.task["data_sha256"] or column.key
            by_data[data] = by_data.get(data, 0.0) + math.sqrt(self.cells[row, column].examples)
        return math.fsum(one**2 for one in by_data.values()) / len(self.averaged) ** 2

    def macro_interval(self, row: Row) -> Interval:
        return self.macro_error(row).around(self.macro_summary(row).mean).within(self.macro_bounds)

    @cached_property
    def macro_bounds(self) -> Interval:
        """Lowest and highest possible average."""
        ends = zip(*(column.bounds for column in self.averaged), strict=True)
        return Interval(*(math.fsum(one) / len(one) for one in ends)) if self.averaged else _ANYWHERE

    def ranks(self, column: Column | None = None) -> dict[Row, Rank]:
        """Returns the intervals of ranks on one column, or on the average (None), which only complete rows have."""
        if column not in self._ranks:
            better = column is None or column.task["higher_is_better"]
            self._ranks[column] = ranks(self.rank_intervals(column), better)
        return self._ranks[column]

    @cached_property
    def _ranks(self) -> dict[Column | None, dict[Row, Rank]]:
        return {}

    def rank_intervals(self, column: Column | None = None) -> dict[Row, Interval]:
        """Returns the intervals behind the ranks, best mean first. They are wide enough to hold all true means at
        once."""
        if column is None:
            found = {row: (self.macro_summary(row).mean, self.macro_error(row)) for row in self.rows}
        else:
            cells = {row: cell for row in self.rows if (cell := self.cells.get((row, column)))}
            found = {row: (cell.summary.mean, cell.error) for row, cell in cells.items()}
        known = {row: one for row, one in found.items() if math.isfinite(one[0])}
        sign = 1 if column is None or column.task["higher_is_better"] else -1
        confidence = simultaneous_confidence(len(known))
        ordered = sorted(known, key=lambda row: -sign * known[row][0])
        return {row: known[row][1].around(known[row][0], confidence) for row in ordered}

    def _filled(self, column: Column) -> int:
        return sum(1 for row in self.rows if (cell := self.cells.get((row, column))) and cell.ok)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _float(value: float | None) -> float:
    return math.nan if value is None else float(value)
