"""Matches the cells of BASE and HEAD that may be compared, and names the differences of those that may not.

A cell of the gate is a row, a task and an adaptation. Its *recipe* is everything that was chosen before it ran: the
task's version and data, the adaptation's version and settings, the pre-training's corpus, tokenizer and budget. Cells
with the same recipe are compared. If the other side has the cell only with another recipe, the difference is named and
no number is given.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptmbench.leaderboard.records.baseline import Baseline, recover, verify
from ptmbench.leaderboard.records.record import (
    Draw,
    Record,
    auxiliary_tasks,
    draw_of,
    extra_encoders,
    method_of,
    planned,
)
from ptmbench.leaderboard.records.store import Damaged, homes, load

Identity = tuple[str, str, str, str, str, str]
_UNTRAINED_ADAPTATIONS = ("baseline", "cloze", "fixed", "likelihood", "prompt", "words")
"""Adaptations that train no weights; "fixed" is an external system that is not trained again."""
_LABELS = {
    "task.version": "task version",
    "task.data_sha256": "data",
    "task.split": "split",
    "task.source": "source or number of examples",
    "task.headline": "metric",
    "task.higher_is_better": "direction of the metric",
    "adaptation.version": "version of the adaptation",
    "condition.version": "version of the condition",
    "transform.version": "version of the transform",
    "pretraining.corpus_sha256": "corpus",
    "pretraining.tokenizer": "tokenizer",
    "pretraining.budget": "pre-training budget",
    "pretraining.steps": "pre-training steps",
    "pretraining.tokens": "pre-training tokens",
    "pretraining.weights_sha256": "published weights",
}


@dataclass(frozen=True, kw_only=True)
class Group:
    """The records of one cell and recipe on one side, by draw."""

    identity: Identity
    recipe: Mapping[str, Any]
    records: Mapping[Draw, Record]

    @property
    def first(self) -> Record:
        return next(iter(self.records.values()))

    @property
    def title(self) -> str:
        row = self.first.row
        words = [row["label"], row["size"] or "", {"random": "random weights"}.get(row["kind"], "")]
        return " ".join(word for word in words if word)

    @property
    def trained(self) -> bool:
        """Whether the seed affects training, so that another seed means another training."""
        return method_of(self.identity[4]) not in _UNTRAINED_ADAPTATIONS  # "prompt:shots=4" is the adaptation "prompt"

    def weights(self) -> set[str | None]:
        """Returns the known hashes of all pre-trained weights that the seeds started from; None stands for an unknown
        hash."""
        own = [record.pretraining for record in self.records.values() if record.pretraining]
        others = [about for record in self.records.values() for _, about in extra_encoders(record)]
        return {about.get("weights_sha256") for about in (*own, *others)}

    def has_same_weights(self, other: "Group") -> bool:
        """Whether both groups started from the same pre-trained weights. False if the hash of any weights is
        unknown."""
        return self.weights() == other.weights() and None not in self.weights()


@dataclass(frozen=True, kw_only=True)
class Side:
    groups: tuple[Group, ...]
    damaged: tuple[Damaged, ...]
    roots: tuple[Path, ...] = field(compare=False)
    """Folders that contain the records' predictions."""
    baseline: Baseline | None = None
    repeated: int = 0
    """Number of older records of seeds that were run again with the same recipe. The newest record counts."""


def read(folder: Path) -> Side:
    """Reads all records below ``folder``; a baseline is verified first. Raises `RecordError` if there is no run."""
    folder = Path(folder)
    recover(folder)
    baseline = verify(folder) if folder.is_dir() else None
    store = load([folder])
    groups: dict[str, tuple[Identity, dict[str, Any], dict[Draw, Record]]] = {}
    repeated = 0
    for record in store.records:
        identity, recipe = identity_of(record), recipe_of(record)
        _, _, held = groups.setdefault(_key(identity, recipe), (identity, recipe, {}))
        draw = draw_of(record)
        if rival := held.get(draw):
            repeated += 1
            record = max(record, rival, key=lambda one: (one.finished, one.seal))
        held[draw] = record
    _gather(groups)
    return Side(
        groups=tuple(
            Group(identity=identity, recipe=recipe, records=dict(sorted(held.items())))
            for _, (identity, recipe, held) in sorted(groups.items())
        ),
        damaged=store.damaged,
        roots=tuple(dict.fromkeys(home.parent for home in homes(folder))),
        baseline=baseline,
        repeated=repeated,
    )


def identity_of(record: Record) -> Identity:
    """Returns the identity of a cell for a reader: task, row and adaptation."""
    row = record.row
    return (
        record.task["name"], row["name"], row["size"] or "", row["kind"], record.adaptation["name"], row["division"],
    )  # fmt: skip


