"""Translation between any two plain text files, line by line (survey, section 7.5). The files may be WMT's or IWSLT's
corpora in the layout of most tools, or your own files.

Files: ``train.de`` and ``train.en``, then ``valid``, ``dev`` or ``val``, and ``test``, with the languages as suffixes.
They may be gzipped. Line n of one file is the translation of line n of the other. `variant` selects the languages:
``plain-de-en`` translates German into English. ``TASK`` is English to German. The licence is that of the files.
"""

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.bleu import OWN_TOKENIZER, bleu_into
from ptmbench.tasks.parallel import languages, read_parallel
from ptmbench.tasks.task import Example, Source, Task

SETS = {"train": ("train",), "dev": ("valid", "dev", "val"), "test": ("test",)}


def _names(split: str, language: str) -> str:
    return "|".join(f"{stem}.{language}{end}" for stem in SETS[split] for end in ("", ".gz"))


def read_pair(folder: Path, split: str, *, source: str, target: str) -> Iterator[Example]:
    """The lines of ``source`` with their translations into ``target``, in file order."""
    ours, theirs = pick(folder, _names(split, source)), pick(folder, _names(split, target))
    for index, (text, other) in enumerate(read_parallel(ours, theirs)):
        yield Example(id=str(index), inputs=(text,), gold=(other,))


def read(folder: Path, split: str) -> Iterator[Example]:
    """English lines with their German translations."""
    return read_pair(folder, split, source="en", target="de")


@cache
def variant(pair: str) -> Task:
    """The task of a pair such as "fr-en", named "plain-fr-en". "en-de" is the default task, "plain"."""
    source, target = languages("A plain translation", pair, "plain-de-en")
    default = pair == "en-de"
    return Task(
        name="plain" if default else f"plain-{pair}",
        title=f"Parallel files {pair}",
        form=Form.GENERATION,
        source=Source(
            citation="Tiedemann, 2012: Parallel data, tools and interfaces in OPUS (where many such files come from)",
            licence="that of the files",
            url="https://opus.nlpl.eu",
            survey="7.5",
        ),
        folders=(f"plain/{source}-{target}", f"plain/{target}-{source}", "plain"),
        files={split: (_names(split, source), _names(split, target)) for split in SETS},
        read=read if default else partial(read_pair, source=source, target=target),
        metrics=(bleu_into(target),),
        headline="bleu",
        report="test",
        version=1 + (target in OWN_TOKENIZER),  # 2 since BLEU uses sacrebleu's tokenizers for these languages
        extra={"languages": (source, target)},
    )


TASK = variant("en-de")
