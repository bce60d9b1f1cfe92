"""WikiText-2: Merity et al., 2017. Language modelling on Wikipedia articles; not among the survey's data sets.

Official files: ``wiki.train.tokens`` ..., with words separated by spaces, ``<unk>`` for rare words, and ``@-@`` and
similar tokens inside numbers and compounds. An example is one article with all its lines, so a model can use the
context of the article but no other. The official word count includes one <eos> per line, also for empty lines:
2,088,628 in train (`tasks.metrics.perplexity.size`). Licence: CC BY-SA.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import lines, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.perplexity import perplexity
from ptmbench.tasks.task import Download, Example, Source, Task

FILES = {"train": ("wiki.train.tokens",), "dev": ("wiki.valid.tokens",), "test": ("wiki.test.tokens",)}
_TITLE = re.compile(r" ?= [^=].* = ?")


def read(folder: Path, split: str) -> Iterator[Example]:
    """The articles in file order. Every line of the file is in exactly one of them.

    A title is `` = Title = `` between two empty lines. The text itself also has lines of this form, where tables were
    removed.
    """
    rows = [text for _, text in lines(pick(folder, FILES[split][0]))]
    empty = [not row.strip() for row in rows]
    starts = [
        row
        for row, text in enumerate(rows)
        if _TITLE.fullmatch(text) and (row == 0 or empty[row - 1]) and (row + 1 == len(rows) or empty[row + 1])
    ]
    bounds = [0, *starts[1:], len(rows)]  # lines before the first title belong to the first article
    for index, (start, end) in enumerate(zip(bounds, bounds[1:], strict=False)):
        if start < end:
            text = "".join(f"{row}\n" for row in rows[start:end])
            yield Example(id=str(index), inputs=(text,), channels={"languages": ("en",)})


TASK = Task(
    name="wikitext2",
    title="WikiText-2",
    form=Form.LANGUAGE_MODELLING,
    source=Source(
        citation="Merity et al., 2017: Pointer sentinel mixture models",
        licence="CC BY-SA 3.0",
        url="https://www.salesforce.com/blog/the-wikitext-long-term-dependency-language-modeling-dataset/",
        survey="",
    ),
    folders=("wikitext-2", "wikitext2"),
    files=FILES,
    read=read,
    metrics=(perplexity,),
    headline="perplexity",
    higher_is_better=False,
    report="test",
    notes="Perplexity per word between spaces. Ends of lines count neither as words nor as nats: tokenizers do not see "
    "them. Published figures count them as <eos>, so the two do not compare.",
    downloads=(
        Download(
            url="https://wikitext.smerity.com/wikitext-2-v1.zip",
            to="wikitext-2",
            unpack=True,
            strip=1,
        ),
    ),
)
