"""Counts the overlap of a report split with training data.

A model may score higher on examples that it has seen in training. This module finds the examples of a report split that
a training set or a corpus contains. `bench.runs.counted` keeps the counts and writes them into records; ``data check``
prints them. All texts are compared without case and punctuation, as sequences of words (`models.text.runs`).

**Texts.** These texts of an example are compared:

pair             both texts
question         the question and its whole context
choice           the context and every choice
tagged words     the sentence
few-shot         the query without the solved examples
cloze            in a corpus, the text with its answer in the blank

**Between the splits of a task**, counts of report examples:

same             a training example has the same texts in the same order
same_label       such a training example also has the same label; None for a split without labels
near             a training example has, for each text, the same text or one with a word-level edit similarity of at
                 least 0.8 (`bench.data.near`; Lee et al., 2022); includes ``same``
run              a run of N words of the example also occurs in the training set: "dirty" in Brown et al. (2020),
                 appendix C. N is the 5th percentile of the examples' lengths in words, at least 8 and at most 13
covered          0.8 of the words lie in such runs: "contaminated" in Touvron et al. (2023b), appendix A.6

A text with at least `LEAST` but fewer than N words counts as one run, as in Dodge et al. (2021). Shorter texts occur in
every corpus, so ``run`` and ``covered`` ignore them.

**Within the report split**, counts of examples:

repeated         another example has the same texts
other_label      another example has the same texts and a different label

**Between a corpus and the report split**, counts of report examples:

checked          at least one text has `LEAST` words or more
run, covered     as above

An example is ``overlapping`` if it is near or covered in the training set, or covered in the corpus. The clean part of
a split is the rest.

Paraphrases and translations are not found. Neither are texts that another tokenizer has split in another way
("does n't").
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptmbench.bench.data.near import Texts, similar
from ptmbench.bench.data.passages import Passages, Seen
from ptmbench.models.text.runs import fold_words
from ptmbench.tasks.forms import BLANK, Form
from ptmbench.tasks.task import Example, Task

VERSION = 1
"""Raised whenever the same data would give different counts."""
LEAST = 5
"""Smallest number of words of a text that ``run`` and ``covered`` look for."""
SHORTEST, LONGEST = 8, 13
"""Bounds of N, the number of words of a run (Brown et al., 2020, appendix C)."""
COVERED = 0.8
"""Smallest share of an example's words in common runs at which it is covered (Touvron et al., 2023b, appendix A.6)."""


@dataclass(frozen=True)
class Overlap:
    """Counts, and the overlapping examples of the report split."""

    counts: dict[str, Any]
    overlapping: tuple[int, ...]
    """Indices of the overlapping examples."""


def texts_of(form: Form, example: Example) -> tuple[str, ...]:
    """The texts of ``example`` that are compared."""
    if form in (Form.TAGGING, Form.POINTING):
        return (" ".join(example.inputs),)
    if form is Form.SPAN:
        return example.inputs[0], "".join(example.inputs[1:])
    if form is Form.FEW_SHOT:
        return example.inputs[:1]
    return example.inputs


class Side:
    """The folded texts of one split of ``task``, without duplicates.

    With ``filled``, the blank of a cloze has its answer. ``as_read`` changes each text before it is folded.
    """

    def __init__(
        self,
        task: Task,
        examples: Sequence[Example],
        *,
        filled: bool = False,
        as_read: Callable[[str], str] = str,
    ) -> None:
        known: dict[str, bytes] = {}
        self.examples = []
        """The texts of each example."""
        for example in examples:
            texts = texts_of(task.form, example)
            if filled and task.form is Form.CLOZE:
                texts = tuple(text.replace(BLANK, str(example.gold)) for text in texts)
            for text in texts:
                if text not in known:
                    known[text] = fold_words(as_read(text))
            self.examples.append(tuple(known[text] for text in texts))
        self.golds = [None if example.gold is None else repr(example.gold) for example in examples]
        self.texts = list(dict.fromkeys(text for texts in self.examples for text in texts))
        self.number = {text: number for number, text in enumerate(self.texts)}


def run_length(side: Side) -> int:
    """N, the number of words of a run."""
    words = [sum(text.count(b"\0") for text in texts) for texts in side.examples]
    return int(np.clip(np.percentile(words, 5, method="lower"), SHORTEST, LONGEST))


