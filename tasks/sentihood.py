"""SentiHood (survey, section 7.3): what do people say about four aspects of one or two places in London?

Saeidi et al., 2016: SentiHood: targeted aspect based sentiment analysis dataset for urban neighbourhoods, COLING.
Licence: none stated, for research. Official files: a JSON list of ``{id, text, opinions: [{target_entity, aspect,
sentiment}]}`` each, with places masked as LOCATION1 and LOCATION2. As in the paper and later work, four frequent
aspects of every place in a text are classified as None, Positive or Negative.

"sentihood" gives a classifier the text alone (`single`). "sentihood-qa-m", -nli-m, -qa-b and -nli-b add the auxiliary
sentences of `tasks.aspects`. Prediction files may have the format of the official files.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ptmbench.tasks.aspects import Wording, construction
from ptmbench.tasks.files import json_document, pick
from ptmbench.tasks.forms import Form, Part
from ptmbench.tasks.metrics.sentihood import aspect_auc, aspects, sentiment, sentiment_auc
from ptmbench.tasks.task import DataError, Example, Source, Task

FILES = {split: (f"sentihood-{split}.json",) for split in ("train", "dev", "test")}
ASPECTS = ("general", "price", "transit-location", "safety")
PLACES = {"LOCATION1": "location - 1", "LOCATION2": "location - 2"}
LABELS = ("None", "Positive", "Negative")
WORDINGS = {
    f"{place} - {aspect.replace('-', ' ')}": Wording(
        question=f"what do you think of the {aspect.replace('-', ' ')} of {place} ?",
        statement=f"the polarity of the aspect {aspect.replace('-', ' ')} of {place} is {{}} .",
    )
    for place in PLACES.values()
    for aspect in ASPECTS
}


def read(folder: Path, split: str) -> Iterator[Example]:
    """(text, place and aspect) in file order. Ids are "id-place-aspect". ``group`` is the text, and gold's whole is a
    place in it."""
    path = pick(folder, FILES[split][0])
    entries = json_document(path)
    if not isinstance(entries, list):
        raise DataError(f"{path} must be a list of texts with their opinions. Fetch the official file again.")
    for position, entry in enumerate(entries, start=1):
        try:
            number, text = entry["id"], " ".join(entry["text"].split())
            said = _opinions(text, entry["opinions"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = f"{error}" if isinstance(error, ValueError) else f"not in SentiHood's format ({error!r:.80})"
            raise DataError(
                f"{path}, text {position}: {what}. Fetch the official file again, or correct it."
            ) from error
        for place, name in PLACES.items():
            if place == "LOCATION2" and place not in text:
                continue
            for aspect in ASPECTS:
                label = said.get((place, aspect), "None")
                yield Example(
                    id=f"{number}-{place}-{aspect}",
                    inputs=(_masked(text), f"{name} - {aspect.replace('-', ' ')}"),
                    gold=Part(label, whole=f"{number}-{place}", kind=aspect),
                    group=str(number),
                )


def _opinions(text: str, opinions: list[dict]) -> dict[tuple[str, str], str]:
    """The sentiment about each (place, aspect). Raises `ValueError` for contradictory sentiments, and for unknown
    places and sentiments."""
    said: dict[tuple[str, str], str] = {}
    for opinion in opinions:
        place, aspect, sentiment = (opinion[key] for key in ("target_entity", "aspect", "sentiment"))
        if place not in PLACES or place not in text:
            raise ValueError(f"the text does not name {place!r:.40}")
        if sentiment not in LABELS[1:]:
            raise ValueError(f"the sentiment {sentiment!r:.40} is not one of 'Positive', 'Negative'")
        if said.setdefault((place, aspect), sentiment) != sentiment:
            raise ValueError(f"there are two sentiments about {aspect!r:.40} of {place}")
    return said


def _masked(text: str) -> str:
    for place, name in PLACES.items():
        text = text.replace(place, name)
    return text


_TASK = Task(
    name="sentihood",
    title="SentiHood",
    form=Form.CLASSIFICATION,
    source=Source(
        citation="Saeidi et al., 2016: SentiHood: targeted aspect based sentiment analysis for urban neighbourhoods",
        licence="none stated, for research",
        url="https://github.com/uclnlp/jack/tree/master/data/sentihood",
        survey="7.3",
    ),
    folders=("sentihood", "SentiHood"),
    files=FILES,
    read=read,
    metrics=(aspects, sentiment, aspect_auc, sentiment_auc),
    headline="aspect_f1",
    labels=LABELS,
    words=("Nothing", "Good", "Bad"),
    prompt="{0} Question: what do you think of {1}? Answer:",
    scored=True,
    report="test",
)


@cache
def variant(way: str) -> Task:
    """The task with another construction. "single" is the default task."""
    return construction(_TASK, way, WORDINGS)


TASK = variant("single")
