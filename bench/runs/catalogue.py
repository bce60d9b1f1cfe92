"""Collects what the board shows about models in addition to their records.

These are stories, formulas, papers, relatives, sizes, and the survey's taxonomy: plain values for
`leaderboard.board.build`, read from the files of models and objectives without TensorFlow.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ptmbench import models
from ptmbench.bench import adapt
from ptmbench.bench.adapt import transforms
from ptmbench.bench.environment import ROOT
from ptmbench.bench.errors import BrokenFile
from ptmbench.models import objectives, story, taxonomy
from ptmbench.models.card import Card
from ptmbench.models.story import Story
from ptmbench.models.taxonomy import Term
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = 8000
"""The vocabulary size that the parameter counts of all sizes assume."""


def catalogue() -> dict[str, Any]:
    """Returns {"vocabulary", "models", "objectives", "taxonomy", "methods"} as JSON values, for
    `leaderboard.page.lessons` and `leaderboard.page.survey`. Leaves out broken files."""
    cards = cards_of_models()
    names = tuple(cards)
    stories = {name: story.read(models.paths()[name]) for name in names}
    nearest = {name: told.relatives(names) for name, told in stories.items()}
    return {
        "vocabulary": VOCABULARY,
        "models": {
            name: _model(name, cards[name], stories[name]) | {"relatives": _relatives(name, nearest, stories, cards)}
            for name in names
        },
        "objectives": {name: told for name in _named(cards) if (told := _objective(name))},
        "taxonomy": _term(taxonomy.FIGURE, cards),
        "methods": [*adapt.names(), *transforms.names()],
    }


def cards_of_models() -> dict[str, Card]:
    """The card of every model without errors in its file, by name."""
    found = {}
    for name in models.names():
        with suppress(models.BrokenModel):
            found[name] = models.load(name).CARD
    return found


def _model(name: str, card: Card, told: Story) -> dict[str, Any]:
    module = models.load(name)
    sizes = []
    for label, size in module.SIZES.items():
        every, embedding = module.describe(size, Vocabulary(size=VOCABULARY)).parameters()
        sizes.append(
            {"name": label, "parameters": every, "embedding": embedding, "layers": size.layers, "width": size.width}
        )
    return {
        "title": card.title,
        "names": [card.title, *card.aliases],
        "year": card.year,
        "citation": card.citation,
        "paper": card.paper,
        "url": card.url,
        "summary": told.summary,
        "story": list(told.text),
        "formula": told.formula,
        "nearest": told.nearest,
        "objectives": list(card.objectives),
        "extensions": list(card.extensions),
        "representation": str(card.representation),
        "architecture": str(card.architecture),
        "tokenizer": card.tokenizer,
        "corpus": card.corpus,
        "parameters": card.parameters,
        "reference": card.reference,
        "licence": card.licence,
        "code": _place(models.paths()[name]),
        "sizes": sizes,
    }


def _named(cards: Mapping[str, Card]) -> list[str]:
    """The objectives on the cards, sorted."""
    return sorted({one for card in cards.values() for one in card.objectives})


def _objective(name: str) -> dict[str, Any]:
    """Summary, formula, text and path of an objective; {} for a file that is missing or is not Python."""
    path = objectives.paths().get(name, Path())
    try:
        told = story.read(path)
    except (OSError, SyntaxError, ValueError):
        return {}
    return {"summary": told.summary, "formula": told.formula, "text": list(told.text), "code": _place(path)}


def _place(path: Path) -> str:
    """``path`` relative to the repository; the whole path for a file outside of it."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


def _relatives(
    name: str, nearest: Mapping[str, tuple[str, ...]], stories: Mapping[str, Story], cards: Mapping[str, Card]
) -> list[dict[str, str]]:
    """Lists the model's nearest relatives, the models whose nearest relative it is, and the other models of its folder,
    with their differences. The difference of a nearest relative is "": the model's "nearest" describes it."""
    folder = models.paths()[name].parent
    found = {one: ("nearest", "") for one in nearest[name]}
    found |= {
        one: ("descendant", stories[one].nearest)
        for one, near in nearest.items()
        if name in near[:1] and one not in found
    }
    family = [one for one in cards if models.paths()[one].parent == folder and one not in (name, *found)]
    found |= {one: ("family", _difference(cards[name], cards[one])) for one in family}
    return [
        {"name": one, "relation": relation, "difference": difference} for one, (relation, difference) in found.items()
    ]


def _difference(card: Card, other: Card) -> str:
    """Describes how ``other`` differs from ``card`` in architecture, objectives and extensions."""
    parts = []
    for field, label in (("architecture", ""), ("objectives", "objective "), ("extensions", "extension ")):
        ours, theirs = getattr(card, field), getattr(other, field)
        if ours != theirs:
            parts.append(f"{label}{_words(theirs)} instead of {_words(ours)}")
    return "; ".join(parts) or "the same architecture and objectives"


def _words(value: Any) -> str:
    return (" + ".join(value) or "none") if isinstance(value, tuple) else str(value)


def _term(term: Term, cards: Mapping[str, Card]) -> dict[str, Any]:
    """Returns ``term`` with its systems, the models or the method that implement each, and other models of the term."""
    by_system = {one: [name for name, card in cards.items() if _called(card, one)] for one in term.systems}
    named = {name for found in by_system.values() for name in found}
    parts = [_term(part, cards) for part in term.parts]
    below = {name for part in term.parts for name in taxonomy.models_in(part, cards)}
    return {
        "title": term.title,
        "long": term.long,
        "values": [str(value) for value in term.values],
        "systems": [
            {"name": one, "models": found, "method": "" if found else _method(one)} for one, found in by_system.items()
        ],
        "others": sorted(name for name, card in cards.items() if term.fits(card) and name not in named | below),
        "methods": [
            name for name, kind in _compressions().items() if term.axis == "extensions" and kind in term.values
        ],
        "parts": parts,
    }


def _called(card: Card, system: str) -> bool:
    return taxonomy.fold(system) in map(taxonomy.fold, (card.title, *card.aliases))


def _method(system: str) -> str:
    """The adaptation that the survey calls ``system``; "" if there is none."""
    for name in adapt.names():
        with suppress(BrokenFile):
            if taxonomy.fold(system) in map(taxonomy.fold, (name, *adapt.load(name).systems)):
                return name
    return ""


def _compressions() -> dict[str, str]:
    """The survey's kind of compression of each transform, by name."""
    found = {}
    for name in transforms.names():
        with suppress(BrokenFile):
            found[name] = transforms.load(name).compression
    return found
