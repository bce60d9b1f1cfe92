"""Multi30k: Elliott et al., 2016, 2017; Barrault et al., 2018 (survey, section 7.5). Image captions in several
languages.

Official files: ``train.en``, ``val.de``, ``test_2016_flickr.fr`` ..., plain or gzipped, with one caption per line. Line
n has the same meaning in all languages. ``TASK`` is English to German. `variant` gives any other pair of en, de, fr and
cs, or of other languages with files of these names. The 2017 and COCO sets have no Czech. Licence: CC BY-NC-SA 4.0.
"""

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.bleu import OWN_TOKENIZER, bleu_into
from ptmbench.tasks.parallel import languages, read_parallel
from ptmbench.tasks.task import Download, Example, Source, Task

SETS = {
    "train": "train",
    "dev": "val",
    "test": "test_2016_flickr",
    "test2017": "test_2017_flickr",
    "coco": "test_2017_mscoco",
    "test2018": "test_2018_flickr",
}
_URL = "https://github.com/multi30k/dataset/raw/master/data/task1/raw/"
_LANGUAGES = {"en", "de", "fr", "cs"}
"""The languages of the official release."""


def _names(split: str, language: str) -> str:
    return f"{SETS[split]}.{language}|{SETS[split]}.{language}.gz"


def read_pair(folder: Path, split: str, *, source: str, target: str) -> Iterator[Example]:
    """Captions in the language ``source`` with their translations into ``target``, in file order."""
    ours, theirs = pick(folder, _names(split, source)), pick(folder, _names(split, target))
    for index, (text, other) in enumerate(read_parallel(ours, theirs)):
        yield Example(id=str(index), inputs=(text,), gold=(other,), channels={"languages": (source,)})


def read(folder: Path, split: str) -> Iterator[Example]:
    """English captions with their German translations."""
    return read_pair(folder, split, source="en", target="de")


@cache
def variant(pair: str) -> Task:
    """The task of a pair such as "de-fr", named "multi30k-de-fr". "en-de" is the default task, "multi30k"."""
    source, target = languages("Multi30k", pair, "multi30k-de-fr")
    default = pair == "en-de"
    return Task(
        name="multi30k" if default else f"multi30k-{pair}",
        title=f"Multi30k {pair}",
        form=Form.GENERATION,
        source=Source(
            citation="Elliott et al., 2016: Multi30K: multilingual English-German image descriptions",
            licence="CC BY-NC-SA 4.0",
            url="https://github.com/multi30k/dataset",
            survey="7.5",
        ),
        folders=("multi30k", "multi30k/data/task1/raw"),
        files={split: (_names(split, source), _names(split, target)) for split in SETS},
        read=read if default else partial(read_pair, source=source, target=target),
        metrics=(bleu_into(target),),
        headline="bleu",
        report="test",
        version=1 + (target in OWN_TOKENIZER),  # 2 since BLEU uses sacrebleu's tokenizers for these languages
        downloads=tuple(
            Download(url=f"{_URL}{name}", to=f"multi30k/{name}")
            for split in SETS
            for name in (f"{SETS[split]}.{language}.gz" for language in (source, target))
            if {source, target} <= _LANGUAGES and ("cs" not in (source, target) or split not in ("test2017", "coco"))
        ),
        extra={"languages": (source, target)},
    )


TASK = variant("en-de")
