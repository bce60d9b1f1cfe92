"""Gigaword headlines: Rush et al., 2015 (survey, section 7.6). Generate headlines from first sentences of articles.

Official files of the authors' release: ``train/train.article.txt`` and ``train/train.title.txt``,
``train/valid.article.filter.txt`` and ``train/valid.title.filter.txt``, ``Giga/input.txt`` and ``Giga/task1_ref0.txt``;
or, in other distributions of the same lines, ``train.src.txt`` and ``train.tgt.txt``, likewise ``dev`` and ``test``.
The text is tokenised and in lower case, with # for digits and UNK or <unk> for rare words. It is not changed. The dev
set has 189,651 pairs; early stopping uses the first ones. Licence: LDC (the articles), which forbids redistribution.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.rouge import rouge
from ptmbench.tasks.parallel import read_parallel
from ptmbench.tasks.task import Example, Source, Task

_OFFICIAL = {
    "train": ("train/train.article.txt", "train/train.title.txt"),
    "dev": ("train/valid.article.filter.txt", "train/valid.title.filter.txt"),
    "test": ("Giga/input.txt", "Giga/task1_ref0.txt"),
}
FILES = {
    split: tuple(f"{name}|{split}.{side}.txt" for name, side in zip(names, ("src", "tgt"), strict=True))
    for split, names in _OFFICIAL.items()
}


def read(folder: Path, split: str) -> Iterator[Example]:
    """First sentences with their headlines, in file order."""
    ours, theirs = (pick(folder, names) for names in FILES[split])
    for index, (article, title) in enumerate(read_parallel(ours, theirs)):
        yield Example(id=str(index), inputs=(article,), gold=(title,))


TASK = Task(
    name="gigaword",
    title="Gigaword headlines",
    form=Form.GENERATION,
    source=Source(
        citation="Rush et al., 2015: A neural attention model for abstractive sentence summarization",
        licence="LDC",
        url="https://github.com/harvardnlp/sent-summary",
        survey="7.6",
    ),
    folders=("gigaword", "sumdata", "gigaword/org_data"),
    files=FILES,
    read=read,
    metrics=(rouge,),
    headline="rougeL",
    report="test",
    extra={"lead": 1},
)
