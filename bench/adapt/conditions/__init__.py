"""Conditions under which a trained predictor is evaluated: noise, attacks. One folder each defines ``CONDITION``."""

from functools import cache
from pathlib import Path

from ptmbench.bench.adapt import _folders
from ptmbench.bench.adapt.conditions.contract import Condition


def names() -> tuple[str, ...]:
    """Every condition's name, sorted."""
    return _folders.names(Path(__file__).parent)


@cache
def load(name: str) -> Condition:
    """The condition ``name``. Raises `bench.errors.BrokenFile` where its folder is not sound."""
    return _folders.load(Path(__file__).parent, name, "CONDITION", Condition)
