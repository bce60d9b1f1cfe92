"""What a report split has in common with training data: definitions and counts.

Scores may owe something to examples that a model has seen. This module says which examples of a report split a
training set or a corpus contains. `bench.runs.counted` keeps the counts and gives them to records; ``data check``
prints them. All texts are compared without case and punctuation, in the words of `models.text.runs`.

**Texts.** An example is compared by its texts: of a pair both, of a question the question and its whole context, of a
choice the context and every choice, of tagged words the sentence, of a few-shot question the query without the solved
examples. In a corpus, a cloze is looked for with its answer in the blank.

**Between the splits of a task**, counts of report examples:

same             the texts of a training example are the same, each in its place
same_label       one of these training examples has the same label too; None where the split has no labels
near             each text is the same as, or at a word-level edit similarity of 0.8 to, the text of one training
                 example (`bench.data.near`; edit similarity as in Lee et al., 2022); includes ``same``
run              a run of N words stands in the training set: a "dirty" example of Brown et al. (2020), appendix C, who
                 take as N the 5th percentile of the examples' length in words, at least 8 and at most 13
covered          0.8 of the words lie in such runs: "contaminated" in Touvron et al. (2023b), appendix A.6

A text with fewer than N words is its own run from `LEAST` words on, which Dodge et al. (2021) look for whole; shorter
texts are in every corpus and are not looked for, neither for ``run`` nor for ``covered``.

**Within the report split**: ``repeated`` examples, whose texts another example has too, and of these ``other_label``:
those of which another label stands with the same texts.

**Between a corpus and the report split**: ``checked`` examples (with a text of at least `LEAST` words), and of these
``run`` and ``covered`` as above.

Examples that are near or covered in the training set, or covered in the corpus, are ``overlapping``: the score without
them is the score on the clean part.

What is not found: paraphrases, translations, and texts that another tokenizer has cut into other words ("does n't").
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptmbench.bench.data.near import Texts, similar
from ptmbench.bench.data.passages import Passages, Seen
from ptmbench.models.text.runs import folded
from ptmbench.tasks.forms import BLANK, Form
from ptmbench.tasks.task import Example, Task

VERSION = 1
"""Raised whenever the same data would give other counts."""
LEAST = 5
"""Words of the shortest text that is looked for in other texts."""
SHORTEST, LONGEST = 8, 13
"""Bounds of N, the words of a run (Brown et al., 2020, appendix C)."""
COVERED = 0.8
"""Share of words in common runs from which on an example is covered (Touvron et al., 2023b, appendix A.6)."""


@dataclass(frozen=True)
class Overlap:
    """Counts, and the rows of the report split that they are about."""

    counts: dict[str, Any]
    overlapping: tuple[int, ...]
    """Rows, from 0."""


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
    """The folded texts of one split of ``task``, each distinct one once."""

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
                    known[text] = folded(as_read(text))
            self.examples.append(tuple(known[text] for text in texts))
        self.golds = [None if example.gold is None else repr(example.gold) for example in examples]
        self.texts = list(dict.fromkeys(text for texts in self.examples for text in texts))
        self.number = {text: number for number, text in enumerate(self.texts)}


def run_length(side: Side) -> int:
    """N, the words of the runs that are looked for."""
    words = [sum(text.count(b"\0") for text in texts) for texts in side.examples]
    return int(np.clip(np.percentile(words, 5, method="lower"), SHORTEST, LONGEST))


def between(task: Task, train: Sequence[Example] | None, report: Sequence[Example]) -> Overlap:
    """What ``report`` has in common with ``train``, None for a task that has none, and with itself."""
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
    seen.look(other.texts)
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
    """What the report split of each of ``tasks`` has in common with the documents of ``corpus``, which is read once.

    ``as_read`` spells a text as the corpus spells it; tokenised corpora may have lost case, accents and rare words.
    """
    sides = [Side(task, report, filled=True, as_read=as_read) for task, report in tasks]
    lengths = [run_length(side) for side in sides]
    passages = [Passages(side.texts, length, LEAST) for side, length in zip(sides, lengths, strict=True)]
    seen = Seen(passages)
    seen.look(map(folded, corpus))
    found = []
    for side, length, one in zip(sides, lengths, passages, strict=True):
        checked, run, covered = _in_common(side, one, seen)
        names = {"checked": checked, "run": run, "covered": covered}
        counts = {name: int(rows.sum()) for name, rows in names.items()}
        found.append(Overlap({"run_words": length, **counts}, _rows(covered)))
    return found


def _within(side: Side) -> dict[str, int | None]:
    golds: dict[tuple[bytes, ...], list[str | None]] = {}
    for texts, gold in zip(side.examples, side.golds, strict=True):
        golds.setdefault(texts, []).append(gold)
    several = [found for found in golds.values() if len(found) > 1]
    differing = sum(len(found) for found in several if len(set(found)) > 1)
    return {"repeated": sum(map(len, several)), "other_label": None if None in side.golds else differing}


def _near(own: Side, other: Side, asked: np.ndarray) -> np.ndarray:
    """bool [N]: which of the examples of ``own`` that are ``asked`` for, bool [N], have a near one in ``other``."""
    width = max(map(len, own.examples))
    where: list[dict[bytes, list[tuple[bytes, ...]]]] = [{} for _ in range(width)]
    for texts in dict.fromkeys(other.examples):
        for place, text in enumerate(texts[:width]):
            where[place].setdefault(text, []).append(texts)
    prepared = [Texts(list(found)) for found in where]
    known: dict[tuple[int, bytes], list[tuple[bytes, ...]]] = {}
    answers: dict[tuple[bytes, ...], bool] = {}

    def candidates(place: int, text: bytes) -> list[tuple[bytes, ...]]:
        """The examples of ``other`` that are near in this place."""
        if (place, text) not in known:
            alike = [prepared[place].texts[i] for i in prepared[place].near(text)]
            known[place, text] = [texts for one in (text, *alike) for texts in where[place].get(one, ())]
        return known[place, text]

    def has_near(texts: tuple[bytes, ...]) -> bool:
        """By the place that leaves fewest candidates; the others have to be near in the same training example."""
        fewest = min((candidates(place, text) for place, text in enumerate(texts)), key=len)
        return any(len(one) == len(texts) and all(map(similar, texts, one)) for one in fewest)

    found = np.zeros(len(own.examples), bool)
    for row in np.flatnonzero(asked):
        texts = own.examples[row]
        if texts not in answers:
            answers[texts] = has_near(texts)
        found[row] = answers[texts]
    return found


def _in_common(side: Side, passages: Passages, seen: Seen) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which examples have a text that is looked for, which a run that was seen, which are covered by such: bool [N]."""
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
