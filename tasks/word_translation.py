"""Word translation, or bilingual dictionary induction (survey, section 4.2): which word is the translation of another?

Conneau et al., 2018: Word translation without parallel data, ICLR (MUSE). Official files for each pair of languages:
``en-es.0-5000.txt``, the 5,000 most frequent source words, for learning a map between the languages, and
``en-es.5000-6500.txt``, the next 1,500, for testing. A line has a source word and one translation; a word with several
translations has several lines. "word_translation" is English to Spanish, "word_translation-mw-en" the pair of the
microworld, and so on.

All models choose from the target words of both files. The authors' program uses the 200,000 most frequent words of the
vectors instead. Precision is higher here, and does not depend on the rest of a model's vocabulary.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from ptmbench.tasks.files import fields, lines, malformed, pick
from ptmbench.tasks.forms import Form, Target
from ptmbench.tasks.metrics.ranks import ranking
from ptmbench.tasks.metrics.translations import translations
from ptmbench.tasks.parallel import languages
from ptmbench.tasks.task import Example, Source, Task

PARTS = {"train": "0-5000", "test": "5000-6500"}


def _names(pair: str) -> dict[str, tuple[str, ...]]:
    """The file of the split, then the other files, which have further candidates."""
    every = {split: f"{pair}.{part}.txt" for split, part in PARTS.items()}
    return {split: (own, *(name for name in every.values() if name != own)) for split, own in every.items()}


def _pairs(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yields (line, source word, target word)."""
    for line, text in lines(path):
        words = fields(text)
        if len(words) not in (0, 2):
            raise malformed(path, line, f"a word and its translation are expected, not {text!r:.60}.")
        if words:
            yield line, words[0], words[1]


def read_pair(folder: Path, split: str, *, pair: str) -> Iterator[Example]:
    """One example per line, with the line number from 1 as the id. All lines of a source word are one ``group``."""
    own, *others = [list(_pairs(pick(folder, name))) for name in _names(pair)[split]]
    candidates = {target: target for part in (own, *others) for _, _, target in part}
    right: dict[str, set[str]] = {}
    for _, source, target in own:
        right.setdefault(source, set()).add(target)
    for line, source, target in own:
        gold = Target(target, candidates, right[source], kind=source)
        spoken = {"languages": tuple(pair.split("-"))}  # languages of the word and of the candidates
        yield Example(id=str(line), inputs=(source,), gold=gold, group=source, channels=spoken)


def read(folder: Path, split: str) -> Iterator[Example]:
    """English words with their Spanish translations."""
    return read_pair(folder, split, pair="en-es")


TASK = Task(
    name="word_translation",
    title="Word translation en-es",
    form=Form.RANKING,
    source=Source(
        citation="Conneau et al., 2018: Word translation without parallel data",
        licence="CC BY-NC 4.0",
        url="https://github.com/facebookresearch/MUSE",
        survey="4.2",
    ),
    folders=("muse", "MUSE", "MUSE/data/crosslingual/dictionaries"),
    files=_names("en-es"),
    read=read,
    metrics=(translations, ranking),
    headline="p_at_1",
    report="test",
    version=2,  # since candidates that a model cannot distinguish tie
    notes="The candidates are the target words of the two files, not a vocabulary of 200,000 words.",
)


@cache
def variant(pair: str) -> Task:
    """The task of a pair such as "de-en", named "word_translation-de-en". "en-es" is the default task,
    "word_translation"."""
    source, target = languages("Word translation", pair, "word_translation-de-en")
    if pair == "en-es":
        return TASK
    return replace(
        TASK,
        name=f"word_translation-{source}-{target}",
        title=f"Word translation {source}-{target}",
        files=_names(pair),
        read=partial(read_pair, pair=pair),
    )
