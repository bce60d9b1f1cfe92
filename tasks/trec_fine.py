"""TREC question classification, fifty classes (survey, section 7.3): the fine classes of `tasks.trec`'s files.

Li & Roth, 2002: Learning question classifiers, COLING. Licence: none stated, for research.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ptmbench.tasks import trec
from ptmbench.tasks.files import label, pick
from ptmbench.tasks.task import Example

FINE = {
    "ABBR": "abb exp",
    "DESC": "def desc manner reason",
    "ENTY": "animal body color cremat currency dismed event food instru lang letter other plant product religion sport "
    "substance symbol techmeth termeq veh word",
    "HUM": "desc gr ind title",
    "LOC": "city country mount other state",
    "NUM": "code count date dist money ord other perc period speed temp volsize weight",
}
LABELS = tuple(f"{coarse}:{fine}" for coarse, all_fine in FINE.items() for fine in all_fine.split())


def read(folder: Path, split: str) -> Iterator[Example]:
    """Questions in file order; ids are the row's position from 0."""
    path = pick(folder, trec.FILES[split][0])
    for position, (line, fine, _, question) in enumerate(trec.questions(path)):
        yield Example(id=str(position), inputs=(question,), gold=label(path, line, fine, LABELS))


TASK = replace(trec.TASK, name="trec_fine", title="TREC-50", read=read, labels=LABELS, words=(), prompt="{0} Class:")
