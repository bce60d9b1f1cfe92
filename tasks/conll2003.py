"""CoNLL-2003 named entities, English: Tjong Kim Sang & De Meulder, 2003 (survey, section 7.4).

Official files: one word per line as ``word POS chunk tag``, an empty line after a sentence, a ``-DOCSTART-`` line
before a document. The original files have IOB1 tags. Later copies (train.txt, valid.txt, test.txt) have IOB2 or BIOES.
All are read, and gold is always IOB2. The text is from the Reuters corpus, for research under NIST's agreement.
"""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.columns import labels, read_tagged
from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.entity_f1 import entity_f1
from ptmbench.tasks.task import Example, Source, Task

FILES = {
    "train": ("eng.train|train.txt",),
    "dev": ("eng.testa|valid.txt|dev.txt",),
    "test": ("eng.testb|test.txt",),
}
TYPES = ("PER", "ORG", "LOC", "MISC")


def read(folder: Path, split: str) -> Iterator[Example]:
    """Sentences in file order. ``group`` is the number of the news item, or None in files without ``-DOCSTART-``."""
    return read_tagged(pick(folder, FILES[split][0]), TYPES)


TASK = Task(
    name="conll2003",
    title="CoNLL-2003 (en)",
    form=Form.TAGGING,
    source=Source(
        citation="Tjong Kim Sang & De Meulder, 2003: Introduction to the CoNLL-2003 shared task",
        licence="Reuters corpus: research use under NIST's agreement",
        url="https://www.clips.uantwerpen.be/conll2003/ner/",
        survey="7.4",
    ),
    folders=("conll2003", "CoNLL-2003", "conll03"),
    files=FILES,
    read=read,
    metrics=(entity_f1,),
    headline="f1",
    labels=labels(TYPES),
    chance=0.0,
    report="test",
    notes="Gold is IOB2 also where the files are IOB1; entity F1 does not depend on it, token accuracy does. conlleval "
    "counts each -DOCSTART- line as a word; a model does not tag them, so only `score` counts them, in files that do.",
)
