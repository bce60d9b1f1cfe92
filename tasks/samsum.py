"""SAMSum: Gliwa et al., 2019 (younger than the survey's section 7.6, summarization). Chats with one summary each.

Official files: ``train.json``, ``val.json`` and ``test.json``, each a list of objects with "id", "dialogue" (one turn
per line, CRLF or LF) and "summary". CRLF is converted to LF. Otherwise the dialogues are unchanged. Licence: CC
BY-NC-ND 4.0.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import entry, json_document, malformed, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.rouge import rouge
from ptmbench.tasks.task import Example, Source, Task

FILES = {"train": ("train.json",), "dev": ("val.json",), "test": ("test.json",)}


def read(folder: Path, split: str) -> Iterator[Example]:
    """The chats of ``split``, in file order."""
    path = pick(folder, FILES[split][0])
    content = json_document(path)
    if not isinstance(content, list):
        raise malformed(path, 1, f"a list of chats was expected, not {type(content).__name__}.")
    for index, record in enumerate(content, start=1):
        if not isinstance(record, dict):
            raise malformed(path, 1, f"chat {index} is not an object.")
        dialogue, summary = (entry(path, 1, record, key) for key in ("dialogue", "summary"))
        dialogue = dialogue.replace("\r\n", "\n")
        yield Example(id=str(record.get("id", index)), inputs=(dialogue,), gold=(summary.strip(),))


TASK = Task(
    name="samsum",
    title="SAMSum",
    form=Form.GENERATION,
    source=Source(
        citation="Gliwa et al., 2019: SAMSum corpus",
        licence="CC BY-NC-ND 4.0",
        url="https://arxiv.org/abs/1911.12237",
        survey="7.6",
    ),
    folders=("samsum", "samsum/corpus"),
    files=FILES,
    read=read,
    metrics=(rouge,),
    headline="rougeL",
    report="test",
    extra={"lead": 3},
)
