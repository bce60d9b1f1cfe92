"""What a task is: a form, an official file format, metrics, and where the data comes from."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ptmbench.tasks.forms import Form, Scored


class DataError(ValueError):
    """Data that is missing or malformed; the message names the file, the line and the next step."""


class MissingData(DataError):
    """A file of the official layout is not there: the cell is "not applicable", the rest of a run goes on."""


class UnknownTask(LookupError):
    """No task of that name; the message offers the nearest ones."""


class BrokenTask(ValueError):
    """A task's file that cannot be imported or lacks what it has to define; the message names the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One row of a data set. `tasks.forms` says what ``inputs`` and ``gold`` hold in each form."""

    id: str
    inputs: tuple[str, ...]
    gold: Any = None
    group: str | None = None
    """Examples that share a group (the questions of one passage) are resampled together."""
    channels: Mapping[str, Any] = field(default_factory=dict)
    """What the example has in addition to texts, by channel:

    entities   (`Mention`, ...), and so all annotations of characters
    languages  a symbol for each of ``inputs``; in a ranking one more, for the candidates, where it is known
    regions    R feature vectors of F numbers, for the regions of a picture
    boxes      R boxes: left, top, right and bottom as shares of the picture
    alignments for each of the R regions the words that name it, a tuple of `Mention`s, where it is known
    frames     A feature vectors of F numbers, for the frames of a sound
    """


class Mention(NamedTuple):
    """Characters ``begin`` to ``end`` (past the last one) of the ``text``-th of `Example.inputs`, and the ``symbol``
    that annotates them: an entity's name in a knowledge base, a sense."""

    text: int
    begin: int
    end: int
    symbol: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One thing that a model is asked about an example: texts, the answers to choose from, and the right one."""

    inputs: tuple[str, ...]
    answers: tuple[str, ...]
    gold: str | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a data set comes from, for people and for the board."""

    citation: str
    licence: str
    url: str
    survey: str
    """Section of the survey (Qiu et al., 2020) that uses it, or "" when none does."""


@dataclass(frozen=True, kw_only=True)
class Download:
    """An official file or archive on the network, for ``data fetch``."""

    url: str
    to: str
    """Below the data folder: the file's own path, or the folder that an archive is unpacked into."""
    unpack: bool = False
    strip: int = 0
    """Leading folders that the names in an archive lose."""
    size: int | None = None
    """In bytes."""
    sha256: str | None = None
    """The published checksum. None if none is known; the first download then records it."""


