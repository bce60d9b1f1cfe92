"""Checks and orders directed graphs of nodes with a ``key`` and ``needs``, for plans and schedules."""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Protocol, TypeVar

from ptmbench.bench.errors import UsageError


class Node(Protocol):
    """The part of `bench.runs.artefacts.Artefact` that the schedule uses."""

    @property
    def key(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def needs(self) -> tuple[str, ...]: ...

    @property
    def group(self) -> str: ...

    @property
    def weight(self) -> float: ...


Kind = TypeVar("Kind", bound=Node)


def ordered(nodes: Iterable[Kind]) -> tuple[Kind, ...]:
    """Returns ``nodes`` in topological order, without duplicates. Keeps the given order where dependencies allow it.

    Raises `UsageError` for a dependency that is not among the nodes, and for dependencies that form a cycle.
    """
    known = {node.key: node for node in nodes}
    for node in known.values():
        if missing := [key for key in node.needs if key not in known]:
            raise UsageError(
                f"{node.title} needs {missing[0]}, which the plan does not make. Add it to the plan, or leave out what "
                "needs it."
            )
    try:
        TopologicalSorter({node.key: node.needs for node in known.values()}).prepare()
    except CycleError as error:
        circle = " needs ".join(known[key].title for key in reversed(error.args[1]))
        raise UsageError(f"A plan cannot have a cycle: {circle}. Leave out one of these dependencies.") from None
    found: dict[str, Kind] = {}
    for node in known.values():
        for key in _dependencies_and_self(node, known):
            found.setdefault(key, known[key])
    return tuple(found.values())


def depths(nodes: Sequence[Node]) -> dict[str, int]:
    """The length of the longest chain of dependencies of each node, by key. The ``nodes`` must be `ordered`."""
    found: dict[str, int] = {}
    for node in nodes:
        found[node.key] = max((found[key] + 1 for key in node.needs), default=0)
    return found


def required(nodes: Sequence[Node], done: Iterable[str]) -> set[str]:
    """Keys of the ``nodes`` that remain to be made if the keys ``done`` are made: the nodes that nothing depends on,
    and their dependencies."""
    known, done = {node.key: node for node in nodes}, set(done)
    needed = {key for node in nodes for key in node.needs}
    waiting, found = [key for key in known if key not in needed], set()
    while waiting:
        key = waiting.pop()
        if key not in found and key not in done:
            found.add(key)
            waiting += known[key].needs
    return found


def _dependencies_and_self(node: Node, known: Mapping[str, Node]) -> list[str]:
    """Keys of all nodes that ``node`` depends on, in topological order, and its own key last."""
    found: dict[str, None] = {}
    waiting: list[tuple[str, bool]] = [(node.key, False)]
    while waiting:
        key, visited = waiting.pop()
        if visited:
            found[key] = None
        elif key not in found:
            waiting.append((key, True))
            waiting += ((need, False) for need in reversed(known[key].needs))
    return list(found)


def dependency_keys(nodes: Iterable[Node], ends: Iterable[Node]) -> set[str]:
    """Keys of the ``nodes`` that ``ends`` depend on, directly or indirectly."""
    by_key = {one.key: one for one in nodes}
    waiting, found = [key for one in ends for key in one.needs], set()
    while waiting:
        key = waiting.pop()
        if key in by_key and key not in found:
            found.add(key)
            waiting += by_key[key].needs
    return found
