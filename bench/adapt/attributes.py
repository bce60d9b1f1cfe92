"""Finds the words that give a text its label. They are masked, deleted or replaced to give the text another label.

Li et al. (2018), section 3.1; Wu et al. (2019), section 3, the frequency-ratio method. Let count(u, v) be how often the
run of words u occurs in the training texts with label v, and let v' be the other label. Then

    s(u, v) = (count(u, v) + lambda) / (count(u, v') + lambda)

is the salience of u for v, for runs of one to four words. The words of a text that show its label are those in runs
with s >= gamma. If there are none, it is the word with the largest s, because some word has to change.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ptmbench.tasks.task import Example, Task

LONGEST = 4
"""Words in a run, at most."""


class Salience:
    """The salience s(u, v) of all runs of words in ``texts``. ``labels`` has the label of each text, one of two."""

    def __init__(self, texts: Sequence[str], labels: Sequence[str], smoothing: float, threshold: float):
        self.smoothing, self.threshold = smoothing, threshold
        words = [text.split() for text in texts]
        self.counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        total: Counter[tuple[str, ...]] = Counter()
        # A run with fewer than ``least`` occurrences cannot reach the threshold. Longer runs with it are not counted.
        least = smoothing * (threshold - 1)
        for size in range(1, LONGEST + 1):
            for line, label in zip(words, labels, strict=True):
                for _, run in runs(line, size):
                    if size == 1 or min(total[run[:-1]], total[run[1:]]) >= least:
                        total[run] += 1
                        self.counts[label, run] += 1

    def to_json(self) -> dict[str, Any]:
        """Plain values for `from_json`."""
        counts = [[label, *run, count] for (label, run), count in self.counts.items()]
        return {"counts": counts, "smoothing": self.smoothing, "threshold": self.threshold}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Salience":
        """Restores the salience from `to_json`, without its texts."""
        made = cls((), (), content["smoothing"], content["threshold"])
        made.counts.update({(label, tuple(run)): count for label, *run, count in content["counts"]})
        return made

    def __call__(self, run: tuple[str, ...], label: str, other: str) -> float:
        """s of ``run`` for ``label``, against the label ``other``."""
        ours, theirs = self.counts[label, run], self.counts[other, run]
        return (ours + self.smoothing) / (theirs + self.smoothing)

    def places(self, words: Sequence[str], label: str, other: str) -> list[int]:
        """Sorted indices of the ``words`` that show ``label`` and not ``other``. If there are none, the index of the
        word with the largest s; [] without words."""
        found = set()
        for size in range(1, LONGEST + 1):
            for first, run in runs(words, size):
                if self(run, label, other) >= self.threshold:
                    found |= set(range(first, first + size))
        if found or not words:
            return sorted(found)
        return [max(range(len(words)), key=lambda i: self((words[i],), label, other))]


def has_polarities(task: Task) -> bool:
    """Whether ``task`` rewrites texts under another label. Such a task names the two labels."""
    return "polarities" in task.extra


def runs(words: Sequence[str], size: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yields every run of ``size`` words, with the index of its first word."""
    for first in range(len(words) - size + 1):
        yield first, tuple(words[first : first + size])


def salience_of(task: Task, train: Sequence[Example], smoothing: float = 1.0, threshold: float = 0.0) -> Salience:
    """The `Salience` in the training texts of a ``task`` with two ``polarities``. ``threshold`` 0 means the task's
    own."""
    labels = [opposite(task, example) for example in train]
    return Salience([e.inputs[0] for e in train], labels, smoothing, threshold or task.extra["salience"])


def opposite(task: Task, example: Example) -> str:
    """The label that ``example`` has before it gets the wanted one, its second input."""
    first, second = task.extra["polarities"]
    return first if example.inputs[1] == second else second


def without(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """The text of each example without the words that show its label."""
    salience, texts = salience_of(task, train), []
    for example in examples:
        words = example.inputs[0].split()
        gone = set(salience.places(words, opposite(task, example), example.inputs[1]))
        texts.append(" ".join(word for i, word in enumerate(words) if i not in gone))
    return texts