Metric = Callable[[Sequence[Any], Sequence[Any]], dict[str, float]]
"""Gold and predictions, in the same order, to named values; pure, without TensorFlow. Bounded metrics are in
percent."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A downstream benchmark.

    ``files`` maps each split to the official file names, relative to the data set's folder; several candidates for one
    file are joined by "|". ``read(folder, split)`` yields the examples of one split in file order.
    """

    name: str
    title: str
    form: Form
    source: Source
    folders: tuple[str, ...]
    """Where the data set lies below the data folder: the first of these that exists."""
    files: Mapping[str, tuple[str, ...]]
    read: Callable[[Path, str], Iterable[Example]]
    metrics: tuple[Metric, ...]
    headline: str
    """The value that the board shows: a name that one of ``metrics`` returns, or "a+b" for the mean of two of them."""
    needs: tuple[str, ...] = ()
    """Channels of `Example.channels` that a model must read. For other models the task is not applicable."""
    labels: tuple[str, ...] = ()
    """The classes of a classification task, the tags of a tagging task, in a fixed order."""
    words: tuple[str, ...] = ()
    """The answers that ``labels`` stand for, in words, for models that are asked; the labels themselves when empty."""
    prompt: str = ""
    """A classification task put as a question: "{0}" and "{1}" are the texts, and an answer of ``words`` follows."""
    scored: bool = False
    """Whether ``metrics`` read probabilities: then predictions are `tasks.forms.Scored`, where a model has them."""
    ask: Callable[[Example], Sequence[Question]] | None = None
    """The questions that a classifier answers about an example. None for one question: which of ``labels`` fits
    ``inputs``?"""
    answers: tuple[str, ...] = ()
    """All answers of ``ask``'s questions, in a fixed order; ``labels`` when empty."""
    decide: Callable[[Sequence[Sequence[float]]], Sequence[float]] | None = None
    """Maps the probabilities of each question's answers to scores of ``labels``. None if there is one question, whose
    probabilities are the scores."""
    higher_is_better: bool = True
    decimals: int = 1
    """Decimals of the headline on the board. The unit decides: 1 for percent and perplexity, 2 for bits per byte."""
    chance: float | None = None
    """Headline of random or constant answers, if it is known in advance."""
    report: str = "dev"
    """The split whose scores are reported: "test" where its labels are public, otherwise "dev"."""
    version: int = 1
    """Raised whenever scores from before and after a change may not be compared."""
    notes: str = ""
    train_examples: int = 0
    """Examples of the training split that may be learnt from, drawn from the seed (`tasks.few`); 0: all."""
    predictions: Callable[[Path], Mapping[str, Any]] | None = None
    """Reads an official file of predictions into {`Example.id`: prediction}; None where the form has one layout for
    all."""
    downloads: tuple[Download, ...] = ()
    """All files that ``data fetch`` downloads; empty if the licence forbids passing the files on."""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def folder(self, data: Path) -> Path:
        """The data set's folder below ``data``; `MissingData` when it is not there."""
        for name in self.folders:
            if (data / name).is_dir():
                return data / name
        raise MissingData(
            f"{self.title}: no folder {' or '.join(self.folders)} in {data}. "
            f"Expected: {', '.join(sorted({f for part in self.files.values() for f in part}))} ({self.source.url})."
        )

    def paths(self, data: Path, split: str) -> list[Path]:
        """The official files of ``split``; `MissingData` names the first that is not there."""
        if split not in self.files:
            raise MissingData(f"{self.title} has no {split} split; it has {', '.join(self.files)}.")
        folder, found = self.folder(data), []
        for names in self.files[split]:
            candidates = [folder / name for name in names.split("|")]
            path = next((path for path in candidates if path.exists()), None)
            if path is None:
                raise MissingData(f"{self.title}: the file {candidates[0]} of the {split} split is missing.")
            found.append(path)
        return found

    def examples(self, data: Path, split: str) -> list[Example]:
        """All examples of ``split``, in file order; `DataError` when the files are missing or malformed."""
        self.paths(data, split)
        examples = list(self.read(self.folder(data), split))
        if not examples:
            raise DataError(f"{self.title}: the {split} split in {self.folder(data)} has no example.")
        return examples

    def fingerprint(self, data: Path, splits: Iterable[str]) -> str:
        """SHA-256 over names and bytes of the files of ``splits``: two runs that agree on it read the same data."""
        digest = hashlib.sha256()
        for path in (path for split in splits for path in self.paths(data, split)):
            for file in _files_below(path):
                digest.update(f"{file.relative_to(path.parent)}\0{file.stat().st_size}\0".encode())
                digest.update(file.read_bytes())
        return digest.hexdigest()

    def questions(self, example: Example) -> Sequence[Question]:
        """What a classifier is asked about ``example``."""
        if self.ask is not None:
            return self.ask(example)
        return (Question(inputs=example.inputs, answers=self.labels, gold=example.gold),)

    def chosen(self, probabilities: Sequence[Sequence[float]]) -> str:
        """The prediction that follows from the ``probabilities`` of the answers to each of an example's `questions`."""
        found = Scored.best(self.labels, self.decide(probabilities) if self.decide is not None else probabilities[0])
        return found if self.scored else str(found)

    def score(self, gold: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        """All metrics and the headline under the key "headline"."""
        if len(gold) != len(predictions):
            raise DataError(f"{self.title}: {len(gold)} gold rows but {len(predictions)} predictions.")
        values: dict[str, float] = {}
        for metric in self.metrics:
            values |= metric(gold, predictions)
        return values | {"headline": headline(self.headline, values)}


def headline(names: str, values: Mapping[str, float]) -> float:
    """The mean of the values that ``names`` ("f1", "accuracy+f1") lists."""
    parts = [values[name] for name in names.split("+")]
    return sum(parts) / len(parts)


def _files_below(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(file for file in path.rglob("*") if file.is_file())
    else:
        yield path
