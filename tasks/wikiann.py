"""WikiAnn (PAN-X), names in Wikipedia in 282 languages: Pan et al., 2017; the balanced splits of Rahimi et al., 2019
(survey, section 7.4).

Official files: a folder per language with train, dev and test (and extra, which is not read), ``language:word<TAB>tag``
in IOB2, an empty line after a sentence. The tags were derived from links by rules, so they are silver standard, not
gold. Licence: ODC Attribution. "wikiann" is English, "wikiann-de" German, and so on.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from ptmbench.tasks.columns import labels, read_tagged
from ptmbench.tasks.files import pick
from ptmbench.tasks.forms import Form, Tags
from ptmbench.tasks.metrics.entity_f1 import entity_f1
from ptmbench.tasks.task import Example, Source, Task, UnknownTask

TYPES = ("PER", "ORG", "LOC")


def read_language(folder: Path, split: str, *, language: str) -> Iterator[Example]:
    """Sentences in file order. The language prefix of the words is removed."""
    for example in read_tagged(pick(folder, f"{language}/{split}"), TYPES):
        words = tuple(word.removeprefix(f"{language}:") or word for word in example.inputs)
        spoken = {"languages": (language,) * len(words)}
        yield replace(example, inputs=words, gold=Tags(example.gold, words), channels=spoken)


def read(folder: Path, split: str) -> Iterator[Example]:
    """English sentences."""
    return read_language(folder, split, language="en")


@cache
def variant(language: str) -> Task:
    """The task of one language, named "wikiann-de". "en" is the default task, "wikiann"."""
    if not language.replace("-", "").isalpha() or not language.isascii() or language != language.lower():
        raise UnknownTask(f"WikiAnn has no language '{language}'. Write it as Wikipedia's address does: wikiann-de.")
    default = language == "en"
    return Task(
        name="wikiann" if default else f"wikiann-{language}",
        title=f"WikiAnn {language}",
        form=Form.TAGGING,
        source=Source(
            citation="Rahimi et al., 2019: Massively multilingual transfer for NER; Pan et al., 2017",
            licence="ODC Attribution (the text: CC BY-SA)",
            url="https://github.com/afshinrahimi/mmner",
            survey="7.4",
        ),
        folders=("wikiann", "WikiAnn", "panx"),
        files={split: (f"{language}/{split}",) for split in ("train", "dev", "test")},
        read=read if default else partial(read_language, language=language),
        metrics=(entity_f1,),
        headline="f1",
        labels=labels(TYPES),
        chance=0.0,
        report="test",
        extra={"languages": (language,)},
    )


TASK = variant("en")
