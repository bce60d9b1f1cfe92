"""Builds the nested options objects of `bench.options` from flat keywords.

The command line and the functions of `ptmbench` both use it, so they accept the same names. Error messages name the
flags of the command line. In the functions of `ptmbench`, `replace_flags_by_keywords` replaces these flags by keywords.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

from ptmbench.bench import errors
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import UsageError
from ptmbench.bench.options import CHANGES, SEVERAL

Options = TypeVar("Options")
UNITS = tuple(one.name for one in fields(Budget))
_OTHER_NAMES = {"set": ("settings", "recipe"), "workers": ("jobs",)}
"""The keywords of a flag, for flags that are neither the keyword nor its singular."""
_FLAG = re.compile(r"--(?P<no>no-)?(?P<flag>[a-z][a-z-]*)(?: (?P<value>\w+=[^\s,;]*[^\s,;.]|\d[\de+.]*\b))?")
"""A flag in a sentence. The next word counts as its value only if it is a number or has the form name=value."""
_QUOTED_FLAG = re.compile(r"`--(?P<no>no-)?(?P<flag>[a-z][a-z-]*)(?: (?P<value>[^`]*))?`")


def built(kind: type[Options], values: Mapping[str, Any]) -> Options:
    """Builds the options of ``kind`` and puts each of the flat ``values`` into the group that has a field of its name.

    Options with a budget also take "steps", "tokens", "flops" or "minutes" instead of it: a number or several. Raises
    `UsageError` for a name that no group has, and for a missing required option.
    """
    values, known = dict(values), names_of(kind)
    if "budget" in known:
        units = {name: amount for name in UNITS if (amount := values.pop(name, None)) is not None}
        if units and "budget" in values:
            raise UsageError(f"Give either budget or {next(iter(units))}, not both.")
        if units:
            values["budget"] = _budget(units)
    if unknown := next((name for name in values if name not in known), None):
        near = difflib.get_close_matches(unknown, known, n=3)
        told = f"Nearest: {', '.join(near)}." if near else f"Choices: {', '.join(sorted(known))}."
        raise UsageError(f"There is no option '{unknown}' in {kind.__name__}. {told}")
    return _grouped(kind, values)


def names_of(kind: type) -> tuple[str, ...]:
    """The keywords of ``kind``: the names of its options and of the options in its groups, and the units of a
    budget."""
    found: list[str] = []
    for one in fields(kind):
        found += names_of(one.default_factory) if is_dataclass(one.default_factory) else [one.name]
    return (*found, *UNITS) if "budget" in found and UNITS[0] not in found else tuple(found)


@contextmanager
def keywords_in_errors(names: Collection[str]) -> Iterator[None]:
    """Makes the messages of errors for the user name keywords instead of flags within the ``with`` block, by
    `replace_flags_by_keywords`. ``names`` are the keywords of the caller.
    """
    try:
        yield
    except Exception as error:
        if errors.status(error) != errors.UNEXPECTED and error.args and isinstance(error.args[0], str):
            error.args = (replace_flags_by_keywords(error.args[0], names), *error.args[1:])
        raise


def replace_flags_by_keywords(message: str, names: Collection[str]) -> str:
    """``message`` with the keywords ``names`` in place of the flags of the command line.

    Other flags, and commands in backticks, stay as they are:

    >>> replace_flags_by_keywords("Give --corpus, --set length=64 or `run --keep`.", ("corpus", "settings", "keep"))
    'Give `corpus`, `settings={"length": 64}` or `run --keep`.'
    """

    def keyword(found: re.Match[str]) -> str:
        flag = found["flag"].replace("-", "_")
        known = [name for name in (flag, f"{flag}s", *_OTHER_NAMES.get(flag, ())) if name in names]
        return f"`{known[0]}{_value(known[0], found)}`" if known else found[0]

    parts = re.split(r"(`[^`]*`)", message)  # parts in backticks have odd indices
    return "".join((_QUOTED_FLAG if i % 2 else _FLAG).sub(keyword, part) for i, part in enumerate(parts))


def _value(name: str, found: re.Match[str]) -> str:
    """The assignment of a flag's value to the keyword ``name``, such as '=["bert"]'; "" without a value."""
    value = found["value"]
    if found["no"]:
        return "=False"
    if value is None:
        return ""
    if name in CHANGES:
        key, _, changed = value.partition("=")
        return f'={{"{key}": {_literal(changed)}}}'
    return f"=[{_literal(value)}]" if name in SEVERAL else f"={_literal(value)}"


def _literal(text: str) -> str:
    return text if re.fullmatch(r"-?\d[\d.e+-]*", text) else f'"{text}"'


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
    """Converts an amount by its unit to a budget, and a sequence of amounts to several budgets."""
    (name, amount), *others = units.items()
    if others or isinstance(amount, str) or not isinstance(amount, Sequence):
        return Budget(**units)
    return tuple(Budget(**{name: one}) for one in amount)
