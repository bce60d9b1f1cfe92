"""Makes the cells of a run: those of each pre-training of its rows."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ptmbench.bench.adapt import neighbours
from ptmbench.bench.options import CellOptions
from ptmbench.bench.runs import plan
from ptmbench.bench.runs.artefacts import Cell, Row
from ptmbench.bench.runs.combinations import Combinations
from ptmbench.bench.runs.plan import Teaching
from ptmbench.bench.runs.stages import Trainings
from ptmbench.bench.runs.suites import Suite
from ptmbench.bench.runs.task_teachers import TaskTeachers
from ptmbench.bench.runs.trainings import FIRST, Draw
from ptmbench.tasks.task import Task


class DrawnCells:
    """Makes the cells of ``rows``. The options ``asked`` replace those of ``suite``.

    A pre-trained row has cells for each of its draws (`Trainings.draws`); the other rows have them once. A teacher and
    an extra encoder come from the same draw as the model that uses them.

    - ``trainings``: None for a run of baselines.
    - ``given``: the checkpoints of --task-teacher.
    - ``adapted``, ``data_sha256``: see `Combinations`.
    """

    def __init__(
        self,
        suite: Suite,
        asked: CellOptions,
        rows: Sequence[Row],
        *,
        trainings: Trainings | None,
        given: TaskTeachers,
        adapted: Callable[[Cell], str],
        data_sha256: Mapping[str, str],
    ):
        self._suite, self._asked, self._rows = suite, asked, rows
        self._trainings, self._given = trainings, given
        self._adapted, self._data_sha256 = adapted, data_sha256

    def __call__(self, tasks: Sequence[Task]) -> tuple[Cell, ...]:
        """The cells with ``tasks``, in the order of the board for each draw."""
        draws = [draw for row in self._rows for draw in self._draws(row)]
        cells = [cell for draw in dict.fromkeys(draws or [FIRST]) for cell in self._of(draw, tasks)]
        return tuple({cell.key: cell for cell in cells}.values())  # each draw has all random twins

    def _draws(self, row: Row) -> Sequence[Draw]:
        return self._trainings.draws(row.model, row.size) if row.kind == "pretrained" else ()

    def _of(self, draw: Draw, tasks: Sequence[Task]) -> tuple[Cell, ...]:
        """The cells of the rows that are pre-trained by ``draw``, and of the rows that are not pre-trained."""
        suite, asked, trainings = self._suite, self._asked, self._trainings
        here = [row for row in self._rows if row.kind != "pretrained" or draw in self._draws(row)]
        own = [row for row in here if row.kind == "pretrained"]
        pretrainings = {row: trainings(row.model, row.size, draw) for row in own}

        def neighbour(row: Row, name: str, cut: str) -> str:
            """The key of the pre-training of the extra encoder ``name``, which may also be a row of the run."""
            return trainings.other(name, row.size, neighbours.kind_of(name, row.size, cut), draw).key

        def tuned(cell: Cell) -> Cell:
            """``cell`` with tuned settings, if there are any. A teacher that is no row of the run has none."""
            settings = trainings.tuned_settings if trainings else None
            if settings is None or cell.row not in here:
                return cell
            return settings.applied(cell, pretrainings[cell.row].design if cell.row in pretrainings else "")

        return Combinations(
            adaptations=asked.adaptations or suite.adaptations,
            seeds=[asked.seed] if asked.seed is not None else range(asked.seeds or suite.seeds),
            data_sha256=self._data_sha256,
            pretraining_of={row: one.key for row, one in pretrainings.items()},
            tokenizer=trainings.tokenizer().key if trainings else "",
            own_tokenizers=trainings.own_tokenizers([row.model for row in here]) if trainings else {},
            suite_settings=suite.settings,
            settings=asked.settings,
            limit=asked.limit or 0,
            neighbour=neighbour,
            teacher=partial(self._teaching, draw),
            adapted=self._adapted,
            conditions=asked.conditions or suite.conditions,
            transforms=asked.transforms or suite.transforms,
            chosen_by={row: trainings.chosen_by(row.model, row.size, draw) for row in own},
            tuned=tuned,
            keeps=suite.keeps,
        ).cells(here, tasks)

    def _teaching(self, draw: Draw, named: str) -> Teaching:
        """The given checkpoint ``named``, or the row of the teacher, which may also be a row of the run."""
        if found := self._given(named):
            return found
        row = plan.teacher_row(named)
        plan.check_rows([row])
        pretrained = row.kind == "pretrained"
        return Teaching(row, self._trainings.other(row.model, row.size, "", draw).key if pretrained else None)
