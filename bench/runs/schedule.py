"""Assigns the remaining nodes of a graph to workers, one at a time.

The schedule uses the key, needs, group and weight of a node (`bench.runs.graph.Node`). Its rules are:

1. The deepest node goes first. The cells of a pre-training are scored before the next pre-training begins, so a run
   that is stopped early has complete rows.
2. Among equally deep nodes, those that others need go first.
3. If fewer nodes that others need are left than there are workers, these nodes go first. Otherwise all workers would
   wait for one of them at the end.
4. A worker stays with a group, because its process has the traced step of this group.
5. If no group is free, a worker takes single nodes from the end of the longest group.

A node whose worker died is assigned once more, and then given up.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from ptmbench.bench.runs import graph
from ptmbench.bench.runs.graph import Node

ATTEMPTS = 2
"""Number of workers that may die on one node before it is given up."""


class Schedule:
    """Schedules the remaining ``nodes`` (in the order of `graph.ordered`) on ``workers``. The nodes with the keys
    ``settled`` are made or have failed."""

    def __init__(self, nodes: Sequence[Node], settled: Iterable[str], workers: int = 1):
        required = graph.required(nodes, settled)
        self._workers = workers
        self._depth = graph.depths(nodes)
        self._left = {node.key: node for node in nodes if node.key in required}
        self._unsettled = set(self._left)
        self._needed = {key for node in self._left.values() for key in node.needs}
        self._held: dict[int, Node] = {}
        self._group: dict[int, str] = {}
        self._deaths: Counter[str] = Counter()

    @property
    def over(self) -> bool:
        """Whether no node is left and no worker has one."""
        return not (self._left or self._held)

    def take(self, worker: int) -> Node | None:
        """Assigns a node to the idle ``worker`` and returns it; None while all remaining nodes wait for other nodes."""
        ready = [node for node in self._left.values() if self._unsettled.isdisjoint(node.needs)]
        needed = max(
            (node for node in ready if node.key in self._needed), key=lambda node: self._depth[node.key], default=None
        )
        groups: dict[str, list[Node]] = {}
        for node in ready:
            if node.key not in self._needed:
                groups.setdefault(node.group, []).append(node)
        node = None
        if needed is None or len(self._needed & self._left.keys()) >= self._workers:
            depths = {name: max(self._depth[one.key] for one in nodes) for name, nodes in groups.items()}
            least = self._depth[needed.key] + 1 if needed else max(depths.values(), default=0)
            own = self._group.get(worker)
            deep = {name: nodes for name, nodes in groups.items() if name == own or depths[name] >= least}
            node = self._next_of_group(worker, deep)
        node = node or needed or self._next_of_group(worker, groups) or self._last_of_longest(groups)
        if node is not None:
            self._held[worker] = self._left.pop(node.key)
        return node

    def done(self, worker: int) -> Node:
        """Takes the node from ``worker``, which has made it or failed, and returns it."""
        node = self._held.pop(worker)
        self._unsettled.discard(node.key)
        return node

    def died(self, worker: int) -> tuple[Node | None, bool]:
        """Returns the node that ``worker`` had when it died, and whether it is given up. Replaces a call of `done`."""
        self._group.pop(worker, None)
        node = self._held.pop(worker, None)
        if node is None:
            return None, False
        self._deaths[node.key] += 1
        if self._deaths[node.key] >= ATTEMPTS:
            self._unsettled.discard(node.key)
            return node, True
        self._left[node.key] = node
        return node, False

    def held(self, worker: int) -> Node | None:
        """The node that ``worker`` has."""
        return self._held.get(worker)

    def give_up(self, worker: int) -> Node:
        """Takes the node from ``worker``, which was killed, and returns it. It is not assigned again."""
        self._group.pop(worker, None)
        return self.done(worker)

    def _next_of_group(self, worker: int, groups: dict[str, list[Node]]) -> Node | None:
        """The first node of the worker's own group, or of the longest group that no other worker has."""
        if self._group.get(worker) not in groups:
            others = {self._group.get(other) for other in self._held}
            free = [name for name in groups if name not in others]
            if not free:
                return None
            self._group[worker] = max(free, key=lambda name: _weight(groups[name]))
        return groups[self._group[worker]][0]

    def _last_of_longest(self, groups: dict[str, list[Node]]) -> Node | None:
        return max(groups.values(), key=_weight)[-1] if groups else None


def _weight(nodes: Sequence[Node]) -> float:
    """The relative duration of a group. Long groups begin first, so that no worker has one alone at the end."""
    return sum(node.weight for node in nodes)
