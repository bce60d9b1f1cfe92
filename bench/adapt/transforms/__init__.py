"""Transforms of a network that keep its task: pruning, quantisation. One folder each defines ``TRANSFORM``."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ptmbench.bench.adapt import _folders

if TYPE_CHECKING:
    from ptmbench.bench.adapt.transforms.contract import Transform


class Chosen(NamedTuple):
    """A transform with its settings."""

    title: str
    """Its name with the settings that differ from their defaults: "prune:sparsity=0.8"."""
    transform: "Transform"
    settings: Any


def names() -> tuple[str, ...]:
    """Every transform's name, sorted."""
    return _folders.names(Path(__file__).parent)


@cache
def load(name: str) -> "Transform":
    """The transform ``name``. Raises `bench.errors.BrokenFile` where its folder is not sound."""
    from ptmbench.bench.adapt.transforms.contract import Transform

    return _folders.load(Path(__file__).parent, name, "TRANSFORM", Transform)


def choose(asked: str) -> Chosen:
    """The transform that a user ``asked`` for: "int8", "prune:sparsity=0.8".

    Raises `UsageError` where there is no such transform, `SettingError` for settings that it does not take.
    """
    return Chosen(*_folders.chosen("transform", asked, names(), load, "prune:sparsity=0.8"))


def read(title: str, settings: Mapping[str, Any]) -> Chosen:
    """The transform that is called ``title``, with the ``settings`` that a plan or a checkpoint recorded."""
    transform = load(title.partition(":")[0])
    return Chosen(title, transform, transform.settings(**settings))
