"""IMDb, the Large Movie Review Dataset (survey, section 7.3): is a review of a film good or bad?

Maas et al., 2011: Learning word vectors for sentiment analysis, ACL. Licence: none stated, for research. Official
files: aclImdb/{train,test}/{neg,pos}/*.txt, one review a file named "number_stars", 12500 in each folder. Line breaks
of the web page, ``<br />``, are replaced by spaces. Reviews with five or six stars are in neither class.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import lines, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import DataError, Download, Example, Source, Task

FILES = {"train": ("train",), "test": ("test",)}
LABELS = ("neg", "pos")


def read(folder: Path, split: str) -> Iterator[Example]:
    """The "neg" reviews, then the "pos" ones, sorted by file name. Ids have the form "neg/0_3"."""
    place = pick(folder, FILES[split][0])
    for label in LABELS:
        found = sorted((place / label).glob("*.txt"))
        if not found:
            raise DataError(f"{place / label} holds no review (*.txt); unpack the official archive again.")
        for path in found:
            text = " ".join(text for _, text in lines(path)).replace("<br />", " ")
            yield Example(id=f"{label}/{path.stem}", inputs=(" ".join(text.split()),), gold=label)


TASK = Task(
    name="imdb",
    title="IMDb",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Maas et al., 2011: Learning word vectors for sentiment analysis",
        licence="none stated; for research",
        url="https://ai.stanford.edu/~amaas/data/sentiment/",
        survey="7.3",
    ),
    folders=("aclImdb", "imdb"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("bad", "good"),
    prompt="{0} It was",
    chance=50.0,
    report="test",
    downloads=(
        Download(
            url="https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            to=".",
            unpack=True,
            size=84125825,
            sha256="c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        ),
    ),
)
