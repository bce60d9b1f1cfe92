"""The words that give a text its label. They are masked, deleted or exchanged to give the text another label.

Li et al. (2018), section 3.1; Wu et al. (2019), section 3, the frequency-ratio method. With count(u, v)
how often the run of words u comes in the training texts of label v, and v' the other label,

    s(u, v) = (count(u, v) + lambda) / (count(u, v') + lambda)

is how much u says v, for runs of one to four words; a text's own are those with s >= gamma. Where there is none, the
word of the largest s is the one: some word has to change.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ptmbench.tasks.task import Example, Task

LONGEST = 4
"""Words of a run at most."""


class Salience:
    """s(u, v) of all runs of words in ``texts``, whose labels are ``labels``: two different ones."""

    def __init__(self, texts: Sequence[str], labels: Sequence[str], smoothing: float, threshold: float):
        self.smoothing, self.threshold = smoothing, threshold
        words = [text.split() for text in texts]
        self.counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        total: Counter[tuple[str, ...]] = Counter()
        # A run is no more frequent than its parts, and a rare one cannot reach the threshold: it need not be counted.
        least = smoothing * (threshold - 1)
        for size in range(1, LONGEST + 1):
            for line, label in zip(words, labels, strict=True):
                for _, run in runs(line, size):
                    if size == 1 or min(total[run[:-1]], total[run[1:]]) >= least:
                        total[run] += 1
                        self.counts[label, run] += 1

    def to_json(self) -> dict[str, Any]:
        """What `from_json` makes it again from."""
        counts = [[label, *run, count] for (label, run), count in self.counts.items()]
        return {"counts": counts, "smoothing": self.smoothing, "threshold": self.threshold}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Salience":
        """The same salience without its texts."""
        made = cls((), (), content["smoothing"], content["threshold"])
        made.counts.update({(label, tuple(run)): count for label, *run, count in content["counts"]})
        return made

    def __call__(self, run: tuple[str, ...], label: str, other: str) -> float:
        """s of ``run``, for ``label`` against the ``other`` one."""
        ours, theirs = self.counts[label, run], self.counts[other, run]
        return (ours + self.smoothing) / (theirs + self.smoothing)

    def places(self, words: Sequence[str], label: str, other: str) -> list[int]:
        """Sorted indices of the ``words`` that say ``label`` and not the ``other`` one; [] without words."""
        found = set()
        for size in range(1, LONGEST + 1):
            for first, run in runs(words, size):
                if self(run, label, other) >= self.threshold:
                    found |= set(range(first, first + size))
        if found or not words:
            return sorted(found)
        return [max(range(len(words)), key=lambda i: self((words[i],), label, other))]


def named(task: Task) -> bool:
    """Whether ``task`` is to rewrite texts under another label: it names the two."""
    return "polarities" in task.extra


def runs(words: Sequence[str], size: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every run of ``size`` words, with the index of its first one."""
    for first in range(len(words) - size + 1):
        yield first, tuple(words[first : first + size])


def salience_of(task: Task, train: Sequence[Example], smoothing: float = 1.0, threshold: float = 0.0) -> Salience:
    """`Salience` in the training texts of a ``task`` of two ``polarities``; ``threshold`` 0 is the task's own."""
    labels = [opposite(task, example) for example in train]
    return Salience([e.inputs[0] for e in train], labels, smoothing, threshold or task.extra["salience"])


def opposite(task: Task, example: Example) -> str:
    """The label that ``example`` has before it gets the one that is wanted."""
    first, second = task.extra["polarities"]
    return first if example.inputs[1] == second else second


def without(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """Each of ``examples`` less the words that say its label."""
    salience, texts = salience_of(task, train), []
    for example in examples:
        words = example.inputs[0].split()
        gone = set(salience.places(words, opposite(task, example), example.inputs[1]))
        texts.append(" ".join(word for i, word in enumerate(words) if i not in gone))
    return texts
