"""WNUT-17, new and emerging names: Derczynski et al., 2017 (survey, section 7.4).

Official files: wnut17train.conll (tweets) for training, emerging.dev.conll (YouTube) and emerging.test.annotated
(Reddit, Twitter, YouTube, StackExchange), ``word<TAB>tag`` in IOB2, an empty line after a text. Hardly any name of the
test set occurs in training. The second score of the shared task is F1 of surface forms. Licence: CC BY 4.0.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.columns import labels, read_tagged
from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.entity_f1 import entity_f1
from ptmbench.tasks.metrics.surface_f1 import surface_f1
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {
    "train": ("wnut17train.conll",),
    "dev": ("emerging.dev.conll",),
    "test": ("emerging.test.annotated",),
}
TYPES = ("corporation", "creative-work", "group", "location", "person", "product")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Texts in file order."""
    return read_tagged(pick(folder, FILES[split][0]), TYPES)


TASK = Task(
    name="wnut17",
    title="WNUT-17",
    form=Form.TAGGING,
    source=Source(
        citation="Derczynski et al., 2017: Results of the WNUT2017 shared task on novel and emerging entities",
        licence="CC BY 4.0",
        url="https://github.com/leondz/emerging_entities_17",
        survey="7.4",
    ),
    folders=("wnut17", "WNUT-17", "emerging_entities_17"),
    files=FILES,
    read=read,
    metrics=(entity_f1, surface_f1),
    headline="f1",
    labels=labels(TYPES),
    chance=0.0,
    report="test",
    downloads=tuple(
        Download(
            url=f"https://raw.githubusercontent.com/leondz/emerging_entities_17/master/{name}", to=f"wnut17/{name}"
        )
        for (name,) in FILES.values()
    ),
)
