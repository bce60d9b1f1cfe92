"""Yelp polarity (survey, section 7.3): is a review of a business good or bad?

Zhang, Zhao & LeCun, 2015: Character-level convolutional networks for text classification, NeurIPS. Licence: Yelp's data
set terms, for research. Official files: train.csv (560000 rows) and test.csv (38000) with class (1: one or two stars,
2: three or four, as the authors count them) and review, no header. The authors keep them on a shared drive; ``data
fetch`` downloads the copy that most libraries use.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import comma_rows, label_with_number, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.csv",), "test": ("test.csv",)}
LABELS = ("negative", "positive")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Texts in file order; ids are the row's position from 0."""
    path = pick(folder, FILES[split][0])
    for position, (line, (number, text)) in enumerate(comma_rows(path, 2)):
        yield Example(id=str(position), inputs=(text,), gold=label_with_number(path, line, number, LABELS))


TASK = Task(
    name="yelp_polarity",
    title="Yelp P.",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Zhang et al., 2015: Character-level convolutional networks for text classification",
        licence="Yelp's data set terms, for research",
        url="https://course.fast.ai/datasets",
        survey="7.3",
    ),
    folders=("yelp_review_polarity_csv", "yelp_polarity"),
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
            url="https://s3.amazonaws.com/fast-ai-nlp/yelp_review_polarity_csv.tgz",
            to=".",
            unpack=True,
            size=166373201,
            sha256="528f22e286cad085948acbc3bea7e58188416546b0e364d0ae4ca0ce666abe35",
        ),
    ),
)
