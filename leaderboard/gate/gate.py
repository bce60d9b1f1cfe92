"""The gate: compares two folders of records, BASE and HEAD, and returns a verdict per cell and overall.

A cell is a *regression* if its drop is significant and larger than the task's margin. It is a *pass* if the 95 %
interval of the drop ends below the margin. Otherwise it is *inconclusive*, and the verdict says which drop could have
been detected. The overall verdict follows from one score declared beforehand, the mean drop over all cells of models.
Every single cell is a guard: a regression of a cell makes the gate a regression, and an inconclusive cell turns a pass
into a "pass on average". Cells under a condition, cells where lower is better, and cells whose variance is unknown are
guards only. The mean is over tasks, and a task counts once in it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.leaderboard.gate import drops, margins, sides
from ptmbench.leaderboard.gate.cost import Time, compare_costs, compare_time
from ptmbench.leaderboard.gate.drops import IDENTICAL, Scorer, scoring_change
from ptmbench.leaderboard.gate.sides import Group, Side
from ptmbench.leaderboard.gate.verdicts import (
    BLANK,
    ENOUGH,
    INCONCLUSIVE,
    MISSING,
    NEW,
    NOT_COMPARABLE,
    ON_AVERAGE,
    PASS,
    REGRESSION,
    STATUS,
    Verdict,
    fisher,
    guards,
    mean_drop,
)  # fmt: skip
from ptmbench.leaderboard.records.baseline import BaselineError
from ptmbench.leaderboard.records.record import Draw, Record, RecordError
from ptmbench.leaderboard.text import clean, decimals_of


@dataclass(frozen=True, kw_only=True)
class Gate:
    verdict: str
    reason: str
    macro: Verdict | None
    cells: tuple[Verdict, ...]
    time: Time
    notes: tuple[str, ...]
    baseline: Mapping[str, Any] | None = None

    def status(self, strict: bool = False) -> int:
        """Returns the exit status."""
        status = STATUS[self.verdict]
        return 0 if status == STATUS[INCONCLUSIVE] and not strict else status


def gate(
    base: Path,
    head: Path,
    scorer: Scorer,
    chosen: Mapping[str, float] | None = None,
    stated: Mapping[str, float] | None = None,
) -> Gate:
    """Compares the records of the run folders ``base`` and ``head``.

    ``chosen`` replaces margins, {task name or "macro": points}. ``stated`` replaces the standard deviation of a score
    between pre-trainings, {task name or "all": points}.

    Raises `BaselineError` if BASE is not a run or is a baseline that was changed, and `RecordError` if HEAD is not a
    run.
    """
    try:
        ours = sides.read(base)
    except RecordError as error:
        raise error if isinstance(error, BaselineError) else BaselineError(f"BASE cannot be used: {error}") from error
    theirs = sides.read(head)
    if ours.damaged:
        raise BaselineError(f"BASE cannot be trusted: {ours.damaged[0].file}: {ours.damaged[0].reason}")
    return between(ours, theirs, scorer, chosen or {}, stated)


def between(
    ours: Side, theirs: Side, scorer: Scorer, chosen: Mapping[str, float], stated: Mapping[str, float] | None = None
) -> Gate:
    """Does the same as `gate` for sides that are already read."""
    pairs = sides.match(ours, theirs)
    found = [
        _compare(one, other, differences, ours, theirs, scorer, chosen, stated or {})
        for one, other, differences in pairs
    ]
    cells = guards(found)
    macro = mean_drop(cells, chosen.get("macro", margins.MACRO))
    comparable = [(one, other) for one, other, differences in pairs if one and other and not differences]
    time = compare_time(comparable)
    verdict, reason = overall(cells, macro, time, len(theirs.damaged))
    notes = _notes(ours, theirs, comparable)
    about = ours.baseline and {"digest": ours.baseline.digest, "reason": ours.baseline.reason}
    return Gate(verdict=verdict, reason=reason, macro=macro, cells=cells, time=time, notes=notes, baseline=about)


def _compare(
    one: Group | None,
    other: Group | None,
    differences: list[str],
    base: Side,
    head: Side,
    scorer: Scorer,
    chosen: Mapping[str, float],
    stated: Mapping[str, float],
) -> Verdict:
    """Returns the verdict of one cell without the correction for the number of cells (see `guards`)."""
    known = one or other
    about: dict[str, Any] = {
        "task": known.first.task["title"], "row": known.title, "adaptation": known.first.adaptation["name"],
        "metric": known.first.task["headline"], "data": str(known.first.task["data_sha256"]),
        "condition": (known.first.task.get("condition") or {}).get("name", ""),
        "decimals": decimals_of(known.first.task),
    }  # fmt: skip
    if one is None:
        return Verdict(verdict=NEW, reason="BASE has no such cell.", **about)
    scored = [_scored(group) for group in (one, other) if group]
    if not scored[0] and not _diverged(one):
        if len(scored) > 1 and scored[1]:
            return Verdict(verdict=NEW, reason="BASE has no score for this cell.", **about)
        text = next((record.reason["text"] for record in one.records.values() if record.reason), "")
        return Verdict(verdict=BLANK, reason=f"Neither side has a score, {text}".rstrip(", "), **about)
    if other is None:
        return Verdict(verdict=MISSING, reason="BASE has this cell, HEAD has no record of it.", **about)
    if differences:
        reason = f"HEAD and BASE differ in: {', '.join(differences)}."
        return Verdict(verdict=NOT_COMPARABLE, reason=reason, **about)
    diverged = (_diverged(one), _diverged(other))
    tested = tuple(len(own) + gone for own, gone in zip(scored, diverged, strict=True))
    about |= {"seeds": (len(scored[0]), len(scored[1])), "diverged": diverged}
    if sum(diverged):
        about["diverged_p"] = fisher((diverged[0], tested[0]), (diverged[1], tested[1]))
    about["costs"] = compare_costs(one.records, other.records)
    if changed := scoring_change(one.records, other.records):
        return Verdict(verdict=REGRESSION, reason=changed, method=IDENTICAL, rescored=True, **about | _means(scored))
    lost = [record for record in other.records.values() if record.status in ("failed", "not_applicable")]
    if not scored[1] and not diverged[1]:
        failed = lost[0]
        verdict = REGRESSION if failed.status == "failed" else MISSING
        return Verdict(verdict=verdict, reason=f"HEAD has no score: {failed.reason['text']}", **about)
    if not scored[0] or not scored[1]:
        bad = diverged[1] >= 3 and not diverged[0]
        reason = f"{diverged[0]} of {tested[0]} seeds diverged in BASE, {diverged[1]} of {tested[1]} in HEAD."
        return Verdict(verdict=REGRESSION if bad else INCONCLUSIVE, reason=reason, **about)
    task = one.first.task
    higher = task["higher_is_better"]
    about |= _means(scored)
    about["margin"] = margins.margin(task, about["base"], chosen)
    drop, notes = drops.measure(one, other, scored, (base, head), scorer, stated)
    if lost:
        about["lost"] = len(lost)
        notes = (*notes, f"{len(lost)} of {len(other.records)} seeds failed in HEAD: {lost[0].reason['text']}")
    if one.trained and drop.method != IDENTICAL and 1 < min(drop.seeds) < ENOUGH:
        what = "pre-trainings" if math.isfinite(drop.freedom_of_pretraining) else "seeds"
        notes = (*notes, f"Fewer than {ENOUGH} {what} per side detect only large drops.")
    counted = higher and one.identity[3] in ("pretrained", "published", "external") and math.isfinite(drop.variance)
    counted = counted and not known.first.task.get("condition")
    if drop.from_pretraining:
        about["weights"] = frozenset(map(str, one.weights() | other.weights()))
    return Verdict(verdict="", reason="", drop=drop, method=drop.method, notes=notes, counted=counted, **about)


def overall(cells: Sequence[Verdict], macro: Verdict | None, time: Time, damaged: int = 0) -> tuple[str, str]:
    """Returns the verdict of a whole gate and its reason. ``damaged`` is the number of HEAD's records that cannot be
    read.

    The first that applies wins: a regression, cells that are not comparable, missing cells, and then the verdict on the
    mean drop. A mean that passes makes the gate a pass only if every cell passes too, because a drop in one of many
    cells hardly moves the mean.
    """
    counts = {name: sum(cell.verdict == name for cell in cells) for name in STATUS}
    dearer = sum(any(cost.verdict == REGRESSION for cost in cell.costs) for cell in cells)
    if counts[REGRESSION] or dearer or (macro and macro.verdict == REGRESSION) or time.verdict == REGRESSION:
        rescored = sum(cell.rescored for cell in cells)
        worse = counts[REGRESSION] - rescored
        parts = [f"{rescored} cells have the same predictions and other scores"] if rescored else []
        parts += [f"{worse} cells are worse"] if worse else []
        parts += ["the mean drop is"] if macro and macro.verdict == REGRESSION else []
        parts += [f"{dearer} cells cost more"] if dearer else []
        parts += ["HEAD is slower"] if time.verdict == REGRESSION else []
        return REGRESSION, f"{'; '.join(parts)}."
    if counts[NOT_COMPARABLE]:
        return NOT_COMPARABLE, f"{counts[NOT_COMPARABLE]} cells were run with another recipe, task version or data."
    compared = sum(cell.drop is not None for cell in cells)
    if counts[MISSING] or damaged or not compared:
        parts = [f"{counts[MISSING]} cells of BASE are not in HEAD"] if counts[MISSING] else []
        parts += [f"{damaged} records of HEAD are damaged"] if damaged else []
        return MISSING, f"{'; '.join(parts) or 'No cell could be compared'}."
    open_cells = f"{counts[INCONCLUSIVE]} of {compared} cells are inconclusive on their own."
    if macro is None:
        worst = INCONCLUSIVE if counts[INCONCLUSIVE] else PASS
        return worst, open_cells if counts[INCONCLUSIVE] else "Every cell passes."
    if macro.verdict == PASS and counts[INCONCLUSIVE]:
        worst = max((cell for cell in cells if cell.verdict == INCONCLUSIVE), key=_largest_possible_drop)
        largest = _largest_possible_drop(worst)
        most = f"a drop of up to {largest:.{worst.decimals}f}" if math.isfinite(largest) else "any drop"
        return ON_AVERAGE, (
            f"The mean does not drop by the margin, but {counts[INCONCLUSIVE]} of {compared} cells may have dropped by "
            f"more than theirs. {worst.row} on {worst.task} leaves {most} open."
        )
    return macro.verdict, f"{macro.reason} {open_cells}" if counts[INCONCLUSIVE] else macro.reason


def _largest_possible_drop(cell: Verdict) -> float:
    """Returns the largest drop within the cell's 95 % interval; infinite if the interval is unknown."""
    high = cell.drop.interval().high if cell.drop is not None else math.nan
    return high if math.isfinite(high) else math.inf


