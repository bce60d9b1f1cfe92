"""Layer pruning: whole layers are removed from the network.

Sajjad et al. (2023), "On the Effect of Dropping Layers of Pre-trained Transformer Models" (first called "Poor Man's
BERT", 2020), section 3: top layers are removed, or bottom ones, or the ones in the middle ("symmetric"), or every other
one from the top down ("even alternate"). They remove layers before fine-tuning; here they are removed from the adapted
model, and ``epochs`` trains the smaller network further. Fan, Grave and Joulin (2020), "Reducing Transformer Depth on
Demand with Structured Dropout", section 3.2, remove every other layer in the same way, from networks that were trained
with LayerDrop.

If all layers share their weights (ALBERT), the one block is applied less often: FLOPs fall, and parameters do not. As a
control, ``by=random`` removes the same number of random layers. The difference shows the value of a choice.
"""

import re
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import SettingError, one_of, setting, share
from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.shrinking import FurtherTraining
from ptmbench.bench.errors import NotApplicable


def _is_list(value: str) -> bool:
    if not re.fullmatch(r"|[1-9]\d{0,2}(\.[1-9]\d{0,2})*", value):
        return False
    numbers = [int(one) for one in value.split(".") if one]
    return numbers == sorted(set(numbers))


@dataclass(frozen=True, kw_only=True)
class Settings(FurtherTraining):
    """The settings of ``layers:name=value``."""

    share: float = share(0.5)
    """Share of the layers that are removed; their number is rounded down."""
    by: str = one_of("top", "top", "bottom", "middle", "alternate", "random")
    """The layers that are removed; "alternate" is every other one from the top down."""
    keep: str = setting("", "numbers of layers from 1 with a . between them, in their order, or empty", _is_list)
    """The layers that are kept, such as "1.2.5"; empty to use ``share`` and ``by`` instead."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep and (self.share, self.by) != (0.5, "top"):
            raise SettingError(f"keep={self.keep} names the layers that stay. Leave out share and by.")

    def kept(self, layers: int, seed: int) -> list[int]:
        """The numbers, from 0, of the layers that are kept, of ``layers`` in all. Raises `NotApplicable` if the model
        has too few layers for the settings."""
        if self.keep:
            found = [int(one) - 1 for one in self.keep.split(".")]
            if found[-1] >= layers:
                raise NotApplicable(
                    "few-layers",
                    f"because the model has {layers} layers, and keep={self.keep} names layer {found[-1] + 1}.",
                )
            return found
        count = int(self.share * layers + 1e-9)
        if self.share and not count:
            raise NotApplicable(
                "few-layers", f"because share={self.share:g} of {layers} layers is less than one. Set it higher."
            )
        gone = {
            "top": range(layers - count, layers),
            "bottom": range(count),
            "middle": range((layers - count) // 2, (layers - count) // 2 + count),
            "alternate": range(layers - 1, -1, -2)[:count],
        }
        if self.by == "random":
            import numpy as np

            chosen = set(np.random.default_rng([seed, 4]).permutation(layers)[:count].tolist())
        else:
            chosen = set(gone[self.by])
        if len(chosen) < count:
            raise NotApplicable(
                "few-layers",
                f"because {count} of {layers} layers are to be removed, but every other one is {len(chosen)}. Set a "
                "lower share.",
            )
        return [layer for layer in range(layers) if layer not in chosen]


class Layers:
    """A `bench.adapt.transforms.contract.Transform` with optional training (``epochs``)."""

    summary = "whole layers are taken out"
    settings = Settings
    version = 1
    compression = "pruning"
    rebuilds = False
    final = False

    def label(self, settings: Settings) -> str:
        choice = {"alternate": "every other one", "random": "at random"}.get(settings.by, settings.by)
        which = f"{100 * settings.share:g} % of layers removed, {choice}"
        return (f"layers {settings.keep.replace('.', ', ')} kept" if settings.keep else which) + settings.label_suffix()

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting | None:
        return settings.of(adaptation) if settings.epochs else None

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.course import Course
        from ptmbench.bench.adapt.transforms import units

        adapted = material.predictor.network
        kept = material.settings.kept(units.shape_of(adapted).layers, material.seed)
        return units.train_further(material, *units.keep_layers(adapted, kept), Course())

    def prepare(self, adapted: Any, settings: Settings) -> None:
        """Does nothing, because the shape of the stack fully describes the network."""


TRANSFORM = Layers()
