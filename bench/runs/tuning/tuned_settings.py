"""The result of tuning adaptations, as a run reads it: settings for each model, task and adaptation.

`bench.runs.run` takes the settings of each cell from it. A run that does not fit the tuning raises `UsageError`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ptmbench import tasks
from ptmbench.bench import adapt
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs.artefacts import Cell
from ptmbench.bench.runs.tuning import sealed
from ptmbench.tasks.task import Task

FILE = "tuned-settings.json"
KIND = "tuned-settings"
_WORDS = {"task_version": "version of the task", "adaptation_version": "version of the adaptation", "limit": "--limit"}


def trained_on(task: Task) -> Task:
    """Returns the task whose training set ``task`` learns from. Its tuned settings apply to both."""
    return tasks.load(task.extra.get("trained_on", task.name))


def own_settings(cell: Cell) -> Settings | None:
    """Returns the settings of ``cell``, or None if it trains no weights with Adam, so there is nothing to tune."""
    if (
        not cell.row.model
        or not adapt.load(cell.method).learns
        or "train" not in trained_on(tasks.load(cell.task)).files
    ):
        return None
    found = adaptation_settings.read(cell.method, cell.settings)
    return found if found.adam is not None else None


def identity(cell: Cell) -> dict[str, Any]:
    """Returns what a run must share with the tuning of ``cell``, including the task's data and all settings."""
    names = ("task_version", "data_sha256", "adaptation_version", "limit")
    return {name: getattr(cell, name) for name in names} | {"settings": dict(cell.settings)}


@dataclass(frozen=True)
class TunedSettings:
    """The file at ``path``, and its content."""

    path: Path
    body: Mapping[str, Any]

    @classmethod
    def read(cls, given: Path) -> "TunedSettings":
        """Reads the result in the folder or file ``given``. Raises `RecordError` if it is missing or damaged."""
        return cls(*sealed.result(given, FILE, KIND))

    def check(self, tokenizer: str) -> None:
        """Raises `UsageError` for a run with another ``tokenizer``, given by its key."""
        if self.body["tokenizer"] != tokenizer:
            raise UsageError(
                f"{self.path} was tuned with another tokenizer or corpus than this run has. Give both the same "
                "--corpus, --tokenizer and --vocabulary."
            )

    def applied(self, cell: Cell, design: str) -> Cell:
        """Returns ``cell`` with the settings that were found for it; unchanged if there is nothing to tune. ``design``
        is `Pretraining.design` of its model, "" for a random twin. Raises `UsageError` for a cell that was not tuned,
        or was tuned in another way."""
        own, source = own_settings(cell), trained_on(tasks.load(cell.task))
        if own is None:
            return cell
        known = {"row": cell.row.name, "size": cell.row.size, "task": source.name, "adaptation": cell.adaptation}
        what = " ".join(map(str, known.values()))
        if left := self._entry("untuned", known):
            if left["status"] == "not_applicable":
                return cell
            raise UsageError(
                f"{self.path} has no settings for {what}: {left['reason'].rstrip('.')}. Leave it out of the run, or "
                "tune it again with --retry."
            )
        one = self._entry("adaptations", known)
        if one is None:
            raise UsageError(
                f"{self.path} has no settings for {what}. Leave it out of the run, or give `ptmbench tune "
                f"{self.body['suite']} --adaptation` this model, size, task and adaptation too."
            )
        if one["pretraining"] != design:
            raise UsageError(
                f"{self.path} was tuned for {what} with another pre-training: its corpus, budget or recipe differ. "
                "Give both the same options, --tuned for tuned recipes among them, or tune for this pre-training."
            )
        if source.name == cell.task:
            self._check(cell, what, one["fits"])
        settings = adaptation_settings.recorded(adaptation_settings.changed(own, one["changes"]))
        return replace(cell, settings=settings, tuning={"trials": one["trials"], "flops": one["flops"]})

    def _entry(self, part: str, known: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return next((one for one in self.body[part] if all(one[name] == value for name, value in known.items())), None)

    def _check(self, cell: Cell, what: str, fits: Mapping[str, Any]) -> None:
        """Raises `UsageError` if ``cell`` differs from the tuned one in more than its seed."""
        here = identity(cell)
        if here["data_sha256"] != fits["data_sha256"]:
            raise UsageError(
                f"{self.path} was tuned for {what} on other data of this task. Give both the same --data, or tune on "
                "this data."
            )
        for name, word in _WORDS.items():
            if here[name] != fits[name]:
                raise UsageError(
                    f"{self.path} was tuned for {what} with {word} {fits[name]}, and this run has {here[name]}. Give "
                    "both the same, or tune again."
                )
        for name in sorted({*here["settings"], *fits["settings"]}):
            there, mine = (known["settings"].get(name, "its default") for known in (fits, here))
            if there != mine:
                raise UsageError(
                    f"{self.path} was tuned for {what} with {name} at {there}, and this run has {mine}. Give both the "
                    "same --set."
                )
