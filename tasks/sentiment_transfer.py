"""Sentiment transfer (survey, section 7.3): rewrite a review with the opposite sentiment and otherwise the same
content.

Li et al., 2018: Delete, retrieve, generate: a simple approach to sentiment and style transfer, NAACL; the Yelp reviews
of Shen et al. (2017) and the Amazon reviews of He and McAuley (2016), one tokenised sentence in lower case per line.
Official files: ``sentiment.train.0`` (negative) and ``.1`` (positive), likewise dev and test. They have no rewritten
sentences. ``reference.0`` and ``.1`` have them for the test sentences: each line is the sentence, a tab, and a version
rewritten by a person. Licence: none stated; the reviews are Yelp's and Amazon's.

``TASK`` is Yelp. `variant` gives "sentiment_transfer-amazon".
"""

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from ptmbench.tasks.files import lines, malformed, pick
from ptmbench.tasks.forms import Form, Rewriting
from ptmbench.tasks.metrics.rewriting import Judge, rewriting
from ptmbench.tasks.task import Download, Example, Source, Task, UnknownTask

LABELS = ("0", "1")
SALIENCE = {"yelp": 15.0, "amazon": 5.5}
"""The salience from which an n-gram marks the label: gamma of the authors' script for each data set."""
FILES = {
    "train": tuple(f"sentiment.train.{label}" for label in LABELS),
    "dev": tuple(f"sentiment.dev.{label}" for label in LABELS),
    "test": tuple(f"reference.{label}" for label in LABELS),
}
_URL = "https://raw.githubusercontent.com/lijuncen/Sentiment-and-Style-Transfer/master/data"


def read(folder: Path, split: str) -> Iterator[Example]:
    """The negative sentences, then the positive ones, each with the other label as the target. Ids are label and
    position.

    Only the test sentences have gold, their references.
    """
    judge = Judge(partial(_training, folder))
    for label, other in zip(LABELS, LABELS[::-1], strict=True):
        if split != "test":
            for line, text in lines(pick(folder, f"sentiment.{split}.{label}")):
                yield Example(id=f"{label}.{line - 1}", inputs=(text.strip(), other))
            continue
        path = pick(folder, f"reference.{label}")
        for line, text in lines(path):
            source, tab, reference = text.partition("\t")
            if not (tab and reference.strip()):
                raise malformed(path, line, "a sentence, a tab and its rewriting were expected.")
            source = source.strip()
            gold = Rewriting((reference.strip(),), source=source, wanted=other, judge=judge)
            yield Example(id=f"{label}.{line - 1}", inputs=(source, other), gold=gold)


def _training(folder: Path) -> tuple[list[str], list[str]]:
    """The training sentences and their own labels."""
    found = [(text, label) for label in LABELS for _, text in lines(pick(folder, f"sentiment.train.{label}"))]
    return [text for text, _ in found], [label for _, label in found]


@cache
def variant(name: str) -> Task:
    """The task of "yelp" (the default task, "sentiment_transfer") or "amazon"."""
    if name not in SALIENCE:
        raise UnknownTask(f"Sentiment transfer has no reviews of '{name}'. It has {' and '.join(SALIENCE)}.")
    return Task(
        name="sentiment_transfer" if name == "yelp" else f"sentiment_transfer-{name}",
        title=f"Sentiment transfer {name.capitalize()}",
        form=Form.GENERATION,
        source=Source(
            citation="Li et al., 2018: Delete, retrieve, generate: a simple approach to sentiment and style transfer",
            licence="none stated; reviews of Yelp and Amazon",
            url="https://github.com/lijuncen/Sentiment-and-Style-Transfer",
            survey="7.3",
        ),
        folders=(f"sentiment_transfer/{name}", f"Sentiment-and-Style-Transfer/data/{name}"),
        files=FILES,
        read=read,
        metrics=(rewriting,),
        headline="accuracy+bleu",
        report="test",
        downloads=tuple(
            Download(url=f"{_URL}/{name}/{file}", to=f"sentiment_transfer/{name}/{file}")
            for part in FILES.values()
            for file in part
        ),
        extra={"polarities": LABELS, "salience": SALIENCE[name], "gold": "folder"},
    )


TASK = variant("yelp")
