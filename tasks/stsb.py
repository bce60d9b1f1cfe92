"""STS-B, the Semantic Textual Similarity Benchmark (survey, section 7.1): how similar are two sentences, from 0 to 5?

Cer et al., 2017: SemEval-2017 task 1; in GLUE since Wang et al., 2019. Licence: CC BY-SA 4.0 for the scores, and those
of the sources for the texts. Official files: ten columns and a header. Quotation marks are ordinary characters.
test.tsv has no score.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import number, pick, rows
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.correlation import correlation
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
LOW, HIGH = 0.0, 5.0


def read(folder: Path, split: str) -> Iterator[Example]:
    """Pairs in file order; ids are the files' index."""
    path = pick(folder, FILES[split][0])
    target = () if split == "test" else ("score",)
    for line, (index, first, second, *gold) in rows(path, ("index", "sentence1", "sentence2", *target)):
        score = number(path, line, gold[0], LOW, HIGH) if gold else None
        yield Example(id=index, inputs=(first, second), gold=score)


TASK = Task(
    name="stsb",
    title="STS-B",
    form=Form.REGRESSION,
    source=Source(
        citation="Cer et al., 2017: SemEval-2017 task 1: semantic textual similarity",
        licence="scores CC BY-SA 4.0; texts under the licences of their sources",
        url="https://ixa2.si.ehu.eus/stswiki/index.php/STSbenchmark",
        survey="7.1",
    ),
    folders=("glue/STS-B", "STS-B"),
    files=FILES,
    read=read,
    metrics=(correlation,),
    headline="pearson+spearman",
    chance=0.0,
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/data/STS-B.zip",
            to="glue",
            unpack=True,
            size=802872,
            sha256="e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85",
        ),
    ),
    extra={"submission": {"file": "STS-B.tsv", "rows": 1379, "range": (LOW, HIGH)}},
)
