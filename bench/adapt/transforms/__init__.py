"""Transforms of a network that keep its task: pruning, quantisation. Each has a folder that defines ``TRANSFORM``.

A chain applies several transforms in their order. This file parses the name of a chain, "prune:sparsity=0.8+int8", and
rejects an order that cannot work.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ptmbench.bench.adapt import _folders
from ptmbench.bench.errors import UsageError

if TYPE_CHECKING:
    from ptmbench.bench.adapt.transforms.contract import Transform
    from ptmbench.tasks.forms import Form

_NEXT = re.compile(r"\+(?=[^\W\d])(?!\w+=)")
"""Matches a + before the name of a transform, but not before a setting ``name=``."""


class ChosenTransform(NamedTuple):
    """A transform with its settings."""

    title: str
    """Its name with the settings that differ from their defaults: "prune:sparsity=0.8"."""
    transform: "Transform"
    settings: Any

    @property
    def label(self) -> str:
        """The transform's label, and the changed settings that this does not tell: "pruned 50 %, epochs=2"."""
        from ptmbench.bench.adapt.settings import SettingError, split

        words = [self.transform.label(self.settings)]
        for name, value in split(self.title)[1]:
            try:
                usual = replace(self.settings, **{name: getattr(type(self.settings)(), name)})
            except SettingError:  # other settings need this value, so they tell it
                continue
            if self.transform.label(usual) == words[0]:
                words.append(f"{name}={value}")
        return ", ".join(words)

    def obstacle(self, adaptation: str, form: "Form") -> str:
        """Why a model of this ``adaptation`` on a ``form`` task cannot be transformed, as far as this is known without
        the network; "" if nothing is known. A transform may define the method of this name."""
        found = getattr(self.transform, "obstacle", None)
        return found(adaptation, form) if found else ""

    def measured_texts(self, layers: int, batch: int) -> float:
        """How many texts the network could read for the cost of what the transform measures (losses of candidates,
        sensitivities), for estimates; 0 if its settings do not define this. The network has this number of ``layers``,
        and training steps read ``batch`` texts."""
        measured = getattr(self.settings, "measured_texts", None)
        return measured(layers, batch) if measured else 0.0

    def recorded(self) -> dict[str, Any]:
        """Its "name", "settings" and "version", from which `read` restores it."""
        from ptmbench.bench.adapt.settings import recorded

        return {"name": self.title, "settings": recorded(self.settings), "version": self.transform.version}


def names() -> tuple[str, ...]:
    """The sorted names of all transforms."""
    return _folders.names(Path(__file__).parent)


@cache
def load(name: str) -> "Transform":
    """The transform ``name``. Raises `bench.errors.BrokenFile` if its folder is invalid."""
    from ptmbench.bench.adapt.transforms.contract import Transform

    return _folders.load(Path(__file__).parent, name, "TRANSFORM", Transform)


def split(asked: str) -> list[str]:
    """The transforms of a chain: ["prune:sparsity=0.8", "int8"] for "prune:sparsity=0.8+int8"."""
    return _NEXT.split(asked)


def choose(asked: str) -> tuple[ChosenTransform, ...]:
    """The transforms that a user ``asked`` for, in their order: "int8", "prune:sparsity=0.8+int8".

    Raises `UsageError` for an unknown transform and for an order that cannot work, and `SettingError` for invalid
    settings.
    """
    chain = tuple(
        ChosenTransform(*_folders.parse_choice("transform", one, names(), load, "prune:sparsity=0.8"))
        for one in split(asked)
    )
    _check_order(chain)
    return chain


def read(recorded: Mapping[str, Any]) -> ChosenTransform:
    """The transform that `ChosenTransform.recorded` describes."""
    transform = load(recorded["name"].partition(":")[0])
    return ChosenTransform(recorded["name"], transform, transform.settings(**recorded["settings"]))


def title(chain: Sequence[Mapping[str, Any]]) -> str:
    """The name of a ``chain`` of recorded transforms, as `choose` takes it; "" without a transform."""
    return "+".join(one["name"] for one in chain)


def joined(chain: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One entry for a ``chain`` of recorded transforms: the name of the chain, settings and version of the last
    transform, and the transforms "before" it."""
    *before, last = chain
    return {**last, "name": title(chain)} | ({"before": before} if before else {})


def separated(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The inverse of `joined`; further fields of ``entry`` are left out."""
    last = {"name": split(entry["name"])[-1], "settings": entry["settings"], "version": entry["version"]}
    return [*entry.get("before", ()), last]


def described(chain: Sequence[ChosenTransform]) -> dict[str, str]:
    """The entries of a ``chain`` on the board: its "label", and its kinds of "compression", joined by "+"."""
    return {
        "label": ", then ".join(one.label for one in chain),
        "compression": "+".join(dict.fromkeys(one.transform.compression for one in chain)),
    }


def _check_order(chain: Sequence[ChosenTransform]) -> None:
    """Raises `UsageError` if a transform comes after one that no transform can follow."""
    final = [one for one in chain if one.transform.final]
    if not final or (len(final) == 1 and chain[-1] is final[0]):
        return
    asked = "+".join(one.title for one in chain)
    if len(final) > 1:
        titles = " and ".join(one.title for one in final)
        raise UsageError(
            f"--transform {asked}: {titles} must each be the last transform of a chain. Ask for one chain with each."
        )
    right = "+".join(one.title for one in (*(one for one in chain if one is not final[0]), final[0]))
    raise UsageError(
        f"--transform {asked}: no transform can train or change weights after {final[0].title}, so it must be the "
        f"last. Use {right}."
    )
