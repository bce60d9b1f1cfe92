"""BLiMP: which of two sentences is acceptable English? CoLA's question (survey, section 7.1) without training.

Warstadt et al., 2020: BLiMP, the benchmark of linguistic minimal pairs for English, TACL 8. Licence: CC BY 4.0.
Official files: ``data/PARADIGM.jsonl``, JSON lines {sentence_good, sentence_bad, UID, linguistics_term, pairID}; 67
paradigms of 12 phenomena, 1,000 pairs each. A model scores each sentence as a whole (the paper's "full-sentence"
method). The headline is the share of pairs in which the acceptable sentence has the higher score. All paradigms have
the same size, so it is also the mean over paradigms. The record also has the accuracy of each phenomenon (table 3 of
the paper), with the names in the files: "s-selection" for two paradigms that the table counts as argument structure.

"blimp" has all pairs. "blimp-100" has the first 100 pairs of each paradigm; any other number works as well.
Pseudo-likelihoods read a sentence once for each of its tokens, and the pairs of a paradigm are similar to each other.
"""

import re
from collections.abc import Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path

from ptmbench.tasks.files import entry, json_lines, pick
from ptmbench.tasks.forms import Form, Part
from ptmbench.tasks.metrics.minimal_pairs import preference
from ptmbench.tasks.task import DataError, Example, Source, Task, UnknownTask

PHENOMENA = (
    "anaphor_agreement",
    "argument_structure",
    "binding",
    "control_raising",
    "determiner_noun_agreement",
    "ellipsis",
    "filler_gap_dependency",
    "irregular_forms",
    "island_effects",
    "npi_licensing",
    "quantifiers",
    "s-selection",
    "subject_verb_agreement",
)
"""The values of ``linguistics_term`` in the official files."""


def read_first(folder: Path, split: str, *, pairs: int | None = None) -> Iterator[Example]:
    """The first ``pairs`` pairs of each paradigm, or all. Paradigms are sorted by name, and pairs are in file order.

    Ids are "PARADIGM-pairID". Gold is the paradigm, and its kind is the phenomenon.
    """
    data = pick(folder, "data")
    paths = sorted(data.glob("*.jsonl"))
    if not paths:
        raise DataError(f"{data} has no PARADIGM.jsonl. Fetch BLiMP again.")
    for path in paths:
        for line, pair in islice(json_lines(path), pairs):
            name, phenomenon, number, *sentences = (
                entry(path, line, pair, key)
                for key in ("UID", "linguistics_term", "pairID", "sentence_good", "sentence_bad")
            )
            gold, spoken = Part(name, kind=phenomenon), {"languages": ("en", "en")}
            yield Example(id=f"{name}-{number}", inputs=tuple(sentences), gold=gold, channels=spoken)


read = read_first


@cache
def variant(name: str) -> Task:
    """The task with the first ``name`` pairs of each paradigm. "" is the default task with all pairs."""
    if name and not re.fullmatch(r"[1-9]\d{0,5}", name):
        raise UnknownTask(f"BLiMP has no '{name}'. 'blimp-100' has the first 100 pairs of each paradigm.")
    return Task(
        name=f"blimp-{name}" if name else "blimp",
        title=f"BLiMP, {name} of each paradigm" if name else "BLiMP",
        form=Form.MINIMAL_PAIR,
        source=Source(
            citation="Warstadt et al., 2020: BLiMP, the benchmark of linguistic minimal pairs for English",
            licence="CC BY 4.0",
            url="https://github.com/alexwarstadt/blimp",
            survey="",
        ),
        folders=("blimp",),
        files={"test": ("data",)},
        read=partial(read_first, pairs=int(name)) if name else read,
        metrics=(preference(PHENOMENA),),
        headline="accuracy",
        chance=50.0,
        report="test",
    )


TASK = variant("")
