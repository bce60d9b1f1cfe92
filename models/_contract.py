"""Checks the file of a model when it is loaded, so that mistakes are reported before training.

`models.load` calls `mistakes`. What can only be seen in a built network is checked by `bench.engine.networks.build` and
by the tests.
"""

import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from ptmbench.models._importing import fits
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size, Teacher
from ptmbench.models.channels import CHANNELS, WIDTHS
from ptmbench.models.costs import Model
from ptmbench.models.text.tokenizers import KINDS, Vocabulary

SIZES = ("tiny", "mini", "small", "base")
_LENGTH, _WORDS = 64, Vocabulary(size=1000)
_COSTS: dict[str, Callable[[Model], tuple]] = {
    "parameters": lambda model: tuple(model.parameters()),
    "training_flops": lambda model: (model.training_flops(_LENGTH),),
    "encoder_flops": lambda model: (model.encoder_flops(_LENGTH), model.embedding_flops(_LENGTH)),
    "media_flops": lambda model: (model.media_flops(_LENGTH, dict.fromkeys(WIDTHS, _LENGTH)),),
    "decode_flops": lambda model: (model.decode_flops(_LENGTH, _LENGTH),) if model.writes else (),
    "likelihood_flops": lambda model: (model.likelihood_flops(_LENGTH),) if model.tells_likelihood else (),
}
"""The costs that the harness computes from a description, by the name of the method that may be wrong."""
_KINDS = {"representation": Representation, "architecture": Architecture}
_KINDS |= dict.fromkeys(("year", "version"), int)
_KINDS |= dict.fromkeys(("objectives", "extensions", "reported", "reads", "aliases"), tuple)
"""Types of the card's fields; all others are strings."""


def mistakes(module: ModuleType, objectives: tuple[str, ...], models: tuple[str, ...]) -> list[str]:
    """Returns what is missing or wrong in ``module`` as a model's file, in sentences. ``objectives`` and ``models`` are
    the existing names."""
    found = [*_card(getattr(module, "CARD", None), objectives), *_sizes(getattr(module, "SIZES", None))]
    taught = hasattr(module, "TEACHER")
    if taught:
        found += _teacher(module.TEACHER, Path(module.__file__).stem, models)
    for name, takes in (("describe", "size, vocabulary"), ("build", "size, vocabulary" + ", teacher" * taught)):
        function = getattr(module, name, None)
        if not callable(function) or not fits(function, len(takes.split(", "))):
            found.append(f"It has no function {name}({takes}).")
    rate = getattr(module, "LEARNING_RATE", 1e-3)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
        found.append(f"LEARNING_RATE is a number above 0, not {rate!r}.")
    return found or list(_descriptions(module))


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
            near = difflib.get_close_matches(str(name).lower(), objectives, n=3) or objectives
            yield f"CARD.objectives names {name!r}, which is no objective. Nearest: {', '.join(near)}."
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


def _teacher(teacher: Any, name: str, models: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(teacher, Teacher):
        yield f"TEACHER is a models.card.Teacher, not {teacher!r}."
        return
    if teacher.model not in models or teacher.model == name:
        yield f"TEACHER.model is the name of another model, not {teacher.model!r}."
    if not callable(teacher.size) or not fits(teacher.size, 1):
        yield f"TEACHER.size is a function of the student's models.card.Size, not {teacher.size!r}."
    if teacher.vocabulary is not None and not (callable(teacher.vocabulary) and fits(teacher.vocabulary, 1)):
        yield f"TEACHER.vocabulary is a function of the size of the teacher's vocabulary, not {teacher.vocabulary!r}."
    if not teacher.parts or isinstance(teacher.parts, str):
        yield f"TEACHER.parts is a tuple of beginnings of paths, such as ('encoder/',), not {teacher.parts!r}."


def _descriptions(module: ModuleType) -> Iterator[str]:
    """Yields the first mistake in the descriptions of all sizes or in their costs, which would end a training with an
    error."""
    for label, size in module.SIZES.items():
        try:
            model = module.describe(size, _WORDS)
        except Exception as error:
            yield f"describe fails for the size {label}: {type(error).__name__}: {error}."
            return
        if not isinstance(model, Model):
            yield f"describe gives {model!r:.80} for the size {label}, where a models.costs.Model belongs."
            return
        for name, ask in _COSTS.items():
            try:
                value = ask(model)
            except Exception as error:
                why = f"{type(error).__name__}: {error}".rstrip(": ")
                yield f"What describe gives for the size {label} has no {name}: {why}."
                return
            if not all(isinstance(n, int | float) and 0 <= n < math.inf for n in value):
                yield f"What describe gives for the size {label} has {name} {value!r}, where numbers belong."
                return
