"""SST-2, the Stanford Sentiment Treebank in two classes (survey, sections 7.1, 7.3): is a line of a film review
positive?

Socher et al., 2013: Recursive deep models for semantic compositionality over a sentiment treebank, EMNLP; in GLUE since
Wang et al., 2019. Licence: none stated; reviews from rottentomatoes.com, for research. Official files: a header;
train.tsv has phrases, dev.tsv and test.tsv whole sentences. All are tokenised and lower-cased, and many end with a
space.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import label, pick, rows
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
LABELS = ("0", "1")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Sentences in file order; ids are the test file's index, elsewhere the row's position from 0."""
    path = pick(folder, FILES[split][0])
    if split == "test":
        for _, (index, sentence) in rows(path, ("index", "sentence")):
            yield Example(id=index, inputs=(sentence,))
        return
    for position, (line, (sentence, gold)) in enumerate(rows(path, ("sentence", "label"))):
        yield Example(id=str(position), inputs=(sentence,), gold=label(path, line, gold, LABELS))


TASK = Task(
    name="sst2",
    title="SST-2",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Socher et al., 2013: Recursive deep models for semantic compositionality over a sentiment treebank",
        licence="none stated; film reviews, for research",
        url="https://nlp.stanford.edu/sentiment/",
        survey="7.3",
    ),
    folders=("glue/SST-2", "SST-2"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("bad", "good"),
    prompt="{0} it is",
    chance=50.0,
    downloads=(
        Download(
            url="https://dl.fbaipublicfiles.com/glue/data/SST-2.zip",
            to="glue",
            unpack=True,
            size=7439277,
            sha256="d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
        ),
    ),
    extra={"submission": {"file": "SST-2.tsv", "rows": 1821, "constant": "1"}},
)
