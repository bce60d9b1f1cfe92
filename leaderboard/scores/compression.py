"""Compares compressed models: how much of the reference model's score they keep, and what they cost.

A line is a row of the board that was compressed, by a transform or by learning from a teacher, or a row that it is
compared with. Figures of latency and memory come from `cost.inference` of records, which only some runs measure.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ptmbench.leaderboard.records.layout import is_number
from ptmbench.leaderboard.records.record import Record
from ptmbench.leaderboard.scores.contrast import Gap, Sample, gap, samples
from ptmbench.leaderboard.scores.costs import cost_of, spent_on
from ptmbench.leaderboard.scores.grid import Column, Grid, Row
from ptmbench.leaderboard.scores.retention import Retention, reference_rows, retention
from ptmbench.leaderboard.stats import mean_of

BATCHES = ("1", "8", "32")
LEAST_SHARE = 0.95
"""Share of a core below which a latency measurement counts as disturbed by other work."""
WIDEST = 0.1
"""Distance between the quartiles, as a share of the median, above which a measurement counts as disturbed."""
SAME_COST = 1.25
"""Factor up to which two total costs count as the same."""
SAME_SIZE = 1.25
"""Factor up to which networks with other names have as many parameters."""
_MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Seconds per batch: the median over a row's records of their medians, and of their quartiles."""

    median: float
    low: float
    high: float
    processor: float | None
    """The median of processor time, which does not include waits for other work; None if it was not measured."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CompressedRow:
    """The measurements of one row, on one task or on the average."""

    row: Row
    reference: Row | None
    """The row that the score is compared with: the teacher, the model before its transforms, or plain fine-tuning."""
    column: Column | None
    """None for the average."""
    sample: Sample | None
    retention: Retention | None
    above_chance: Retention | None
    """The retention with both scores counted from chance."""
    figures: Mapping[str, Any]
    """`leaderboard.scores.costs.cost_of` for the records of this task."""
    latency: Mapping[str, Latency]
    """By batch size; {} if it was not measured."""
    noise: str
    """Why the latency is disturbed, or could not be measured; "" if it is not known to be disturbed."""
    memory: float | None
    """MiB that loading and inference need beyond the libraries."""
    flops_per_example: float | None
    own_flops: float | None
    """FLOPs of the compression: of the transforms, or of the student's training including queries to its teacher, with
    its pre-training if that is where it learned from the teacher."""
    own_seconds: float | None
    teacher_flops: float | None
    """FLOPs of the teacher: its pre-training, and its adaptation if it taught the task; 0 without a teacher."""
    total_flops: float | None
    """FLOPs of everything: pre-training, adaptation, transforms, and the teacher's share."""
    speed_up: float | None
    """Latency of the reference at batch 1, divided by the row's; in processor time if it was measured."""
    shrinkage: float | None
    """Bytes on disk of the reference, divided by the row's."""
    peer: Row | None = None
    """The row of the same network that was trained without a teacher at the same total cost; for students only. For
    students in pre-training, whose networks often have a name of their own, a network with as many parameters."""
    gap: Gap | None = None
    """The score of the row minus the score of ``peer``."""

    @property
    def kind(self) -> str:
        """Kinds of compression, joined by "+"; "" for a row that others are compared with."""
        return "+".join(self.row.compression)

    @property
    def lack(self) -> str:
        """Why there is no retention; "" if there is one, and for a row that others are compared with."""
        if self.retention or not self.kind:
            return ""
        if self.reference:
            return "no seed on both sides" if self.sample else "no score"
        return "its teacher has no row here" if self.row.student else "no row to compare with"

    @property
    def verdict(self) -> str:
        """Whether the student beats the plain model of the same cost; "" for rows that are not students."""
        if not self.row.student:
            return ""
        if self.gap is None:
            return "no plain model of the same cost"
        sign = 1 if self.column is None or self.column.task["higher_is_better"] else -1
        better, worse = (self.gap.above, self.gap.below)[::sign]
        return "better" if better else "worse" if worse else "not shown to differ"


def compressed(grid: Grid, column: Column | None = None) -> list[CompressedRow]:
    """Returns the lines of ``grid`` on ``column``, or on the average (None), in the order of its rows; [] if no row was
    compressed."""
    references = reference_rows(grid)
    made = [row for row in grid.rows if row.compression]
    if not made:
        return []
    plain = [row for row in grid.rows if not row.compression and row.kind != "baseline"]
    peers = {row: _peer(row, plain) for row in made if row.student}
    shown = {*made, *references.values(), *filter(None, peers.values())}
    found = samples(grid, column)
    return [_line(grid, row, references.get(row), column, found, peers.get(row)) for row in grid.rows if row in shown]


def table_lines(grid: Grid) -> list[dict[str, Any]]:
    """Returns the lines of `compressed` on the average and on each task as numbers, for tables: {head: value}, with the
    same heads for all lines. The head "row" has the row."""
    several = [None] if len(grid.averaged) > 1 else []
    columns = [*several, *(column for column in grid.columns if not column.task.get("condition"))]
    return [_numbers(line) for column in columns for line in compressed(grid, column) if line.sample]


