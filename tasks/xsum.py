"""XSum: Narayan et al., 2018 (younger than the survey's section 7.6, summarization). Generate the first sentence of a
BBC article from the rest.

Official layout: ``bbc-summary-data/ID.summary`` with the sections [SN]URL[SN], [SN]TITLE[SN], [SN]FIRST-SENTENCE[SN]
and [SN]RESTBODY[SN], and ``XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json``, which lists the ids of each split.
Alternatively, JSON lines with "document", "summary" and "id" (``train.jsonl``, ``validation.jsonl``, ``test.jsonl``).
Licence: MIT for the scripts; the articles belong to the BBC.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import entry, json_document, json_lines, lines, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.rouge import rouge
from ptmbench.tasks.task import DataError, Example, MissingData, Source, Task

_LIST = "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json"
_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
FILES = {split: (f"{_LIST}|{name}.jsonl", f"bbc-summary-data|{name}.jsonl") for split, name in _SPLITS.items()}


def read(folder: Path, split: str) -> Iterator[Example]:
    """The articles of ``split``, in the order of its list."""
    listed = pick(folder, FILES[split][0])
    if listed.suffix == ".jsonl":
        for number, record in json_lines(listed):
            document, summary = (entry(listed, number, record, key) for key in ("document", "summary"))
            yield Example(id=str(record.get("id", number)), inputs=(document,), gold=(summary,))
        return
    content = json_document(listed)
    for name in entry(listed, 1, content if isinstance(content, dict) else {}, _SPLITS[split], list):
        path = folder / "bbc-summary-data" / f"{Path(str(name)).name}.summary"
        if not path.exists():
            raise MissingData(f"{listed} lists {name}, but there is no {path}; copy all of the articles.")
        text = "\n".join(row for _, row in lines(path) if row.strip())
        parts = [part.strip() for part in text.split("[SN]")]
        sections = dict(zip(parts[1::2], parts[2::2], strict=False))
        if not {"FIRST-SENTENCE", "RESTBODY"} <= set(sections):
            raise DataError(f"{path} lacks [SN]FIRST-SENTENCE[SN] or [SN]RESTBODY[SN]; copy the official file again.")
        yield Example(id=str(name), inputs=(sections["RESTBODY"],), gold=(sections["FIRST-SENTENCE"],))


TASK = Task(
    name="xsum",
    title="XSum",
    form=Form.GENERATION,
    source=Source(
        citation="Narayan et al., 2018: Don't give me the details, just the summary!",
        licence="MIT (scripts); articles by the BBC",
        url="https://github.com/EdinburghNLP/XSum",
        survey="7.6",
    ),
    folders=("xsum", "XSum"),
    files=FILES,
    read=read,
    metrics=(rouge,),
    headline="rougeL",
    report="test",
    extra={"lead": 1},
)
