"""SST-5, the Stanford Sentiment Treebank in five classes (survey, section 7.3): from very negative to very positive.

Socher et al., 2013: Recursive deep models for semantic compositionality over a sentiment treebank, EMNLP. Licence: none
stated, for research. Official files: trees/{train,dev,test}.txt (8544, 1101, 2210), one tree per line, ``(3 (2 The) (4
(3 lovely) (2 film)))``, with a label at every node. Only whole sentences are read here, with the label of the root. The
trees write brackets and slashes of the text as -LRB-, -RRB- and ``\\/``. Only spaces separate words: three leaves of
train.txt have a no-break space (U+00A0) inside a word, which is kept.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import lines, malformed, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("train.txt",), "dev": ("dev.txt",), "test": ("test.txt",)}
LABELS = ("0", "1", "2", "3", "4")
_LEAF = re.compile(r"\([0-4] ([^ \t()]+)\)")
_NODE = re.compile(r"\([0-4]( \x00)+\)")
_WRITTEN = {"-LRB-": "(", "-RRB-": ")"}


def read(folder: Path, split: str) -> Iterator[Example]:
    """Sentences in file order; ids are the row's position from 0."""
    path = pick(folder, FILES[split][0])
    rows = ((line, tree) for line, text in lines(path) if (tree := text.strip(" \t")))
    for position, (line, tree) in enumerate(rows):
        words = [_WRITTEN.get(word, word.replace("\\/", "/")) for word in _LEAF.findall(tree)]
        if not _is_tree(tree):
            raise malformed(path, line, f"{tree!r:.60} is not a tree with labels from 0 to 4.")
        yield Example(id=str(position), inputs=(" ".join(words),), gold=tree[1])


def _is_tree(text: str) -> bool:
    """Whether the text reduces to a single tree by replacing leaves, and then nodes that contain only subtrees."""
    text, folds = _LEAF.sub("\x00", text), 1
    while folds:
        text, folds = _NODE.subn("\x00", text)
    return text == "\x00"


TASK = Task(
    name="sst5",
    title="SST-5",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Socher et al., 2013: Recursive deep models for semantic compositionality over a sentiment treebank",
        licence="none stated; for research",
        url="https://nlp.stanford.edu/sentiment/",
        survey="7.3",
    ),
    folders=("trees", "sst5", "SST-5"),
    files=FILES,
    read=read,
    metrics=(accuracy,),
    headline="accuracy",
    labels=LABELS,
    words=("terrible", "bad", "okay", "good", "great"),
    prompt="{0} It was",
    chance=20.0,
    report="test",
    downloads=(
        Download(
            url="https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",
            to=".",
            unpack=True,
            size=789539,
            sha256="5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc",
        ),
    ),
)
