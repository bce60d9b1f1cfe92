"""Which worker does what next: the part of a graph that is left, dealt to workers one node at a time. Pure.

The schedule knows of a node its key, what it needs, its group and its weight (`bench.runs.graph.Node`), not what it is.
The deepest node goes first: what a pre-training leads to is scored before the next pre-training begins, so that a run
which is stopped early has whole rows to show. Of nodes that are equally deep, those go first that others need. Nodes
that wait for nothing fill up. The last nodes that others need, fewer than there are workers, do not wait, or all
workers would wait for one of them at the end. A worker stays with a group as long as the group lasts, because its
traced step lies in that process. When no group is free, a worker takes single nodes from the end of another worker's
group. A node whose worker died is dealt once more, and then given up.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from ptmbench.bench.runs import graph
from ptmbench.bench.runs.graph import Node

ATTEMPTS = 2
"""How many workers may die over one node: an accident happens once, a node that kills its worker does it again."""


class Schedule:
    """What is left of ``nodes``, which are `graph.ordered`, for ``workers``, when those with the keys ``settled`` are
    made or have failed."""

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
        """Nothing is left, and no worker is at anything."""
        return not (self._left or self._held)

    def take(self, worker: int) -> Node | None:
        """A node for ``worker``, which has none; None while what is left waits for what others are at."""
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
        """The node of ``worker`` has come to its end, good or bad."""
        node = self._held.pop(worker)
        self._unsettled.discard(node.key)
        return node

    def died(self, worker: int) -> tuple[Node | None, bool]:
        """What ``worker`` was at when it died, and whether that is to be given up: `done` is not called for it."""
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
        """The node that ``worker`` is at."""
        return self._held.get(worker)

    def give_up(self, worker: int) -> Node:
        """``worker`` was ended over its node, which is not dealt again."""
        self._group.pop(worker, None)
        return self.done(worker)

    def _next_of_group(self, worker: int, groups: dict[str, list[Node]]) -> Node | None:
        """The first node of the worker's own group, or of the longest that no worker is at."""
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
    """Which group to begin with: the long ones, so that no worker is left alone with one at the end."""
    return sum(node.weight for node in nodes)
