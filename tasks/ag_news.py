"""AG News (survey, section 7.3): which of four sections does a short piece of news belong to?

Zhang, Zhao & LeCun, 2015: Character-level convolutional networks for text classification, NeurIPS. Licence:
non-commercial use. Official files: train.csv (120000 rows) and test.csv (7600) with class, title and description, no
header. The authors keep them on a shared drive; ``data fetch`` downloads the copy that most libraries use.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import comma_rows, label_with_number, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.csv",), "test": ("test.csv",)}
LABELS = ("World", "Sports", "Business", "Sci/Tech")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Texts in file order; ids are the row's position from 0."""
    path = pick(folder, FILES[split][0])
    for position, (line, (number, title, description)) in enumerate(comma_rows(path, 3)):
        text = f"{title} {description}"
        yield Example(id=str(position), inputs=(text,), gold=label_with_number(path, line, number, LABELS))


TASK = Task(
    name="ag_news",
    title="AG News",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Zhang et al., 2015: Character-level convolutional networks for text classification",
        licence="non-commercial use",
        url="https://github.com/mhjabreel/CharCnn_Keras",
        survey="7.3",
    ),
    folders=("ag_news_csv", "ag_news"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("world", "sports", "business", "technology"),
    prompt="{0} This is news about",
    chance=25.0,
    report="test",
    downloads=(
        Download(
            url="https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/train.csv",
            to="ag_news_csv/train.csv",
            size=29470338,
            sha256="76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e",
        ),
        Download(
            url="https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/test.csv",
            to="ag_news_csv/test.csv",
            size=1857427,
            sha256="521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699",
        ),
    ),
)
