"""Who does what next: the part of a plan that is left, dealt out to workers one piece at a time. Pure.

A piece is a pre-training or a cell. What has been pre-trained is scored before the next pre-training begins, so that
a run which is stopped early has whole rows to show; what waits for nothing, as random twins and baselines do, fills
up. The last pre-trainings, fewer than there are workers, do not wait, or all would wait for one of them at the end. A
worker stays with a group of cells as long as the group lasts, because its traced step lies in that process; when no
group is free, it takes single cells from the end of another worker's. A piece whose worker died is dealt once more,
and then given up.
"""

from collections import Counter
from collections.abc import Iterable

from ptmbench.bench.plan import Cell, Plan, Pretraining

Piece = Pretraining | Cell
ATTEMPTS = 2
"""How many workers may die over one piece: an accident happens once, a piece that kills its worker does it again."""


class Schedule:
    """What is ``left`` of ``plan`` for ``workers``, when the pre-trainings with the keys ``settled`` are done or have
    failed."""

    def __init__(self, plan: Plan, left: Iterable[Cell], settled: Iterable[str], workers: int = 1):
        self._workers = workers
        self._cells = {cell.key: cell for cell in left}
        self._settled = set(settled)
        needed = {key for cell in self._cells.values() for key in cell.needs} - self._settled
        self._pretrainings = {p.key: p for p in plan.pretrainings if p.key in needed}
        self._waits_for = set(self._pretrainings)
        self._held: dict[int, Piece] = {}
        self._group: dict[int, str] = {}
        self._deaths: Counter[str] = Counter()

    @property
    def over(self) -> bool:
        """Nothing is left and nothing in anybody's hands."""
        return not (self._cells or self._pretrainings or self._held)

    def take(self, worker: int) -> Piece | None:
        """A piece for ``worker``, which has none; None while what is left waits for what others are at."""
        groups = self._groups()
        piece = self._next_pretrained(worker, groups) or self._next_pretraining() or self._next_cell(worker, groups)
        if piece is not None:
            self._held[worker] = piece
        return piece

    def done(self, worker: int) -> Piece:
        """The piece of ``worker`` has come to its end, good or bad."""
        piece = self._held.pop(worker)
        self._waits_for.discard(piece.key)
        return piece

    def died(self, worker: int) -> tuple[Piece | None, bool]:
        """What ``worker`` had in hands when it died, and whether that is to be given up: `done` is not called for
        it."""
        self._group.pop(worker, None)
        piece = self._held.pop(worker, None)
        if piece is None:
            return None, False
        self._deaths[piece.key] += 1
        if self._deaths[piece.key] >= ATTEMPTS:
            self._waits_for.discard(piece.key)
            return piece, True
        (self._pretrainings if isinstance(piece, Pretraining) else self._cells)[piece.key] = piece
        return piece, False

    def held(self, worker: int) -> Piece | None:
        """The piece that ``worker`` is at."""
        return self._held.get(worker)

    def give_up(self, worker: int) -> Piece:
        """``worker`` was ended over its piece, which is not dealt again."""
        self._group.pop(worker, None)
        return self.done(worker)

    def _next_pretrained(self, worker: int, groups: dict[str, list[Cell]]) -> Cell | None:
        if 0 < len(self._pretrainings) < self._workers:
            return None
        own = self._group.get(worker)
        return self._next_of_group(
            worker, {name: cells for name, cells in groups.items() if name == own or any(cell.needs for cell in cells)}
        )

    def _next_pretraining(self) -> Pretraining | None:
        return self._pretrainings.pop(next(iter(self._pretrainings)), None) if self._pretrainings else None

    def _next_cell(self, worker: int, groups: dict[str, list[Cell]]) -> Cell | None:
        if not groups:
            return None
        return self._next_of_group(worker, groups) or self._cells.pop(max(groups.values(), key=_weight)[-1].key)

    def _next_of_group(self, worker: int, groups: dict[str, list[Cell]]) -> Cell | None:
        """The first cell of the worker's own group, or of the longest that nobody is at."""
        if self._group.get(worker) not in groups:
            others = {self._group.get(other) for other in self._held}
            free = [name for name in groups if name not in others]
            if not free:
                return None
            self._group[worker] = max(free, key=lambda name: _weight(groups[name]))
        return self._cells.pop(groups[self._group[worker]][0].key)

    def _groups(self) -> dict[str, list[Cell]]:
        """The cells that wait for nothing, by group."""
        groups: dict[str, list[Cell]] = {}
        for cell in self._cells.values():
            if self._waits_for.isdisjoint(cell.needs):
                groups.setdefault(cell.group, []).append(cell)
        return groups


def _weight(cells: list[Cell]) -> float:
    """Which group to begin with: the long ones, so that no worker is left alone with one at the end."""
    return len(cells) * (0 if cells[0].row.kind == "baseline" else 1 + (cells[0].method == "finetune"))