def recipe_of(record: Record) -> dict[str, Any]:
    """Returns everything that was chosen before the cell ran, by its place in the record. Parts may be missing in cells
    without a score, whose data may not have been found."""
    task, made = record.task, record.pretraining
    known = {f"task.{name}": task.get(name) for name in ("version", "data_sha256", "source", "split", "headline")}
    known["task.higher_is_better"] = task["higher_is_better"]
    known["adaptation.version"] = record.adaptation.get("version", 1)  # older records lack it; they have version 1
    known |= {f"settings.{name}": value for name, value in record.adaptation["settings"].items()}
    if made:
        known |= _pretraining(made, record.row["division"] == "published")
    elif plan := planned(record):  # in a ladder, only the budget shows which rung has failed
        known |= {f"pretraining.{name}": plan.get(name) for name in ("corpus_sha256", "budget")}
    for model, about in extra_encoders(record):
        own = _pretraining(about, about.get("steps") is None)
        known |= {f"{name} of {model}": value for name, value in own.items()}
    if condition := task.get("condition"):
        known["condition.version"] = condition["version"]
        known |= {f"settings.{name} of the condition": value for name, value in condition["settings"].items()}
    if transform := record.adaptation.get("transform"):
        known["transform.version"] = transform["version"]
        known |= {f"settings.{name} of the transform": value for name, value in transform["settings"].items()}
        for number, one in enumerate(transform.get("before") or (), 1):  # the earlier transforms of a chain
            known[f"version of transform {number}"] = one["version"]
            known |= {f"settings.{name} of transform {number}": value for name, value in one["settings"].items()}
    for other, about in auxiliary_tasks(record):
        known |= {f"task.{name} of {other}": about.get(name) for name in ("version", "data_sha256")}
    return known


def _pretraining(made: Mapping[str, Any], published: bool) -> dict[str, Any]:
    if published:
        return {"pretraining.weights_sha256": made.get("weights_sha256")}
    known = {f"pretraining.{name}": made.get(name) for name in ("corpus_sha256", "steps", "tokens")}
    return known | {"pretraining.tokenizer": (made.get("tokenizer") or {}).get("sha256")}


def differing(one: Group, other: Group) -> list[str]:
    """Returns the parts of two groups' recipes that differ, in words."""
    names = _differing_parts(one.recipe, other.recipe, _scoreless(one.records) or _scoreless(other.records))
    words = (name.partition(" of ") for name in names)
    return [_LABELS.get(name, name.replace("settings.", "setting ")) + of + whose for name, of, whose in words]


def _differing_parts(ours: Mapping[str, Any], theirs: Mapping[str, Any], scoreless: bool) -> list[str]:
    """Returns the names of the parts that differ. If a cell is ``scoreless``, parts that one side does not know are not
    differences, because the cell may have ended before it knew its data or weights."""
    names = [name for name in sorted(ours.keys() | theirs.keys()) if _text(ours.get(name)) != _text(theirs.get(name))]
    if scoreless:
        names = [name for name in names if None not in (ours.get(name), theirs.get(name))]
        names = [name for name in names if name != "task.data_sha256"]  # without a score, it names the missing file
    return names


def _scoreless(records: Mapping[Draw, Record]) -> bool:
    return all(record.status != "ok" for record in records.values())


def _gather(groups: dict[str, tuple[Identity, dict[str, Any], dict[Draw, Record]]]) -> None:
    """Moves records without a score, whose recipe may be incomplete, into the groups that they belong to."""
    for key in [key for key, (_, _, held) in groups.items() if _scoreless(held)]:
        identity, recipe, held = groups[key]
        for other, (name, theirs, rest) in groups.items():
            fits = name == identity and not _differing_parts(recipe, theirs, True) and _same_rung(held, rest)
            if other != key and fits and not _clash(held, rest):
                rest.update(held)
                del groups[key]
                break


def _clash(scoreless: Mapping[Draw, Record], rest: Mapping[Draw, Record]) -> bool:
    """Whether both have a record of the same draw. A cell whose pre-training failed may not know its pre-training seed.
    If the rest has one pre-training, its own seed is compared instead."""
    if set(scoreless) & set(rest):
        return True
    unknown = {seed for pretraining, seed in scoreless if not pretraining}
    return len({pretraining for pretraining, _ in rest}) == 1 and bool(unknown & {seed for _, seed in rest})


def _same_rung(ours: Mapping[Draw, Record], theirs: Mapping[Draw, Record]) -> bool:
    """Whether records may have the same pre-training budget. False only if both sides know their budgets and these
    differ."""
    known = [
        {_text(made["budget"]) for one in side.values() if (made := one.pretraining or planned(one)).get("budget")}
        for side in (ours, theirs)
    ]
    return not all(known) or bool(known[0] & known[1])


def match(base: Side, head: Side) -> list[tuple[Group | None, Group | None, list[str]]]:
    """Returns (BASE's cell, HEAD's cell, differences) for each cell. Differences are empty if the cells may be
    compared. One cell is None if the other side has no such cell. If only another recipe of the cell was found, both
    cells are given with their differences."""
    ours = {_key(one.identity, one.recipe): one for one in base.groups}
    theirs = {_key(one.identity, one.recipe): one for one in head.groups}
    pairs: list[tuple[Group | None, Group | None, list[str]]] = [
        (ours[key], theirs[key], []) for key in ours if key in theirs
    ]
    left = [one for key, one in ours.items() if key not in theirs]
    right = [one for key, one in theirs.items() if key not in ours]
    for one in left:
        rivals = [other for other in right if other.identity == one.identity]
        if _scoreless(one.records) or any(_scoreless(other.records) for other in rivals):
            rivals = [other for other in rivals if _same_rung(one.records, other.records)]
        near = min(rivals, key=lambda other: len(differing(one, other)), default=None)
        right = [other for other in right if other is not near]
        pairs.append((one, near, differing(one, near) if near else []))
    pairs += [(None, one, []) for one in right]
    return sorted(pairs, key=lambda pair: (pair[0] or pair[1]).identity)


def _key(identity: Identity, recipe: Mapping[str, Any]) -> str:
    return json.dumps([identity, {name: _text(value) for name, value in recipe.items()}], sort_keys=True)


def _text(value: Any) -> str:
    """Returns ``value`` as JSON text. 2 and 2.0 give the same text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = float(value)
    return json.dumps(value, sort_keys=True, default=str)
