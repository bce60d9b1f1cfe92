"""How much memory of a network each device holds, and whether a network can be split. Reads configurations only."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ptmbench.bench.engine.recipe import Recipe
from ptmbench.bench.errors import UsageError
from ptmbench.models.costs import Model
from ptmbench.models.layers.split import VOCABULARY, Cut, weights

ARRAYS = 3
"""Arrays of float32 for each trainable weight: the weight and the two moments of Adam or LAMB."""


class Memory(NamedTuple):
    """Bytes of weights and moments."""

    one: int
    """On one device, without splitting."""
    each: int
    """On each device of the model axis."""
    split: int
    """The part of ``one`` that is split."""


def divided(cut: Cut | None, devices: int) -> bool:
    """Whether the weight of ``cut`` is split over ``devices`` devices. A vocabulary that cannot be divided evenly is
    copied to each device."""
    return cut is not None and devices > 1 and (cut.what != VOCABULARY or cut.units % devices == 0)


def memory(model: Model, devices: int) -> Memory:
    """Memory of the weights and moments of ``model``, split over ``devices`` devices, if all are trained."""
    one = each = split = 0
    for shape, cut in _weights(model):
        size = 4 * ARRAYS * math.prod(shape)
        one += size
        if divided(cut, devices):
            split += size
            each += size // devices
        else:
            each += size
    return Memory(one, each, split)


def check(model: Model, devices: int, title: str) -> None:
    """Raises `UsageError` if ``model``, called ``title``, cannot be split over ``devices`` devices."""
    if getattr(model, "co_trained", False):
        raise UsageError(
            f"{title} cannot be split over devices: its loss compares whole weights with those of its teacher. Use "
            "--strategy one or mirrored."
        )
    found = {cut for _, cut in _weights(model) if cut is not None and cut.what != VOCABULARY}
    if not found:
        raise UsageError(
            f"{title} cannot be split over devices: it has no attention or feed-forward layers of the kind that is "
            "split. Use --strategy one or mirrored."
        )
    for cut in sorted(found, key=lambda cut: (cut.what, cut.units)):
        if cut.units % devices:
            common = math.gcd(*(one.units for one in found))
            choices = ", ".join(str(number) for number in range(2, common + 1) if common % number == 0)
            advice = f"--model-parallel can be {choices}" if choices else "Use --strategy one or mirrored"
            raise UsageError(
                f"{title} has {cut.units} {cut.what}, which cannot be divided among {devices} devices. {advice}."
            )


def check_recipe(recipe: Recipe) -> None:
    """Raises `UsageError` if ``recipe`` has settings that a step on split weights does not support."""
    if recipe.optimizer not in ("adamw", "lamb"):
        raise UsageError(
            f"--strategy tensor has no optimizer {recipe.optimizer}, whose gradients are sparse. Use adamw or lamb, or "
            "--strategy one."
        )
    if recipe.rematerialise:
        raise UsageError(
            "--strategy tensor recomputes no activations: weights that are split would get no gradients. Leave "
            "rematerialise=true out, or use --strategy one."
        )
    if recipe.xla is True:
        raise UsageError("--strategy tensor cannot be compiled with XLA. Leave xla=true out, or use --strategy one.")


def manifest_entry(model: Model, devices: int) -> dict[str, int]:
    """The manifest's entry about a training of ``model`` that was split over ``devices`` devices."""
    found = memory(model, devices)
    return {"devices": devices, "bytes_on_one": found.one, "bytes_on_each": found.each}


def sentence(about: Mapping[str, int]) -> str:
    """The entry that `manifest_entry` returns as a sentence."""
    one, each = (about[name] / 2**20 for name in ("bytes_on_one", "bytes_on_each"))
    return (
        f"Weights and moments took {each:.1f} MiB on each of {about['devices']} devices; on one device they take "
        f"{one:.1f} MiB."
    )


def _weights(model: Model) -> Iterator[tuple[Any, Cut | None]]:
    for layer in model.layers:
        yield from weights(layer)
