"""MNLI, mismatched (survey, section 7.1): MNLI's training pairs, tested on other genres.

Williams, Nangia & Bowman, 2018 (see `tasks.mnli`). Official files: MNLI's train.tsv; dev_mismatched.tsv,
test_mismatched.tsv.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ptmbench.tasks import mnli
from ptmbench.tasks.files import pick
from ptmbench.tasks.task import Example

FILES = {"train": ("train.tsv",), "dev": ("dev_mismatched.tsv",), "test": ("test_mismatched.tsv",)}


def read(folder: Path, split: str) -> Iterator[Example]:
    """Pairs in file order; ids are the files' index."""
    yield from mnli.pairs(pick(folder, FILES[split][0]), labelled=split != "test")


TASK = replace(
    mnli.TASK,
    name="mnli_mm",
    title="MNLI-mm",
    files=FILES,
    read=read,
    notes="Trained as mnli is: a model fine-tuned on mnli serves mnli_mm too.",
    extra={"submission": {"file": "MNLI-mm.tsv", "rows": 9847, "constant": "entailment"}, "trained_on": "mnli"},
)