def between(task: Task, train: Sequence[Example] | None, report: Sequence[Example]) -> Overlap:
    """The overlap of ``report`` with ``train`` and with itself. ``train`` is None for a task without training data."""
    own = Side(task, report)
    length = run_length(own)
    counts: dict[str, Any] = {"run_words": length, "report": {"examples": len(report), **_within(own)}}
    if train is None:
        return Overlap(counts, ())
    other = Side(task, train)
    golds: dict[tuple[bytes, ...], set[str | None]] = {}
    for texts, gold in zip(other.examples, other.golds, strict=True):
        golds.setdefault(texts, set()).add(gold)
    same = np.array([texts in golds for texts in own.examples])
    labelled = [gold in golds.get(texts, ()) for texts, gold in zip(own.examples, own.golds, strict=True)]
    near = same | _near(own, other, ~same)
    passages = Passages(own.texts, length, LEAST)
    seen = Seen([passages])
    seen.search(other.texts)
    _, run, covered = _in_common(own, passages, seen)
    overlapping = near | covered
    counts["train"] = {
        "examples": len(train),
        "same": int(same.sum()),
        "same_label": None if None in own.golds else sum(labelled),
        "near": int(near.sum()),
        "run": int(run.sum()),
        "covered": int(covered.sum()),
        "overlapping": int(overlapping.sum()),
    }
    return Overlap(counts, _rows(overlapping))


def against(
    tasks: Sequence[tuple[Task, Sequence[Example]]], corpus: Iterable[str], as_read: Callable[[str], str] = str
) -> list[Overlap]:
    """The overlap of the report split of each task with the documents of ``corpus``, which is read once.

    ``as_read`` rewrites a text as the corpus would have it: a tokenised corpus may lack case, accents and rare words.
    """
    sides = [Side(task, report, filled=True, as_read=as_read) for task, report in tasks]
    lengths = [run_length(side) for side in sides]
    passages = [Passages(side.texts, length, LEAST) for side, length in zip(sides, lengths, strict=True)]
    seen = Seen(passages)
    seen.search(map(fold_words, corpus))
    found = []
    for side, length, one in zip(sides, lengths, passages, strict=True):
        checked, run, covered = _in_common(side, one, seen)
        names = {"checked": checked, "run": run, "covered": covered}
        counts = {name: int(rows.sum()) for name, rows in names.items()}
        found.append(Overlap({"run_words": length, **counts}, _rows(covered)))
    return found


def _within(side: Side) -> dict[str, int | None]:
    """Counts of repeated examples in one split."""
    golds: dict[tuple[bytes, ...], list[str | None]] = {}
    for texts, gold in zip(side.examples, side.golds, strict=True):
        golds.setdefault(texts, []).append(gold)
    several = [found for found in golds.values() if len(found) > 1]
    differing = sum(len(found) for found in several if len(set(found)) > 1)
    return {"repeated": sum(map(len, several)), "other_label": None if None in side.golds else differing}


def _near(own: Side, other: Side, wanted: np.ndarray) -> np.ndarray:
    """Which examples of ``own`` have a near one in ``other``: bool [N]. Only ``wanted`` ones (bool [N]) count."""
    width = max(map(len, own.examples))
    where: list[dict[bytes, list[tuple[bytes, ...]]]] = [{} for _ in range(width)]
    for texts in dict.fromkeys(other.examples):
        for place, text in enumerate(texts[:width]):
            where[place].setdefault(text, []).append(texts)
    prepared = [Texts(list(found)) for found in where]
    known: dict[tuple[int, bytes], list[tuple[bytes, ...]]] = {}
    answers: dict[tuple[bytes, ...], bool] = {}

    def candidates(place: int, text: bytes) -> list[tuple[bytes, ...]]:
        """The examples of ``other`` whose text in this place is near ``text``."""
        if (place, text) not in known:
            alike = [prepared[place].texts[i] for i in prepared[place].near(text)]
            known[place, text] = [texts for one in (text, *alike) for texts in where[place].get(one, ())]
        return known[place, text]

    def has_near(texts: tuple[bytes, ...]) -> bool:
        """Starts from the place with the fewest candidates. The other texts have to be near in the same example."""
        fewest = min((candidates(place, text) for place, text in enumerate(texts)), key=len)
        return any(len(one) == len(texts) and all(map(similar, texts, one)) for one in fewest)

    found = np.zeros(len(own.examples), bool)
    for row in np.flatnonzero(wanted):
        texts = own.examples[row]
        if texts not in answers:
            answers[texts] = has_near(texts)
        found[row] = answers[texts]
    return found


def _in_common(side: Side, passages: Passages, seen: Seen) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which examples are checked, have a run that was seen, and are covered by such runs: three times bool [N]."""
    any_, words = passages.covered(seen)
    sizes = passages.sizes * passages.checked
    rows = [[side.number[text] for text in texts] for texts in side.examples]
    owners = np.repeat(np.arange(len(rows)), list(map(len, rows)))
    flat = np.concatenate([np.array(row, np.int64) for row in rows])
    whole, inside = (np.bincount(owners, weights=part[flat], minlength=len(rows)) for part in (sizes, words))
    checked = whole > 0
    run = np.bincount(owners, weights=any_[flat], minlength=len(rows)) > 0
    return checked, run, checked & (inside >= COVERED * whole)


def _rows(flags: np.ndarray) -> tuple[int, ...]:
    return tuple(np.flatnonzero(flags).tolist())
