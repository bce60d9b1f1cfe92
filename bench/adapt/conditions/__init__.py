"""Conditions under which a trained predictor is evaluated: noise, attacks. One folder each defines ``CONDITION``."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ptmbench.bench.adapt import _folders

if TYPE_CHECKING:
    from ptmbench.bench.adapt.conditions.contract import Condition


class ChosenCondition(NamedTuple):
    """A condition with its settings."""

    title: str
    """Its name with the settings that differ from their defaults: "misspellings:share=0.2"."""
    condition: "Condition"
    settings: Any


def names() -> tuple[str, ...]:
    """Every condition's name, sorted."""
    return _folders.names(Path(__file__).parent)


@cache
def load(name: str) -> "Condition":
    """The condition ``name``. Raises `bench.errors.BrokenFile` if its folder is not sound."""
    from ptmbench.bench.adapt.conditions.contract import Condition

    return _folders.load(Path(__file__).parent, name, "CONDITION", Condition)


def choose(asked: str) -> ChosenCondition:
    """The condition that a user ``asked`` for: "misspellings", "misspellings:share=0.2+kinds=swap+delete".

    Raises `UsageError` if there is no such condition, `SettingError` for settings that it does not take.
    """
    return ChosenCondition(*_folders.parse_choice("condition", asked, names(), load, "misspellings:share=0.2"))
