"""The definition of a task: a form, an official file format, metrics, and the source of the data."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ptmbench.tasks.forms import Form, Scored


class DataError(ValueError):
    """Missing or malformed data. The message names the file, the line and the next step."""


class MissingData(DataError):
    """A file of the official layout is missing. The cell is "not applicable" and the run continues."""


class UnknownTask(LookupError):
    """There is no task of that name. The message offers the nearest names."""


class BrokenTask(ValueError):
    """A task file that cannot be imported or lacks a required definition. The message names the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One row of a data set. `tasks.forms` defines ``inputs`` and ``gold`` for each form."""

    id: str
    inputs: tuple[str, ...]
    gold: Any = None
    group: str | None = None
    """Examples that share a group (the questions of one passage) are resampled together."""
    channels: Mapping[str, Any] = field(default_factory=dict)
    """The inputs of the example other than texts, by channel:

    entities   (`Mention`, ...); other annotations of characters have the same layout
    languages  a symbol for each of ``inputs``; a ranking has one more for the candidates, if it is known
    regions    R feature vectors of F numbers, for the regions of a picture
    boxes      R boxes: left, top, right and bottom as fractions of the picture
    alignments for each of the R regions the words that name it, a tuple of `Mention`s, if they are known
    frames     A feature vectors of F numbers, for the frames of a sound
    """


class Mention(NamedTuple):
    """An annotation of the characters ``begin`` to ``end`` (exclusive) of `Example.inputs`[``text``]. ``symbol`` is,
    for example, the name of an entity in a knowledge base, or a word sense."""

    text: int
    begin: int
    end: int
    symbol: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question to a classifier about an example: texts, the possible answers, and the right one."""

    inputs: tuple[str, ...]
    answers: tuple[str, ...]
    gold: str | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """The origin of a data set, as shown to users and on the board."""

    citation: str
    licence: str
    url: str
    survey: str
    """The section of the survey (Qiu et al., 2020) that uses the data set, or "" if none does."""


@dataclass(frozen=True, kw_only=True)
class Download:
    """An official file or archive that ``data fetch`` downloads."""

    url: str
    to: str
    """A path below the data folder: the file itself, or the folder that an archive is unpacked into."""
    unpack: bool = False
    strip: int = 0
    """The number of leading folders that are removed from the names in an archive."""
    size: int | None = None
    """In bytes."""
    sha256: str | None = None
    """The published checksum. If it is None, the first download records its own."""


