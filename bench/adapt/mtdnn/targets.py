"""Places the outputs of one task's teacher among the classes of all tasks, in NumPy."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ptmbench.bench.adapt.heads import InputRow


def placed(
    rows: Sequence[InputRow], read: Sequence[InputRow], outputs: Sequence[np.ndarray]
) -> tuple[list[InputRow], list[np.ndarray]]:
    """The rows ``read`` by a teacher and its ``outputs`` [C] for them, with labels and logits [N] at the places that
    they have in the student's ``rows`` of the same task. The student has N classes, those of all tasks side by side.
    Logits of other tasks are -1e9."""
    if not rows or not read:
        return list(read), list(outputs)
    begin = _first(rows[0]) - _first(read[0])
    width = len(rows[0].arrays["unused"])
    moved, said = [], []
    for row, output in zip(read, outputs, strict=True):
        label = row.arrays["label"]
        moved.append(replace(row, arrays={**row.arrays, "label": np.int32(label + begin if label >= 0 else label)}))
        logits = np.full(width, -1e9, np.float32)
        count = min(len(output), width - begin)  # the teacher's classes come before its unused outputs
        logits[begin : begin + count] = output[:count]
        said.append(logits)
    return moved, said


def _first(row: InputRow) -> int:
    """The first class that is an answer to the question of ``row``."""
    return int(np.flatnonzero(row.arrays["unused"] == 0)[0])