def _numbers(line: CompressedRow) -> dict[str, Any]:
    figures, reference, peer = line.figures, line.reference, line.peer
    found: dict[str, Any] = {
        "row": line.row,
        "task": line.column.title if line.column else "average",
        "compression": line.kind,
        "seeds": len(line.sample.values) if line.sample else 0,
        "score": line.sample.mean if line.sample else None,
        "compared with": reference.title if reference else "",
    }
    for name, one in (("retention %", line.retention), ("retention above chance %", line.above_chance)):
        low, high = one.interval if one else (None, None)
        found |= {name: one.value if one else None, f"{name} low": low, f"{name} high": high}
    found["examples paired"] = "" if line.retention is None else "yes" if line.retention.paired else "no"
    for name in ("bits per weight", "zero weights", "parameters", "disk MiB", "compressed MiB"):
        found[name] = figures[name]
    found["FLOPs per example"] = line.flops_per_example
    for size in BATCHES:
        one, name = line.latency.get(size), f"seconds at batch {size}"
        found |= {name: one and one.median, f"{name} low": one and one.low, f"{name} high": one and one.high}
        found[f"processor {name}"] = one and one.processor
    found |= {
        "speed-up": line.speed_up,
        "times as small": line.shrinkage,
        "latency note": line.noise,
        "memory MiB": line.memory,
        "compressing FLOPs": line.own_flops,
        "compressing FLOPs with teacher": _sum(line.own_flops, line.teacher_flops),
        "compressing seconds": line.own_seconds,
        "total FLOPs": line.total_flops,
        "plain model of the same cost": peer.title if peer else "",
        "difference": line.gap.value if line.gap else None,
        "difference low": line.gap.interval.low if line.gap else None,
        "difference high": line.gap.interval.high if line.gap else None,
        "than the plain model": line.verdict,
    }
    return found


def _sum(first: Any, second: Any) -> float | None:
    return first + second if is_number(first) and is_number(second) else None


def total_flops(row: Row) -> float | None:
    """Returns the mean over the cells of ``row`` of all FLOPs that led to a score; None if a part is unknown."""
    totals = [_total(record) for record in row.records if record.status == "ok"]
    return mean_of(totals) if totals and None not in totals else None  # type: ignore[arg-type]


def _line(
    grid: Grid,
    row: Row,
    reference: Row | None,
    column: Column | None,
    found: Mapping[Row, Sample],
    peer: Row | None,
) -> CompressedRow:
    columns = grid.columns if column is None else (column,)
    records = _records(grid, row, columns)
    latency, noise = _latency(records)
    costs = [_own_cost(record) for record in records] if row.compression else []
    teacher_flops = [_sum(_teacher_flops(record), _pretraining_teacher_flops(record)) for record in records]
    totals = [_total(record) for record in records]
    theirs = _records(grid, reference, columns) if reference else []
    figures, other = cost_of(row, records), cost_of(reference, theirs) if reference else {}
    kept = {above: retention(grid, row, reference, column, above) if reference else None for above in (False, True)}
    return CompressedRow(
        row=row,
        reference=reference,
        column=column,
        sample=found.get(row),
        retention=kept[False],
        above_chance=kept[True],
        figures=figures,
        latency=latency,
        noise=noise,
        memory=_memory(records),
        flops_per_example=_mean([record.cost.get("flops_per_example") for record in records]),
        own_flops=_mean([cost.get("flops") for cost in costs]),
        own_seconds=_mean([_part(cost.get("seconds")).get("total") for cost in costs]),
        teacher_flops=_mean(teacher_flops) if None not in teacher_flops else None,
        total_flops=_mean(totals) if None not in totals else None,
        speed_up=_ratio(_latency(theirs)[0].get("1"), latency.get("1")),
        shrinkage=_quotient(other.get("disk MiB"), figures["disk MiB"]),
        peer=peer,
        gap=gap(found[row], found[peer]) if peer and row in found and peer in found else None,
    )


def _records(grid: Grid, row: Row, columns: Sequence[Column]) -> list[Record]:
    """Returns the records of ``row`` with a score on ``columns``, without conditions."""
    cells = [cell for one in columns if (cell := grid.cells.get((row, one))) and not one.task.get("condition")]
    return [record for cell in cells for record in cell.ok]


def _ratio(theirs: Latency | None, ours: Latency | None) -> float | None:
    """Returns the speed-up. It uses processor time, which other work disturbs less, if both have it."""
    if not (theirs and ours):
        return None
    return _quotient(theirs.processor, ours.processor) or _quotient(theirs.median, ours.median)


def _quotient(first: float | None, second: float | None) -> float | None:
    return first / second if first and second else None


def _peer(row: Row, plain: Sequence[Row]) -> Row | None:
    """Returns the row among ``plain`` that has the network of the student ``row`` and the nearest total cost. None if
    that cost differs by more than the factor `SAME_COST`."""
    cost = total_flops(row)
    if not cost:
        return None
    ratios = {
        one: abs(math.log(spent / cost)) for one in plain if _same_network(one, row) and (spent := total_flops(one))
    }
    best = min(ratios, key=lambda one: ratios[one], default=None)
    return best if best and ratios[best] <= math.log(SAME_COST) else None


