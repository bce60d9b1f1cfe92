"""XNLI, Chinese, in the three-column format of ERNIE's authors (survey, section 4.2): Sun et al., 2019.

Conneau et al., 2018: XNLI: evaluating cross-lingual sentence representations, EMNLP. Licence: CC BY-NC 4.0. Files:
train.tsv, dev.tsv and test.tsv with the columns text_a, text_b, label: the Chinese rows of `tasks.xnli`'s files without
their ids. The training pairs are machine translations of MNLI's, the other pairs were translated by people.

"xnli_zh" is translate-train. "xnli_zh-en" is zero-shot: it trains on English MNLI (GLUE's train.tsv, in the folder MNLI
next to the other files) and uses a part of it for early stopping. "xnli_zh-dev" trains on the 2490 dev pairs, for use
without train.tsv.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from ptmbench.tasks import mnli, xnli
from ptmbench.tasks.files import label, pick, rows
from ptmbench.tasks.task import Example, Task, UnknownTask

FILES = {split: (f"{split}.tsv",) for split in ("train", "dev", "test")}
ENGLISH = {"train": ("MNLI/train.tsv",), "dev-zh": FILES["dev"], "test": FILES["test"]}
FEW = {"train": FILES["dev"], "test": FILES["test"]}


def read(folder: Path, split: str) -> Iterator[Example]:
    """Chinese pairs in file order. Ids count from 0, and ``group`` is the number of the premise."""
    yield from pairs(pick(folder, FILES[split][0]))


def read_english(folder: Path, split: str) -> Iterator[Example]:
    """English pairs for training, and Chinese pairs for the other splits."""
    path = pick(folder, ENGLISH[split][0])
    if split != "train":
        yield from pairs(path)
        return
    for example in mnli.pairs(path, labelled=True):
        yield replace(example, channels={"languages": ("en", "en")})


def read_few(folder: Path, split: str) -> Iterator[Example]:
    """Chinese pairs. The dev file is the training split."""
    yield from pairs(pick(folder, FEW[split][0]))


def pairs(path: Path) -> Iterator[Example]:
    """The pairs of one file."""
    premises: dict[str, str] = {}
    for count, (line, (premise, hypothesis, gold)) in enumerate(rows(path, ("text_a", "text_b", "label"))):
        gold = label(path, line, xnli.MACHINE.get(gold, gold), mnli.LABELS)
        group, spoken = premises.setdefault(premise, str(len(premises))), {"languages": ("zh", "zh")}
        yield Example(id=str(count), inputs=(premise, hypothesis), gold=gold, group=group, channels=spoken)


_WAYS = {
    "": (read, FILES, "(translate-train)", ""),
    "en": (read_english, ENGLISH, "(from English)", "Zero-shot from English."),
    "dev": (read_few, FEW, "(2490 pairs)", "Trained on the dev pairs: scores do not compare with published ones."),
}


@cache
def variant(way: str) -> Task:
    """The task that trains on English ("en") or on the dev pairs ("dev"). "" is the default task."""
    if way not in _WAYS:
        raise UnknownTask(f"xnli_zh has no '{way}'. Choices: xnli_zh, xnli_zh-en, xnli_zh-dev.")
    reader, files, how, notes = _WAYS[way]
    return replace(
        xnli.TASK,
        name=f"xnli_zh-{way}" if way else "xnli_zh",
        title=f"XNLI zh {how}",
        folders=("xnli_zh", "xnli_zh_ernie"),
        files=files,
        read=reader,
        downloads=(),
        notes=notes,
        extra={},
    )


TASK = variant("")
