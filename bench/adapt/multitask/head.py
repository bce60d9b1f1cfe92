"""Classification of several tasks by one network. The outputs are the classes of all tasks; a text uses only those of
its own task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ptmbench import tasks
from ptmbench.bench.adapt.heads import InputRow, classes, classification
from ptmbench.bench.adapt.multitask import MultitaskSettings
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task

Head = classification.Head
"""A softmax over the classes of one task, with the classes of other tasks masked: equivalent to one head per task."""


class Codec(classification.Codec):
    """The codec of classification. Each row has the number of its ``task``: 0 for the cell's own task, then the
    auxiliary tasks in the order of the setting."""

    STATE = ("outputs", "number", "starts")

    def __init__(self, task: Task, tokenizer: Tokenizer, settings: MultitaskSettings, train: Sequence[Example]):
        super().__init__(task, tokenizer, settings, train)
        self.others = [classification.Codec(tasks.load(name), tokenizer, settings, ()) for name in settings.others]
        self.starts = tuple(np.cumsum([0, *(len(codec.number) for codec in (self, *self.others))]).tolist())
        self.outputs = classes(int(self.starts[-1]))

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        return list(self._placed(super().rows(examples), 0))

    def auxiliary_rows(self, examples: Mapping[str, Sequence[Example]]) -> list[InputRow]:
        """The training rows of the auxiliary tasks that are in ``examples``."""
        return [
            row
            for place, codec in enumerate(self.others, 1)
            if codec.task.name in examples
            for row in self._placed(codec.rows(examples[codec.task.name]), place)
        ]

    def _placed(self, rows: Sequence[InputRow], place: int) -> Iterator[InputRow]:
        """Yields ``rows`` of task ``place`` with labels and masks that refer to the classes of all tasks."""
        begin, end = self.starts[place : place + 2]
        for row in rows:
            unused = np.full(self.outputs, -1e9, np.float32)
            unused[begin:end] = row.arrays["unused"][: end - begin]
            label = row.arrays["label"]
            arrays = {"label": np.int32(label + begin if label >= 0 else label), "unused": unused}
            yield replace(row, arrays={**row.arrays, **arrays, "task": np.int32(place)})
