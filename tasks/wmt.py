"""WMT news translation: Bojar et al., 2014, 2016 (survey, section 7.5).

``wmt-14-en-de`` is WMT14's English to German. It trains on ``train.en`` and ``train.de`` (any part of the year's
corpora), uses the news of the year before (``newstest2013.en`` ...) for early stopping, and reports ``newstest2014``.
The files are plain or gzipped, and line n of both has the same meaning. ``sacrebleu -t wmt14 -l en-de --echo src`` and
``ref`` write the test files. ``TASK`` is WMT14 English to German. Most BLEU values published before sacrebleu are of
tokenised text, and higher by one or two points. Licence: free for research.
"""

import re
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.bleu import OWN_TOKENIZER, bleu_into
from ptmbench.tasks.parallel import languages, read_parallel
from ptmbench.tasks.task import Example, Source, Task, UnknownTask


def _names(split: str, year: int, language: str) -> str:
    stem = {"train": "train", "dev": f"newstest20{year - 1:02d}", "test": f"newstest20{year:02d}"}[split]
    return f"{stem}.{language}|{stem}.{language}.gz"


def read_pair(folder: Path, split: str, *, year: int, source: str, target: str) -> Iterator[Example]:
    """The sentences of ``source`` with their translations into ``target``, in file order."""
    ours, theirs = pick(folder, _names(split, year, source)), pick(folder, _names(split, year, target))
    for index, (text, other) in enumerate(read_parallel(ours, theirs)):
        yield Example(id=str(index), inputs=(text,), gold=(other,), channels={"languages": (source,)})


def read(folder: Path, split: str) -> Iterator[Example]:
    """English sentences with their German translations, for WMT14."""
    return read_pair(folder, split, year=14, source="en", target="de")


@cache
def variant(name: str) -> Task:
    """The task of a year and a pair, such as "16-ro-en". "14-en-de" is the default task, "wmt"."""
    year, _, pair = name.partition("-")
    if not re.fullmatch(r"(0[89]|[12]\d)", year):
        raise UnknownTask(f"WMT has no '{name}'. Write year, source and target: wmt-14-en-fr.")
    source, target = languages(f"WMT{year}", pair, "wmt-14-en-fr")
    default = name == "14-en-de"
    return Task(
        name="wmt" if default else f"wmt-{name}",
        title=f"WMT{year} {pair}",
        form=Form.GENERATION,
        source=Source(
            citation="Bojar et al., 2014: Findings of the workshop on statistical machine translation",
            licence="free for research",
            url=f"https://www.statmt.org/wmt{year}/translation-task.html",
            survey="7.5",
        ),
        folders=(f"wmt{year}/{source}-{target}", f"wmt{year}/{target}-{source}", f"wmt{year}"),
        files={s: (_names(s, int(year), source), _names(s, int(year), target)) for s in ("train", "dev", "test")},
        read=read if default else partial(read_pair, year=int(year), source=source, target=target),
        metrics=(bleu_into(target),),
        headline="bleu",
        report="test",
        version=1 + (target in OWN_TOKENIZER),  # 2 since BLEU uses sacrebleu's tokenizers for these languages
        extra={"languages": (source, target)},
    )


TASK = variant("14-en-de")
