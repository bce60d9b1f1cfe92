"""Options by name: flat keywords to the nested options objects of `bench.options`.

The command line and the functions of `ptmbench` build their options here, so both know the same names.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import UsageError

Options = TypeVar("Options")
UNITS = tuple(one.name for one in fields(Budget))


def built(kind: type[Options], values: Mapping[str, Any]) -> Options:
    """The options of ``kind`` with the flat ``values``, each in the group that has its name.

    Options with a budget also take "steps", "tokens", "flops" or "minutes" in its place: a number or several. Raises
    `UsageError` for a name that no group has, and for an option that has to be given and is not.
    """
    values, known = dict(values), names_of(kind)
    if "budget" in known:
        known = (*known, *UNITS)
        units = {name: amount for name in UNITS if (amount := values.pop(name, None)) is not None}
        if units and "budget" in values:
            raise UsageError(f"Give either budget or {next(iter(units))}, not both.")
        if units:
            values["budget"] = _budget(units)
    if unknown := next((name for name in values if name not in known), None):
        near = difflib.get_close_matches(unknown, known, n=3) or sorted(known)
        raise UsageError(f"There is no option '{unknown}' in {kind.__name__}. Nearest: {', '.join(near)}.")
    return _grouped(kind, values)


def names_of(kind: type) -> tuple[str, ...]:
    """The names of all options of ``kind``, with the options of its groups in place of the groups."""
    found: list[str] = []
    for one in fields(kind):
        found += names_of(one.default_factory) if is_dataclass(one.default_factory) else [one.name]
    return tuple(found)


def _grouped(kind: type[Options], values: Mapping[str, Any]) -> Options:
    given = {}
    for one in fields(kind):
        if is_dataclass(one.default_factory):
            given[one.name] = _grouped(one.default_factory, values)
        elif one.name in values:
            given[one.name] = values[one.name]
        elif one.default is one.default_factory is MISSING:
            raise UsageError(f"{kind.__name__} needs '{one.name}'. Give it by this name.")
    return kind(**given)


def _budget(units: Mapping[str, Any]) -> Budget | tuple[Budget, ...]:
    """The budget of an amount by its unit, or several budgets of several amounts."""
    (name, amount), *others = units.items()
    if others or isinstance(amount, str) or not isinstance(amount, Sequence):
        return Budget(**units)
    return tuple(Budget(**{name: one}) for one in amount)
