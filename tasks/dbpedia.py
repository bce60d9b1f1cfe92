"""DBpedia ontology (survey, section 7.3): which of fourteen kinds of things is an article about?

Zhang, Zhao & LeCun, 2015: Character-level convolutional networks for text classification, NeurIPS. Licence: CC BY-SA
3.0. Official files: train.csv (560000 rows) and test.csv (70000) with class, title and abstract, no header. The authors
keep them on a shared drive; ``data fetch`` downloads the copy that most libraries use.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import comma_rows, label_with_number, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.csv",), "test": ("test.csv",)}
LABELS = (
    "Company",
    "EducationalInstitution",
    "Artist",
    "Athlete",
    "OfficeHolder",
    "MeanOfTransportation",
    "Building",
    "NaturalPlace",
    "Village",
    "Animal",
    "Plant",
    "Album",
    "Film",
    "WrittenWork",
)


def read(folder: Path, split: str) -> Iterator[Example]:
    """Texts in file order; ids are the row's position from 0."""
    path = pick(folder, FILES[split][0])
    for position, (line, (number, title, content)) in enumerate(comma_rows(path, 3)):
        text = f"{title} {content}"
        yield Example(id=str(position), inputs=(text,), gold=label_with_number(path, line, number, LABELS))


TASK = Task(
    name="dbpedia",
    title="DBpedia",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Zhang et al., 2015: Character-level convolutional networks for text classification",
        licence="CC BY-SA 3.0",
        url="https://course.fast.ai/datasets",
        survey="7.3",
    ),
    folders=("dbpedia_csv", "dbpedia"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=(
        "a company",
        "a school",
        "an artist",
        "an athlete",
        "a politician",
        "a vehicle",
        "a building",
        "a natural place",
        "a village",
        "an animal",
        "a plant",
        "an album",
        "a film",
        "a book",
    ),
    prompt="{0} This is",
    chance=100.0 / 14.0,
    report="test",
    downloads=(
        Download(
            url="https://s3.amazonaws.com/fast-ai-nlp/dbpedia_csv.tgz",
            to=".",
            unpack=True,
            size=68341743,
            sha256="42db5221ddedddb673a4cabcc5f3a7d869714c878bcfe4ba94b29d14aa38e417",
        ),
    ),
)