def _same_network(plain: Row, student: Row) -> bool:
    if plain.name.removeprefix("random-") == student.name.removeprefix("random-"):
        return plain.size == student.size
    fewer, more = sorted(cost_of(row)["parameters"] or 0 for row in (student, plain))
    return 0 < more <= SAME_SIZE * fewer and not student.teacher


def _own_cost(record: Record) -> Mapping[str, Any]:
    """Returns the cost of compressing: of the transforms, or of all training if the adaptation itself compresses. For a
    student in pre-training, its pre-training is added."""
    adaptation = record.adaptation
    if adaptation.get("teacher") or adaptation.get("compression"):
        return record.cost
    if made := _taught(record):
        seconds = _part(record.cost.get("seconds")).get("total")
        flops = _sum(made.get("flops"), record.cost.get("flops"))
        return {"flops": flops, "seconds": {"total": _sum(made.get("seconds"), seconds)}}
    return _part(_part(adaptation.get("transform")).get("cost"))


def _taught(record: Record) -> Mapping[str, Any]:
    """Returns the pre-training of ``record`` if a teacher took part in it and no transform followed; {} otherwise."""
    made = _part(record.pretraining)
    return made if _part(made.get("teacher")) and not record.adaptation.get("transform") else {}


def _pretraining_teacher_flops(record: Record) -> float | None:
    """Returns the FLOPs of the teacher in pre-training; 0 without one."""
    if not (made := _taught(record)):
        return 0.0
    whole, own = spent_on(made).get("flops"), made.get("flops")
    return whole - own if is_number(whole) and is_number(own) else None


def _total(record: Record) -> float | None:
    pretraining = spent_on(record.pretraining).get("flops") if record.pretraining else 0.0
    parts = [pretraining, record.cost.get("flops"), _teacher_flops(record)]
    return math.fsum(parts) if all(map(is_number, parts)) else None


def _teacher_flops(record: Record) -> float | None:
    """Returns the FLOPs of the teacher behind ``record``, with its pre-training and its fine-tuning on auxiliary tasks;
    0 without a teacher."""
    teacher = record.adaptation.get("teacher")
    if not isinstance(teacher, Mapping):
        return 0.0
    made = teacher.get("pretraining")
    adapted = (teacher, *map(_part, _part(teacher.get("auxiliary")).values()))
    parts = [_part(one.get("cost")).get("flops") for one in adapted]
    parts += [spent_on(made).get("flops") if isinstance(made, Mapping) else 0.0]
    return math.fsum(parts) if all(map(is_number, parts)) else None


def _latency(records: Sequence[Record]) -> tuple[dict[str, Latency], str]:
    """Returns the latency of ``records`` by batch size, and why it is disturbed. Disturbed measurements count only if
    there are no others."""
    measured = [one for record in records if (one := _part(record.cost.get("inference")))]
    measured = [one for one in measured if _times([one]) and not _noise([one])] or measured
    return _times(measured), _noise(measured)


def _times(measured: Sequence[Mapping[str, Any]]) -> dict[str, Latency]:
    found = {}
    for size in BATCHES:
        each = [_part(_part(one.get("latency")).get(size)) for one in measured]
        known = [one for one in each if all(is_number(one.get(name)) for name in ("median", "low", "high"))]
        if known:
            wall = {name: median(one[name] for one in known) for name in ("median", "low", "high")}
            busy = [one["processor"] for one in known if is_number(one.get("processor"))]
            found[size] = Latency(**wall, processor=median(busy) if busy else None)
    return found


def _noise(measured: Sequence[Mapping[str, Any]]) -> str:
    if not (found := _times(measured)):
        return next((f"not measured: {one['reason']}" for one in measured if one.get("reason")), "")
    causes = []
    shares = [one["cpu_share"] for one in measured if is_number(one.get("cpu_share"))]
    if shares and min(shares) < LEAST_SHARE:
        causes.append(f"as little as {100 * min(shares):.0f} % of the core")
    loads = [
        (one["load"], one["processors"])
        for one in measured
        if is_number(one.get("load")) and is_number(one.get("processors"))
    ]
    if busy := [(load, count) for load, count in loads if load > count]:
        load, count = max(busy)
        causes.append(f"load {load:.1f} on {count} processors")
    if wide := [size for size, one in found.items() if one.high - one.low > WIDEST * one.median]:
        causes.append(f"wide quartiles at batch {', '.join(wide)}")
    return "; ".join(causes)


def _memory(records: Sequence[Record]) -> float | None:
    measured = [_part(record.cost.get("inference")) for record in records]
    ends = [(one.get("peak_memory_bytes"), one.get("memory_before_bytes")) for one in measured]
    known = [peak - before for peak, before in ends if is_number(peak) and is_number(before)]
    return median(known) / _MIB if known else None


def _part(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mean(values: Sequence[Any]) -> float | None:
    known = [value for value in values if is_number(value)]
    return mean_of(known) if known else None
