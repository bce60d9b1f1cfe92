"""MNLI, matched (survey, section 7.1): does a premise entail a hypothesis, contradict it, or neither?

Williams, Nangia & Bowman, 2018: A broad-coverage challenge corpus for sentence understanding through inference, NAACL;
in GLUE since Wang et al., 2019. Licence: mostly OANC's (free), several for fiction. Official files: twelve columns in
train.tsv, sixteen in dev_matched.tsv (five votes and the gold label), ten in test_matched.tsv. "Matched" means that dev
and test have the genres of train.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import label, pick, rows
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.tsv",), "dev": ("dev_matched.tsv",), "test": ("test_matched.tsv",)}
LABELS = ("entailment", "neutral", "contradiction")
UNDECIDED = "-"
"""Gold if the annotators have no majority. Such pairs are left out, as in official readers."""


def read(folder: Path, split: str) -> Iterator[Example]:
    """Pairs in file order; ids are the files' index."""
    yield from pairs(pick(folder, FILES[split][0]), labelled=split != "test")


def pairs(path: Path, *, labelled: bool) -> Iterator[Example]:
    """The (premise, hypothesis) pairs of one file. Also used for the other test sets of MNLI models."""
    target = ("gold_label",) if labelled else ()
    for line, (index, premise, hypothesis, *gold) in rows(path, ("index", "sentence1", "sentence2", *target)):
        if gold == [UNDECIDED]:
            continue
        yield Example(id=index, inputs=(premise, hypothesis), gold=label(path, line, gold[0], LABELS) if gold else None)


TASK = Task(
    name="mnli",
    title="MNLI-m",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Williams et al., 2018: A broad-coverage challenge corpus for sentence understanding",
        licence="OANC's terms for most genres; fiction: CC BY 3.0, CC BY-SA 3.0 and others",
        url="https://cims.nyu.edu/~sbowman/multinli/",
        survey="7.1",
    ),
    folders=("glue/MNLI", "MNLI"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("True", "Neither", "False"),
    prompt="{0} Question: {1} True, False or Neither? Answer:",
    chance=100.0 / 3.0,
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/data/MNLI.zip",
            to="glue",
            unpack=True,
            size=312783507,
            sha256="e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633",
        ),
    ),
    extra={"submission": {"file": "MNLI-m.tsv", "rows": 9796, "constant": "entailment"}},
)
