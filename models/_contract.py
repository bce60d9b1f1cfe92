"""What the file of a model has to define, checked when it is loaded: a mistake is told before anything is trained.

`models.load` calls it. What only a network can show is checked by `bench.engine.networks.build` and by the tests.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import ModuleType
from typing import Any

from ptmbench.models._importing import fits
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.channels import CHANNELS
from ptmbench.models.text.tokenizers import KINDS, Vocabulary

SIZES = ("tiny", "mini", "small", "base")
_LENGTH, _WORDS = 64, Vocabulary(size=1000)
_REQUIRED = {"build": "size, vocabulary", "parameters": "size, vocabulary"} | {
    "flops_per_token": "size, vocabulary, length",
    "encoder_flops_per_token": "size, length",
}
_OPTIONAL = {"decode_flops": "size, vocabulary, length, targets", "embedding_flops_per_token": "size"} | {
    "likelihood_flops_per_token": "size, vocabulary, length"
}
_KINDS = {"representation": Representation, "architecture": Architecture, "year": int, "objectives": tuple} | {
    "extensions": tuple,
    "reported": tuple,
    "reads": tuple,
}
"""Types of the card's fields; all others are texts."""


def mistakes(module: ModuleType, objectives: tuple[str, ...]) -> list[str]:
    """What ``module`` lacks or has wrong as a model's file, in sentences; ``objectives`` are the names there are."""
    found = [*_card(getattr(module, "CARD", None), objectives), *_sizes(getattr(module, "SIZES", None))]
    for name, takes in (_REQUIRED | _OPTIONAL).items():
        function = getattr(module, name, None)
        if function is None and name in _OPTIONAL:
            continue
        if not callable(function) or not fits(function, len(takes.split(", "))):
            found.append(f"It has no function {name}({takes}).")
    rate = getattr(module, "LEARNING_RATE", 1e-3)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
        found.append(f"LEARNING_RATE is a number above 0, not {rate!r}.")
    return found or list(_formulas(module))


def _card(card: Any, objectives: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(card, Card):
        yield "It has no CARD, a models.card.Card."
        return
    for field in fields(Card):
        value, kind = getattr(card, field.name), _KINDS.get(field.name, str)
        if not isinstance(value, kind):
            yield f"CARD.{field.name} is a {kind.__name__}, not {value!r}."
    for name in card.objectives if isinstance(card.objectives, tuple) else ():
        if name not in objectives:
            yield f"CARD.objectives names {name!r}, which has no file in models/objectives."
    for name in card.reads if isinstance(card.reads, tuple) else ():
        if name not in CHANNELS:
            yield f"CARD.reads names {name!r}, which is no channel. Channels: {', '.join(CHANNELS)}."
    if card.tokenizer not in KINDS:
        yield f"CARD.tokenizer is one of {', '.join(KINDS)}, not {card.tokenizer!r}."
    if isinstance(card.reported, tuple) and not all(isinstance(one, Reported) for one in card.reported):
        yield "CARD.reported holds models.card.Reported and nothing else."


def _sizes(sizes: Any) -> Iterator[str]:
    if not isinstance(sizes, Mapping) or not all(isinstance(size, Size) for size in sizes.values()):
        yield f"It has no SIZES, a dict from {', '.join(SIZES)} to models.card.Size."
    elif missing := [name for name in SIZES if name not in sizes]:
        yield f"SIZES lacks {', '.join(missing)}."
    else:
        least = {"width": 1, "heads": 1, "length": 1}
        for name, size in sizes.items():
            for part, value in vars(size).items():
                if type(value) is not int or value < least.get(part, 0):
                    yield f"SIZES['{name}'].{part} is a whole number of at least {least.get(part, 0)}, not {value!r}."


def _formulas(module: ModuleType) -> Iterator[str]:
    """What the functions that cost nothing give for every size: training would end with them, or in them."""
    given = {"vocabulary": _WORDS, "length": _LENGTH, "targets": _LENGTH}
    for label, size in module.SIZES.items():
        for name, takes in (_REQUIRED | _OPTIONAL).items():
            function = getattr(module, name, None)
            if name == "build" or function is None:
                continue
            try:
                value = function(*[(given | {"size": size})[one] for one in takes.split(", ")])
            except Exception as error:
                yield f"{name} fails for the size {label}: {type(error).__name__}: {error}."
                continue
            pair = name == "parameters"
            numbers = value if pair and isinstance(value, tuple) and len(value) == 2 else (value,)
            if len(numbers) != 1 + pair or not all(isinstance(n, int | float) and 0 <= n < math.inf for n in numbers):
                what = "two counts, of all weights and of those in tables" if pair else "a number of at least 0"
                yield f"{name} gives {value!r} for the size {label}, where {what} is expected."
