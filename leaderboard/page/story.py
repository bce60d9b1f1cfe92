"""The top of a board: one sentence and two pictures, computed from the records.

All statements follow from `leaderboard.scores.contrast`. The text says that a row leads, differs from others, or gained
from pre-training only as far as the 95 % intervals show it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ptmbench.leaderboard.page import pictures
from ptmbench.leaderboard.scores.contrast import Gap, Sample, gap, not_worse, samples
from ptmbench.leaderboard.scores.grid import Column, Grid, Row
from ptmbench.leaderboard.scores.twins import twin_rows
from ptmbench.leaderboard.scores.words import adaptation_of, metric_of
from ptmbench.leaderboard.stats import Interval
from ptmbench.leaderboard.text import JOINT

_MOST_NAMED = 3
"""Most rows that are named in a sentence; more are counted."""
_ORACLE = "oracle"
"""The baseline that reads the gold answers. It is an upper bound, so it is not ranked."""


@dataclass(frozen=True)
class PretrainingGain:
    """The effect of pre-training on one row: the score of the row minus the score of its random twin. Positive is
    better, even if lower scores are better."""

    row: Row
    gap: Gap


@dataclass(frozen=True)
class Story:
    """The findings on one measure: the average, or a task if too few rows have an average."""

    grid: Grid
    column: Column | None

    @cached_property
    def samples(self) -> dict[Row, Sample]:
        """The rows with a score, best mean first."""
        found = samples(self.grid, self.column)
        return dict(sorted(found.items(), key=lambda item: (-self._sign * item[1].mean, item[0].title)))

    @cached_property
    def compared(self) -> dict[Row, Sample]:
        """The rows that the headline compares: all but the upper bound."""
        found = {row: one for row, one in self.samples.items() if (row.kind, row.name) != ("baseline", _ORACLE)}
        return found or self.samples

    @cached_property
    def leading(self) -> set[Row]:
        """The rows that are not shown to be worse than the best."""
        return not_worse(self.compared, self._sign > 0)

    @cached_property
    def gains(self) -> list[PretrainingGain]:
        """The gains of all rows with a random twin, largest first."""
        found = []
        for row, twin in twin_rows(self.grid):
            if row in self.samples and twin in self.samples:
                difference = gap(self.samples[row], self.samples[twin])
                found.append(PretrainingGain(row, difference if self._sign > 0 else _reversed(difference)))
        return sorted(found, key=lambda one: (-one.gap.value, one.row.title))

    @cached_property
    def names(self) -> dict[Row, str]:
        """A short name for each row: its label, and the words that distinguish it from the other rows."""
        return short_names([row for row in self.grid.rows if row in self.samples])

    @property
    def measure(self) -> str:
        """The measure in words: "the average of 8 tasks", "CoLA (Matthews correlation)"."""
        if self.column is not None:
            return f"{self.column.title} ({metric_of(self.column.task['headline'])})"
        averaged = self.grid.averaged
        if len(averaged) == 1:
            return f"{averaged[0].title} ({metric_of(averaged[0].task['headline'])})"
        return f"the average of {len(averaged)} tasks"

    def headline(self) -> str:
        """Returns one sentence: the leading row, whether it differs from the others, and the effect of pre-training; ""
        without a score."""
        if not self.samples:
            return ""
        return "; ".join(filter(None, (self._lead(), self._ceiling(), self._gain()))) + "."

    @property
    def decimals(self) -> int:
        if self.column is not None:
            return self.column.decimals
        return self.grid.averaged[0].decimals if len(self.grid.averaged) == 1 else 1

    @property
    def _sign(self) -> int:
        return 1 if self.column is None or self.column.task["higher_is_better"] else -1

    def _lead(self) -> str:
        best, others = next(iter(self.compared)), len(self.compared) - 1
        score = self._number(self.compared[best].mean, self.compared[best].interval)
        if not others:
            return f"{self.names[best]} has {score} on {self.measure}, and there is no other row to compare it with"
        leads = f"{self.names[best]} leads on {self.measure} with {score}"
        near = [row for row in self.compared if row in self.leading and row is not best]
        if not near:
            beaten = "the other row" if others == 1 else f"each of the {others} other rows"
            return f"{leads} and is shown to be better than {beaten}"
        if len(near) == others:
            rest = "the other row" if others == 1 else f"any of the {others} other rows"
            return f"{leads}, but is not shown to be better than {rest}"
        named = _listed([self.names[row] for row in near]) if len(near) <= _MOST_NAMED else ""
        if not named:
            return f"{leads}, but {len(near)} of the {others} other rows are not shown to be worse"
        return f"{leads}, but {named} {'is' if len(near) == 1 else 'are'} not shown to be worse"

    def _ceiling(self) -> str:
        """Returns words on the score of the baseline that reads the gold answers; "" without one."""
        found = [row for row in self.samples if row not in self.compared]
        if not found:
            return ""
        sample = self.samples[found[0]]
        score = self._number(sample.mean, sample.interval)
        return f"the baseline “{self.names[found[0]]}”, which reads the gold answers, reaches {score}"

    def _gain(self) -> str:
        if not self.gains:
            return ""
        most, n = self.gains[0], len(self.gains)
        name, amount = self.names[most.row], self._number(most.gap.value, most.gap.interval, True)
        up, down = (sum(which) for which in zip(*((one.gap.above, one.gap.below) for one in self.gains), strict=True))
        if n == 1:
            effect = "helped" if up else "harmed" if down else "had no clear effect on"
            return f"pre-training {effect} {name}: {amount}"
        counts = [f"helped {up or 'none'} of {n} rows"] + ([f"harmed {down}"] if down else [])
        counts += [f"had no clear effect on {n - up - down}"] if 0 < up + down < n else []
        return (
            f"pre-training {_listed(counts)}, with the {'largest gain' if up else 'best change'} for {name}: {amount}"
        )

    def _number(self, value: float, interval: Interval, signed: bool = False) -> str:
        """Returns a score such as "48.2 (46.5 to 50.0)". A difference of percentages has the unit "points"."""
        points = signed and (self.column is None or self.column.averaged)
        return pictures.with_interval(value, interval, self.decimals, signed, " points" if points else "")


def section(grid: Grid, costs: Mapping[Row, Mapping[str, Any]], ids: Mapping[Row, str]) -> dict[str, Any]:
    """Returns the story of ``grid`` as plain values for the template. ``ids`` are the anchors of the rows on the
    page."""
    story = Story(grid, _measure(grid))
    points = []
    for row, sample in story.samples.items():
        if spent := _seconds(row, costs[row]):
            kind = "random" if row.kind == "random" else "baseline" if row.kind == "baseline" else "model"
            points.append(
                pictures.ScatterPoint(
                    name=story.names[row], cost=spent, score=sample.mean, interval=sample.interval, kind=kind,
                    link=ids[row],
                )
            )  # fmt: skip
    bars = [
        pictures.Bar(
            name=story.names[one.row], value=one.gap.value, interval=one.gap.interval, link=ids[one.row],
            excludes_zero=one.gap.above or one.gap.below,
        )
        for one in story.gains
    ]  # fmt: skip
    plane = pictures.scatter(points, story.decimals, story._sign > 0) if len(points) > 1 else ""
    return {
        "headline": story.headline(),
        "measure": story.measure,
        "plane": plane,
        "unnamed": plane and len(points) - plane.count('class="label"'),
        "lower": story._sign < 0,
        "kinds": sorted({one.kind for one in points}),
        "forest": pictures.forest(bars, story.decimals) if bars else "",
        "twins": len(bars),
        "rows": len(story.samples),
    }


def short_names(rows: Sequence[Row]) -> dict[Row, str]:
    """Returns a unique name for each row: its label, and those of size, weights, adaptation, transform and part that
    differ between rows. If that is not unique, it is the full title."""
    nets = [row for row in rows if row.kind != "baseline"]
    sizes, adaptations = {row.size for row in nets}, {adaptation_of(row) for row in nets}
    names = {}
    for row in rows:
        words = [row.size] if len(sizes) > 1 else []
        words += ["random"] if row.kind == "random" and "random" not in row.label else []
        words += [adaptation_of(row)] if len(adaptations) > 1 else []
        words += [str(row.transform.get("label") or ""), row.part]
        own = words if row.kind != "baseline" else [row.part]
        names[row] = JOINT.join(filter(None, (row.label, *own)))
    counts = Counter(names.values())
    return {row: name if counts[name] == 1 else row.title for row, name in names.items()}


def _measure(grid: Grid) -> Column | None:
    """Returns None, for the average, if at least two rows have one, or if no task has more rows. Otherwise returns the
    task with most rows."""
    averages = len(samples(grid))
    counts = {column: len(samples(grid, column)) for column in grid.columns}
    most = max(counts.values(), default=0)
    if averages >= 2 or averages == most or not most:
        return None
    return next(column for column in grid.columns if counts[column] == most)


def _seconds(row: Row, cost: Mapping[str, Any]) -> float | None:
    """Returns the seconds of pre-training, if the row was pre-trained here, plus those of one task; None if a part is
    not known."""
    parts = [cost["seconds per cell"]] + ([cost["pre-training seconds"]] if row.kind == "pretrained" else [])
    return sum(parts) if all(parts) else None


def _reversed(one: Gap) -> Gap:
    return Gap(-one.value, Interval(-one.interval.high, -one.interval.low))


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
