"""Transforms of a network that keep its task: pruning, quantisation. One folder each defines ``TRANSFORM``."""

from functools import cache
from pathlib import Path

from ptmbench.bench.adapt import _folders
from ptmbench.bench.adapt.transforms.contract import Transform


def names() -> tuple[str, ...]:
    """Every transform's name, sorted."""
    return _folders.names(Path(__file__).parent)


@cache
def load(name: str) -> Transform:
    """The transform ``name``. Raises `bench.errors.BrokenFile` where its folder is not sound."""
    return _folders.load(Path(__file__).parent, name, "TRANSFORM", Transform)
