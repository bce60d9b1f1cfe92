"""CB, the CommitmentBank (survey, section 7.1): how committed is a speaker to the content of an embedded clause?

De Marneffe, Simons & Tonhauser, 2019: The CommitmentBank, Sinn und Bedeutung 23; as three-way entailment in SuperGLUE
(Wang et al., 2019). Licence: none stated, for research. Official files: JSON lines with premise, hypothesis, idx and,
in train and val, label. "Neutral" is rare (5 of the 56 rows of val), so macro F1 is reported in addition to accuracy.
The released val has 56 rows; the papers say 57.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import entry, json_lines, label, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.metrics.macro_f1 import macro_f1
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.jsonl",), "dev": ("val.jsonl",), "test": ("test.jsonl",)}
LABELS = ("entailment", "contradiction", "neutral")


def read(folder: Path, split: str) -> Iterator[Example]:
    """(premise, hypothesis) pairs in file order; ids are the files' idx."""
    path = pick(folder, FILES[split][0])
    for line, record in json_lines(path):
        gold = label(path, line, entry(path, line, record, "label"), LABELS) if split != "test" else None
        inputs = (entry(path, line, record, "premise"), entry(path, line, record, "hypothesis"))
        yield Example(id=str(entry(path, line, record, "idx", int)), inputs=inputs, gold=gold)


TASK = Task(
    name="cb",
    title="CB",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="De Marneffe et al., 2019: The CommitmentBank: investigating projection",
        licence="none stated; for research",
        url="https://github.com/mcdm/CommitmentBank",
        survey="7.1",
    ),
    folders=("superglue/CB", "CB"),
    files=FILES,
    read=read,
    metrics=(accuracy, macro_f1),
    headline="accuracy+macro_f1",
    labels=LABELS,
    words=("True", "False", "Neither"),
    prompt="{0} Question: {1} True, False or Neither? Answer:",
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/superglue/data/v2/CB.zip",
            to="superglue",
            unpack=True,
            size=75482,
            sha256="8d641383298d54554066ba1c93f56ae7410af75df621b90c63028806bbbbb535",
        ),
    ),
    extra={"submission": {"archive": "superglue", "file": "CB.jsonl", "rows": 250, "constant": "contradiction"}},
)
