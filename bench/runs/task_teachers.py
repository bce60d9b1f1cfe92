"""Checkpoints that a user gives as teachers of tasks (``--task-teacher``): published models, or pre-trained here.

`bench.runs.run` plans them. The settings of a cell name its teacher (``distil:teacher=all-minilm-l6-v2``). The teacher
is fine-tuned on the task of that cell, with its own tokenizer. Teachers that a run pre-trains are not handled here.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs.artefacts import Cell, Given, Row
from ptmbench.bench.runs.plan import Teaching
from ptmbench.bench.runs.stages import given_checkpoint, pretrained_in


def row_of(found: Checkpoint) -> Row:
    """The row of the pre-trained checkpoint ``found``, named as at its import, or else after its model."""
    about, division = found.about, found.about.get("division", "controlled")
    return Row(
        name=about.get("name", about["model"]),
        kind="random" if about.get("random") else "published" if division == "published" else "pretrained",
        model=about["model"],
        size=about["size"],
        division=division,
    )


class TaskTeachers:
    """The checkpoints in ``folders``, by name: the name given at the import, or model and size. Raises `UsageError` for
    two checkpoints with the same name."""

    def __init__(self, folders: Sequence[Path]):
        self._found: dict[str, Checkpoint] = {}
        self._named: set[str] = set()
        for one in map(pretrained_in, folders):
            name = one.about.get("name", f"{one.about['model']}-{one.about['size']}")
            if (other := self._found.setdefault(name, one)) is not one:
                raise UsageError(
                    f"The teachers in {other.folder} and {one.folder} are both called {name}. Leave one of them out, "
                    "or import it again with another --name."
                )

    def __call__(self, named: str) -> Teaching | None:
        """Returns row, pre-training and tokenizer of the teacher that a cell has ``named``, and marks it as used.
        Returns None for another name."""
        found = self._found.get(named)
        if found is None:
            return None
        self._named.add(named)
        return _teaching(found)

    def unknown(self, named: str) -> UsageError:
        """The error for a cell with an unknown teacher ``named``, in a command that pre-trains no teachers."""
        known = f"; there is {', '.join(self._found)}" if self._found else ""
        return UsageError(
            f"A cell learns from the teacher {named}, and no checkpoint of --task-teacher has this name{known}. Give "
            "its checkpoint with --task-teacher, or use `ptmbench run`, which pre-trains teachers."
        )

    @property
    def artefacts(self) -> tuple[Given, ...]:
        """The checkpoints that cells have named, and their tokenizers."""
        found = [self._found[name] for name in sorted(self._named)]
        cuts = [
            Given(key=one.about["tokenizer"]["sha256"], path=str(one.path("tokenizer.json").resolve())) for one in found
        ]
        return (*map(given_checkpoint, found), *cuts)

    def teaches(self, cell: Cell) -> bool:
        """Whether ``cell`` fine-tunes one of these teachers."""
        return self._of(cell) is not None

    def check(self, cells: Iterable[Cell]) -> None:
        """Raises `UsageError` for a teacher that no cell names, and if one of ``cells`` gives a teacher longer inputs
        than it can read."""
        if unused := [name for name in self._found if name not in self._named]:
            raise UsageError(
                f"No cell learns from {unused[0]}, the teacher in {self._found[unused[0]].folder}. Add --adaptation "
                f"distil:teacher={unused[0]}, or leave --task-teacher out."
            )
        for cell in cells:
            one = self._of(cell)
            if one is not None and cell.settings["length"] > (longest := int(one.about["shape"]["length"])):
                raise UsageError(
                    f"The teacher {cell.row.name} in {one.folder} reads at most {longest} tokens, but {cell.task} asks "
                    f"for {cell.settings['length']:g}. Add --set length={longest}."
                )

    def _of(self, cell: Cell) -> Checkpoint | None:
        """The teacher that ``cell`` fine-tunes; None if it fine-tunes none."""
        named = (self._found[name] for name in self._named)
        begins = Teaching(cell.row, cell.pretraining, cell.tokenizer)
        return next((one for one in named if begins == _teaching(one)), None)


def _teaching(found: Checkpoint) -> Teaching:
    return Teaching(row_of(found), given_checkpoint(found).key, found.about["tokenizer"]["sha256"])
