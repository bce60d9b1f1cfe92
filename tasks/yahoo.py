"""Yahoo! Answers topics (survey, section 7.3): which of ten categories was a question asked in?

Zhang, Zhao & LeCun, 2015: Character-level convolutional networks for text classification, NeurIPS. Licence: Yahoo!
Webscope's terms, for research. Official files: train.csv (1400000 rows) and test.csv (60000) with class, title,
question and best answer, no header. The last two may be empty. The authors keep them on a shared drive; ``data fetch``
downloads the copy that most libraries use.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import comma_rows, label_with_number, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.csv",), "test": ("test.csv",)}
LABELS = (
    "Society & Culture",
    "Science & Mathematics",
    "Health",
    "Education & Reference",
    "Computers & Internet",
    "Sports",
    "Business & Finance",
    "Entertainment & Music",
    "Family & Relationships",
    "Politics & Government",
)


def read(folder: Path, split: str) -> Iterator[Example]:
    """Texts in file order; ids are the row's position from 0."""
    path = pick(folder, FILES[split][0])
    for position, (line, (number, title, question, answer)) in enumerate(comma_rows(path, 4)):
        text = " ".join(part for part in (title, question, answer) if part)
        yield Example(id=str(position), inputs=(text,), gold=label_with_number(path, line, number, LABELS))


TASK = Task(
    name="yahoo",
    title="Yahoo! Answers",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Zhang et al., 2015: Character-level convolutional networks for text classification",
        licence="Yahoo! Webscope's terms, for research",
        url="https://course.fast.ai/datasets",
        survey="7.3",
    ),
    folders=("yahoo_answers_csv", "yahoo_answers"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    prompt="{0} Category:",
    chance=10.0,
    report="test",
    downloads=(
        Download(
            url="https://s3.amazonaws.com/fast-ai-nlp/yahoo_answers_csv.tgz",
            to=".",
            unpack=True,
            size=319476345,
            sha256="2d4277855faf8b35259009425fa8f7fe1888b5644b47165508942d000f4c96ae",
        ),
    ),
)
