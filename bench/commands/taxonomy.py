"""The options of ``ls models`` that choose models by their place in the survey's taxonomy (`models.taxonomy`)."""

from collections.abc import Mapping

from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs.catalogue import cards_of_models
from ptmbench.models import taxonomy
from ptmbench.models.card import Card

_FIELDS = {
    "representation": "representation",
    "architecture": "architecture",
    "objective": "objectives",
    "extension": "extensions",
}
"""The field of `Card` for each axis."""


def chosen_models(given: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the models that match every term in ``given``, {axis or "anywhere": term}.

    A term is a term of the survey's figure, short ("MLM") or long ("masked language modelling"), or a value on cards,
    such as the name of an objective. Raises `UsageError` for a term that is neither.
    """
    cards = cards_of_models()
    found = [_models(axis, term, cards) for axis, term in given.items()]
    return tuple(name for name in cards if all(name in one for one in found))


def _models(axis: str, term: str, cards: Mapping[str, Card]) -> set[str]:
    axes = tuple(_FIELDS) if axis == "anywhere" else (axis,)
    places = [one for axis in axes for one in taxonomy.find(term, taxonomy.AXES[axis])]
    found = {name for one in places for name in taxonomy.models_in(one, cards)}
    found |= {name for name, card in cards.items() if taxonomy.fold(term) in map(taxonomy.fold, _values(card, axes))}
    if not places and not found:
        known = [one.title for axis in axes for one in taxonomy.terms(taxonomy.AXES[axis])]
        values = sorted({value for card in cards.values() for value in _values(card, axes)})
        option = "in" if axis == "anywhere" else axis
        raise UsageError(
            f"--{option} takes a term of the survey or a value on a card, not '{term}'. "
            f"Terms: {', '.join(dict.fromkeys(known))}. Values: {', '.join(values)}."
        )
    return found


def _values(card: Card, axes: tuple[str, ...]) -> list[str]:
    """The values of ``card`` on the ``axes``."""
    found = [getattr(card, _FIELDS[axis]) for axis in axes]
    return [str(value) for one in found for value in (one if isinstance(one, tuple) else (one,))]