def _notes(base: Side, head: Side, comparable: Sequence[tuple[Group, Group]]) -> tuple[str, ...]:
    notes = [f"{one.file} in HEAD is damaged: {one.reason}" for one in head.damaged]
    for name, side in (("BASE", base), ("HEAD", head)):
        if side.repeated:
            notes.append(f"{name} holds {side.repeated} older records of seeds that were run again; the newest count.")
    for what in ("commit", "device"):
        found = [
            sorted({str(getattr(r, what)) for pair in comparable for r in pair[i].records.values()}) for i in (0, 1)
        ]
        ours, theirs = (", ".join(clean(one) for one in side) for side in found)
        if ours != theirs and what == "device":
            notes.append(
                f"BASE ran on {ours}, HEAD on {theirs}: seconds are not compared. Parameters and FLOPs are. Scores are "
                "too, but processors round differently, so a drop of what was trained may come from the device."
            )
        elif ours != theirs:
            notes.append(f"BASE and HEAD differ in {what}: {ours} and {theirs}.")
    return tuple(notes)


def _scored(group: Group) -> dict[Draw, Record]:
    values = ((seed, record) for seed, record in group.records.items() if record.status == "ok")
    return {seed: record for seed, record in values if math.isfinite(float(record.headline["value"]))}


def _means(scored: Sequence[Mapping[Draw, Record]]) -> dict[str, float]:
    """Returns the mean headline of each side that has a score, as fields of a `Verdict`."""
    values = [[float(record.headline["value"]) for record in side.values()] for side in scored]
    return {name: float(np.mean(own)) for name, own in zip(("base", "head"), values, strict=True) if own}


def _diverged(group: Group) -> int:
    """Counts the seeds whose training diverged or whose score is not a finite number. Both are outcomes of training."""
    return sum(
        record.status == "diverged" or (record.status == "ok" and not math.isfinite(float(record.headline["value"])))
        for record in group.records.values()
    )
