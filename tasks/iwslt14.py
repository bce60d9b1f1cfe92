"""IWSLT 2014: Cettolo et al., 2014 (survey, section 7.5). Translations of TED talks.

Official files, in the folder of the unpacked archive of a pair: ``train.tags.de-en.de``, with one sentence per line and
lines with tags about the talk, and ``IWSLT14.TED.dev2010.de-en.de.xml`` with ``<seg id="1"> ... </seg>``. The first is
for training, dev2010 for early stopping; tst2010, tst2011 and tst2012 are reported as one test set. ``TASK`` is German
to English, and `variant` gives other pairs. Most papers report a lower-cased and tokenised version of the same talks in
which every 23rd training sentence is held out for early stopping. The task ``plain`` reads the files that their script
writes. Licence: CC BY-NC-ND 4.0.
"""

import html
import re
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from ptmbench.tasks.files import lines, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.bleu import OWN_TOKENIZER, bleu_into
from ptmbench.tasks.parallel import languages, zip_lines
from ptmbench.tasks.task import DataError, Example, Source, Task

SETS = {"train": ("train.tags",), "dev": ("dev2010",), "test": ("tst2010", "tst2011", "tst2012")}
_ABOUT = re.compile(r"\s*<(url|keywords|speaker|talkid|title|description|reviewer|translator|doc|/doc)\b")
_SEGMENT = re.compile(r"\s*<seg\b[^>]*>(.*)</seg>\s*")


def _name(part: str, pair: str, language: str) -> str:
    return f"{part}.{pair}.{language}" if part == "train.tags" else f"IWSLT14.TED.{part}.{pair}.{language}.xml"


def _names(part: str, source: str, target: str, language: str) -> str:
    """The file's names for both directions: an archive is named for one, but most have files named for the other."""
    return "|".join(_name(part, pair, language) for pair in (f"{source}-{target}", f"{target}-{source}"))


def _sentences(path: Path) -> Iterator[tuple[int, str]]:
    for number, text in lines(path):
        if path.suffix == ".xml":
            if segment := _SEGMENT.fullmatch(text):
                yield number, html.unescape(segment[1].strip())
            elif "<seg" in text:
                raise DataError(f"{path}, line {number}: a <seg> does not end here. Fetch the official file again.")
        elif not _ABOUT.match(text):
            yield number, text.strip()


def read_pair(folder: Path, split: str, *, source: str, target: str) -> Iterator[Example]:
    """The sentences of ``source`` with their translations into ``target``, in file order."""
    for part in SETS[split]:
        ours, theirs = (pick(folder, _names(part, source, target, language)) for language in (source, target))
        pairs = zip_lines(ours, _sentences(ours), theirs, _sentences(theirs))
        for index, (text, other) in enumerate(pairs):
            yield Example(id=f"{part}-{index}", inputs=(text,), gold=(other,), channels={"languages": (source,)})


def read(folder: Path, split: str) -> Iterator[Example]:
    """German sentences with their English translations."""
    return read_pair(folder, split, source="de", target="en")


@cache
def variant(pair: str) -> Task:
    """The task of a pair such as "en-de", named "iwslt14-en-de". "de-en" is the default task, "iwslt14"."""
    source, target = languages("IWSLT14", pair, "iwslt14-en-de")
    default, codes = pair == "de-en", (source, target)
    return Task(
        name="iwslt14" if default else f"iwslt14-{pair}",
        title=f"IWSLT14 {pair}",
        form=Form.GENERATION,
        source=Source(
            citation="Cettolo et al., 2014: Report on the 11th IWSLT evaluation campaign",
            licence="CC BY-NC-ND 4.0",
            url="https://wit3.fbk.eu/2014-01",
            survey="7.5",
        ),
        folders=(f"iwslt14/{source}-{target}", f"iwslt14/{target}-{source}", "iwslt14"),
        files={
            split: tuple(_names(part, source, target, code) for part in parts for code in codes)
            for split, parts in SETS.items()
        },
        read=read if default else partial(read_pair, source=source, target=target),
        metrics=(bleu_into(target),),
        headline="bleu",
        report="test",
        version=1 + (target in OWN_TOKENIZER),  # 2 since BLEU uses sacrebleu's tokenizers for these languages
        extra={"languages": codes},
    )


TASK = variant("de-en")
