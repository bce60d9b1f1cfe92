"""NLVR: is a sentence true of a picture of coloured shapes? The survey describes tasks of text and pictures in section
4.3.2, but not this one.

Suhr, Lewis, Yeh and Artzi, 2017: A corpus of natural language for visual reasoning, ACL. Licence: CC BY 4.0. Official
files: JSON lines ``{sentence, identifier, directory, label, structured_rep, evals}``. The identifier "n-m" means the
m-th of up to four pictures of sentence n. The structured representation lists the objects in each of three grey boxes,
so the regions of a picture are known without a detector (`tasks.shapes`). The images are not read. ``test`` is the
public test set.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks import shapes
from ptmbench.tasks.files import entry, json_lines, label, malformed, pick
from ptmbench.tasks.forms import Form, Part
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.metrics.consistency import consistency
from ptmbench.tasks.task import Example, Source, Task

FILES = {split: (f"{split}/{split}.json",) for split in ("train", "dev", "test")}
LABELS = ("false", "true")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Sentences in file order. Ids are the files' identifiers, and ``group`` is the sentence."""
    path = pick(folder, FILES[split][0])
    for line, record in json_lines(path):
        identifier = entry(path, line, record, "identifier")
        number, dash, _ = identifier.partition("-")
        if not dash:
            raise malformed(path, line, f'the "identifier" {identifier!r:.60} is not of the form sentence-picture.')
        boxes = entry(path, line, record, "structured_rep", list)
        if len(boxes) != shapes.BOXES or not all(isinstance(box, list) for box in boxes):
            raise malformed(path, line, f'"structured_rep" is a list of {shapes.BOXES} lists of objects.')
        if found := next(filter(None, (shapes.mistake(one) for box in boxes for one in box)), ""):
            raise malformed(path, line, found)
        gold = label(path, line, entry(path, line, record, "label").lower(), LABELS)
        yield Example(
            id=identifier,
            inputs=(entry(path, line, record, "sentence"),),
            gold=Part(gold, whole=number),
            group=number,
            channels=shapes.regions(boxes),
        )


TASK = Task(
    name="nlvr",
    title="NLVR",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Suhr et al., 2017: A corpus of natural language for visual reasoning",
        licence="CC BY 4.0",
        url="https://lil.nlp.cornell.edu/nlvr/",
        survey="",
    ),
    folders=("nlvr",),
    files=FILES,
    read=read,
    metrics=(accuracy, consistency),
    headline="accuracy",
    needs=("regions",),
    labels=LABELS,
    words=("No", "Yes"),
    prompt="{0}. Is this true? Answer:",
    report="test",
    notes="Regions are the objects of the structured representations; images are not read.",
)
