"""COPA, Choice of Plausible Alternatives (survey, section 7.1): which of two events is the cause or effect of a third?

Roemmele, Bejan & Gordon, 2011: Choice of plausible alternatives, AAAI symposium; in SuperGLUE since Wang et al., 2019.
Licence: BSD 2-clause. Official files: JSON lines with premise, question ("cause" or "effect"), choice1, choice2, idx
and, in train and val, label.

The question becomes a word of the context: "The man fell." becomes "The man fell because" if the cause is asked for,
and "The man fell so" for the effect. Any model can continue these, even if it has never seen questions such as "What
was the CAUSE?".
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import entry, json_lines, label, malformed, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.jsonl",), "dev": ("val.jsonl",), "test": ("test.jsonl",)}
CONNECTIVES = {"cause": "because", "effect": "so"}


def read(folder: Path, split: str) -> Iterator[Example]:
    """(context, first choice, second choice) in file order; ids are the files' idx."""
    path = pick(folder, FILES[split][0])
    for line, record in json_lines(path):
        premise, first, second = (entry(path, line, record, key) for key in ("premise", "choice1", "choice2"))
        question = label(path, line, entry(path, line, record, "question"), tuple(CONNECTIVES))
        gold = entry(path, line, record, "label", int) if split != "test" else None
        if gold not in (None, 0, 1):
            raise malformed(path, line, f"the label {gold} is not one of 0, 1.")
        context = f"{premise.strip().removesuffix('.')} {CONNECTIVES[question]}"
        yield Example(id=str(entry(path, line, record, "idx", int)), inputs=(context, first, second), gold=gold)


TASK = Task(
    name="copa",
    title="COPA",
    form=Form.CHOICE,
    source=Source(
        citation="Roemmele et al., 2011: Choice of plausible alternatives",
        licence="BSD 2-clause",
        url="https://people.ict.usc.edu/~gordon/copa.html",
        survey="7.1",
    ),
    folders=("superglue/COPA", "COPA"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    chance=50.0,
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/superglue/data/v2/COPA.zip",
            to="superglue",
            unpack=True,
            size=43986,
            sha256="405906cddac74bc1e1ce8220f1107d1025b66a25ef10149d91b10bb30651125f",
        ),
    ),
    extra={"submission": {"archive": "superglue", "file": "COPA.jsonl", "rows": 500, "constant": 0}},
)
