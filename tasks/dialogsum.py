"""DialogSum: Chen et al., 2021 (younger than the survey's section 7.6, summarization). Spoken dialogues with one
summary each, or three in the test set.

Official files: ``dialogsum.train.jsonl``, ``dialogsum.dev.jsonl``, ``dialogsum.test.jsonl``, one object per line:
"fname", "dialogue" with one turn per line, and "summary", or "summary1" ... "summary3". ROUGE takes the best of the
three for each dialogue, as Google's scorer does with several references. Licence: CC BY-NC-SA 4.0.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import entry, json_lines, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.rouge import rouge
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {split: (f"dialogsum.{split}.jsonl",) for split in ("train", "dev", "test")}
_URL = "https://raw.githubusercontent.com/cylnlp/dialogsum/main/DialogSum_Data/"


def read(folder: Path, split: str) -> Iterator[Example]:
    """The dialogues of ``split``, in file order."""
    path = pick(folder, FILES[split][0])
    for number, record in json_lines(path):
        several = sorted(key for key in record if key[:-1] == "summary" and key[-1].isdigit())
        gold = tuple(entry(path, number, record, key).strip() for key in several or ["summary"])
        name, dialogue = (entry(path, number, record, key) for key in ("fname", "dialogue"))
        yield Example(id=name, inputs=(dialogue,), gold=gold)


TASK = Task(
    name="dialogsum",
    title="DialogSum",
    form=Form.GENERATION,
    source=Source(
        citation="Chen et al., 2021: DialogSum",
        licence="CC BY-NC-SA 4.0",
        url="https://github.com/cylnlp/dialogsum",
        survey="7.6",
    ),
    folders=("dialogsum", "dialogsum/DialogSum_Data"),
    files=FILES,
    read=read,
    metrics=(rouge,),
    headline="rougeL",
    report="test",
    downloads=tuple(Download(url=f"{_URL}{name}", to=f"dialogsum/{name}") for (name,) in FILES.values()),
    extra={"lead": 3},
)