Metric = Callable[[Sequence[Any], Sequence[Any]], dict[str, float]]
"""Maps gold and predictions, in the same order, to named values. Bounded metrics are in percent."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A downstream benchmark.

    ``files`` maps each split to the official file names, relative to the data set's folder. Alternative names of one
    file are joined by "|". ``read(folder, split)`` yields the examples of one split in file order.
    """

    name: str
    title: str
    form: Form
    source: Source
    folders: tuple[str, ...]
    """Possible folders of the data set below the data folder. The first that exists is used."""
    files: Mapping[str, tuple[str, ...]]
    read: Callable[[Path, str], Iterable[Example]]
    metrics: tuple[Metric, ...]
    headline: str
    """The value that the board shows: a name that one of ``metrics`` returns, or "a+b" for the mean of several."""
    needs: tuple[str, ...] = ()
    """Channels of `Example.channels` that a model must read. For other models the task is not applicable."""
    labels: tuple[str, ...] = ()
    """The classes of a classification task or the tags of a tagging task, in a fixed order."""
    words: tuple[str, ...] = ()
    """The answers in words that ``labels`` stand for, for models that are prompted. If empty, the labels themselves."""
    prompt: str = ""
    """The question of a classification task. "{0}" and "{1}" are the texts; one of ``words`` follows as the answer."""
    scored: bool = False
    """Whether ``metrics`` use probabilities. If so, predictions are `tasks.forms.Scored` for models that give them."""
    ask: Callable[[Example], Sequence[Question]] | None = None
    """Returns the questions that a classifier answers about an example. None for a single question: which of ``labels``
    fits ``inputs``?"""
    answers: tuple[str, ...] = ()
    """All answers to the questions of ``ask``, in a fixed order. If empty, ``labels``."""
    decide: Callable[[Sequence[Sequence[float]]], Sequence[float]] | None = None
    """Maps the probabilities of each question's answers to scores of ``labels``. None if there is one question and its
    probabilities are the scores."""
    higher_is_better: bool = True
    decimals: int = 1
    """Decimals of the headline on the board: 1 for percent and perplexity, 2 for bits per byte."""
    chance: float | None = None
    """The headline of random or constant answers, if it is known in advance."""
    report: str = "dev"
    """The split whose scores are reported, usually "test" if its labels are public and "dev" otherwise."""
    version: int = 1
    """Increased whenever a change makes scores incomparable with earlier ones."""
    notes: str = ""
    train_examples: int = 0
    """The number of training examples to use, drawn with the seed (`tasks.few`). 0 means all."""
    predictions: Callable[[Path], Mapping[str, Any]] | None = None
    """Reads an official prediction file into {`Example.id`: prediction}. None if the form's common layout is used."""
    downloads: tuple[Download, ...] = ()
    """All files that ``data fetch`` downloads. Empty if users have to get them elsewhere."""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def folder(self, data: Path) -> Path:
        """The data set's folder below ``data``. Raises `MissingData` if there is none."""
        for name in self.folders:
            if (data / name).is_dir():
                return data / name
        raise MissingData(
            f"{self.title}: no folder {' or '.join(self.folders)} in {data}. "
            f"Expected: {', '.join(sorted({f for part in self.files.values() for f in part}))} ({self.source.url})."
        )

    def paths(self, data: Path, split: str) -> list[Path]:
        """The official files of ``split``. Raises `MissingData`, which names the first missing file."""
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
        """All examples of ``split``, in file order. Raises `DataError` if the files are missing or malformed."""
        self.paths(data, split)
        examples = list(self.read(self.folder(data), split))
        if not examples:
            raise DataError(f"{self.title}: the {split} split in {self.folder(data)} has no example.")
        return examples

    def fingerprint(self, data: Path, splits: Iterable[str]) -> str:
        """SHA-256 of the names and bytes of the files of ``splits``. Runs with equal values read the same data."""
        digest = hashlib.sha256()
        for path in (path for split in splits for path in self.paths(data, split)):
            for file in _files_below(path):
                digest.update(f"{file.relative_to(path.parent)}\0{file.stat().st_size}\0".encode())
                digest.update(file.read_bytes())
        return digest.hexdigest()

    def questions(self, example: Example) -> Sequence[Question]:
        """The questions that a classifier answers about ``example``."""
        if self.ask is not None:
            return self.ask(example)
        return (Question(inputs=example.inputs, answers=self.labels, gold=example.gold),)

    def chosen(self, probabilities: Sequence[Sequence[float]]) -> str:
        """The predicted label, given the ``probabilities`` of the answers to each of an example's `questions`."""
        found = Scored.best(self.labels, self.decide(probabilities) if self.decide is not None else probabilities[0])
        return found if self.scored else str(found)

    def score(self, gold: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        """The values of all metrics, and the headline under the key "headline"."""
        if len(gold) != len(predictions):
            raise DataError(f"{self.title}: {len(gold)} gold rows but {len(predictions)} predictions.")
        values: dict[str, float] = {}
        for metric in self.metrics:
            values |= metric(gold, predictions)
        return values | {"headline": headline(self.headline, values)}


def headline(names: str, values: Mapping[str, float]) -> float:
    """The mean of the values named in ``names``, such as "f1" or "accuracy+f1"."""
    parts = [values[name] for name in names.split("+")]
    return sum(parts) / len(parts)


def _files_below(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(file for file in path.rglob("*") if file.is_file())
    else:
        yield path
