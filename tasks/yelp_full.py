"""Yelp full (survey, section 7.3): how many stars, one to five, does a review of a business give?

Zhang, Zhao & LeCun, 2015: Character-level convolutional networks for text classification, NeurIPS. Licence: Yelp's data
set terms, for research. Official files: train.csv (650000 rows) and test.csv (50000) with stars and review, no header.
The authors keep them on a shared drive; ``data fetch`` downloads the copy that most libraries use.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import comma_rows, label_with_number, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.csv",), "test": ("test.csv",)}
LABELS = ("1", "2", "3", "4", "5")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Texts in file order; ids are the row's position from 0."""
    path = pick(folder, FILES[split][0])
    for position, (line, (number, text)) in enumerate(comma_rows(path, 2)):
        yield Example(id=str(position), inputs=(text,), gold=label_with_number(path, line, number, LABELS))


TASK = Task(
    name="yelp_full",
    title="Yelp F.",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Zhang et al., 2015: Character-level convolutional networks for text classification",
        licence="Yelp's data set terms, for research",
        url="https://course.fast.ai/datasets",
        survey="7.3",
    ),
    folders=("yelp_review_full_csv", "yelp_full"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("terrible", "bad", "okay", "good", "great"),
    prompt="{0} It was",
    chance=20.0,
    report="test",
    downloads=(
        Download(
            url="https://s3.amazonaws.com/fast-ai-nlp/yelp_review_full_csv.tgz",
            to=".",
            unpack=True,
            size=196146755,
            sha256="56006b0a17a370f1e366504b1f2c3e3754e4a3dda17d3e718a885c552869a559",
        ),
    ),
)
