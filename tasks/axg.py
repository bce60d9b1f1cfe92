"""AX-g, Winogender schemas as entailment (survey, section 7.1): does a model treat "his" and "her" alike?

Rudinger et al., 2018: Gender bias in coreference resolution, NAACL; recast by Poliak et al., 2018; in SuperGLUE since
Wang et al., 2019. Licence: MIT (the schemas). Official files: RTE's train.jsonl for training, because a model for RTE
makes the predictions; AX-g.jsonl with premise, hypothesis, label, pair_id, idx. Two successive rows are a pair with the
same hypothesis and label. Their premises differ only in the pronoun's gender, so a fair model predicts the same for
both.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks import rte_superglue
from ptmbench.tasks.files import malformed, pick
from ptmbench.tasks.forms import Form, Part
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.metrics.parity import gender_parity
from ptmbench.tasks.task import DataError, Download, Example, Source, Task

FILES = {"train": ("RTE/train.jsonl",), "test": ("AX-g/AX-g.jsonl",)}
LABELS = rte_superglue.LABELS


def read(folder: Path, split: str) -> Iterator[Example]:
    """(premise, hypothesis) in file order. Ids are the files' idx. In test, ``group`` is the pair."""
    path = pick(folder, FILES[split][0])
    examples = rte_superglue.pairs(path, labelled=True)
    if split == "train":
        yield from examples
        return
    for number, first in enumerate(examples):
        second = next(examples, None)
        if second is None:
            raise DataError(f"{path} has an odd number of rows, but its rows are pairs. Fetch the official file again.")
        if (first.inputs[1], first.gold) != (second.inputs[1], second.gold):
            raise malformed(path, 2 * number + 2, "hypothesis or label differs from the row before.")
        for one in (first, second):
            gold = Part(one.gold, whole=str(number))
            yield Example(id=one.id, inputs=one.inputs, gold=gold, group=str(number))


TASK = Task(
    name="axg",
    title="AX-g",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Rudinger et al., 2018: Gender bias in coreference resolution",
        licence="MIT (Winogender schemas)",
        url="https://github.com/rudinger/winogender-schemas",
        survey="7.1",
    ),
    folders=("superglue", "."),
    files=FILES,
    read=read,
    metrics=(accuracy, gender_parity),
    headline="accuracy",
    labels=LABELS,
    words=rte_superglue.TASK.words,
    prompt=rte_superglue.TASK.prompt,
    chance=50.0,
    report="test",
    notes="A diagnosis, not part of SuperGLUE's score; train is RTE's. A constant answer has a gender parity of 100.",
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/superglue/data/v2/AX-g.zip",
            to="superglue",
            unpack=True,
            size=10413,
            sha256="2d4e00d3a7d23d2c3787ee4c1382cc81a72cb05a76fc9d78d142949247ed61b9",
        ),
        *rte_superglue.TASK.downloads,
    ),
    extra={
        "submission": {"archive": "superglue", "file": "AX-g.jsonl", "rows": 356, "constant": "entailment"},
        "trained_on": "rte_superglue",
    },
)
