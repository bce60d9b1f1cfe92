"""Bits per byte of held-out passages of WikiText-2 (Merity et al., 2017; not in the survey), for any vocabulary.

Official files: as for `tasks.wikitext2`. An example is a paragraph of at least ten words, without leading and trailing
spaces. At most 100 evenly spaced paragraphs of the dev and test splits are used, because masked models read a text once
for each of its tokens. Gold is the number of bytes in UTF-8. Paragraphs of one article are resampled together. Licence:
CC BY-SA.

"bits_per_byte" is the code length under a left-to-right model. "bits_per_byte-pseudo" is the pseudo-likelihood of
models that fill blanks: each token is predicted from the text on both sides. This is not a code length, so the two
values cannot be compared. Text replaced by [UNK] is counted as bytes of equal probability
(`tasks.metrics.bits_per_byte`). Other losses of a tokenizer (case, kinds of spaces) cost nothing. The record says how
many passages can be restored exactly from their tokens.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ptmbench.tasks import wikitext2
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.bits_per_byte import UNIFORM, bits_per_byte
from ptmbench.tasks.task import Example, Task, UnknownTask

PASSAGES = 100
LEAST = 10
"""The smallest number of words in a passage."""
_HEADING = re.compile(r"=.*=")


def read(folder: Path, split: str) -> Iterator[Example]:
    """`PASSAGES` evenly spaced passages of the split in file order, or all if it has fewer. All passages of the
    training split. Ids are "ARTICLE-LINE"."""
    found = []
    for article in wikitext2.read(folder, split):
        for line, text in enumerate(article.inputs[0].split("\n"), 1):
            text = text.strip()
            if len(text.split()) >= LEAST and not _HEADING.fullmatch(text):
                found.append(
                    Example(
                        id=f"{article.id}-{line}",
                        inputs=(text,),
                        gold=len(text.encode()),
                        group=article.id,
                        channels=article.channels,
                    )
                )
    count = len(found) if split == "train" else min(PASSAGES, len(found))
    yield from (found[place * len(found) // count] for place in range(count))


@cache
def variant(name: str) -> Task:
    """The task of "pseudo" (pseudo-likelihood of masked models). "" is the default task, for left-to-right models."""
    if name not in ("", "pseudo"):
        raise UnknownTask(f"Bits per byte have no '{name}'. Choices: bits_per_byte, bits_per_byte-pseudo.")
    return Task(
        name=f"bits_per_byte-{name}" if name else "bits_per_byte",
        title="Pseudo bits per byte" if name else "Bits per byte",
        form=Form.LANGUAGE_MODELLING,
        source=wikitext2.TASK.source,
        folders=wikitext2.TASK.folders,
        files=wikitext2.FILES,
        read=read,
        metrics=(bits_per_byte,),
        headline="bits_per_byte",
        higher_is_better=False,
        decimals=2,
        chance=UNIFORM,
        report="test",
        notes="Bytes that [UNK] hides are counted as all alike. Chance is 8 bits: all bytes alike.",
        downloads=wikitext2.TASK.downloads,
        extra={"bytes": True} | ({"score": "pseudo"} if name else {}),
    )


TASK = variant("")
