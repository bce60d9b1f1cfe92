"""A sub-network is extracted: the first units of each block, and equally spaced layers.

This is how a network of DynaBERT (Hou et al., 2020) is used. `dynabert` sorts the units of each block by their
importance and trains the sub-networks. This transform extracts one of them as a separate network with smaller matrices.
``dynabert+subnetwork:width=0.5+depth=0.75`` is such a chain. All sub-networks share one training.

Of H heads and F neurons of a block, round(width H) and round(width F) are kept, but at least one. Of L layers, those
with the numbers floor(i / depth) are kept, for i = 0 ... round(depth L) - 1. If width H is a whole number, this is the
rule of the authors' code (huawei-noah/Pretrained-Language-Model, `DynaBERT/transformers/modeling_bert.py` at 1bb9b3e).
Otherwise that code rounds heads first and gives neurons the same share.

``epochs`` trains the smaller network further on the task, like the authors' optional final fine-tuning. Applied to a
network that was not trained by `dynabert`, this transform is a control.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import setting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.shrinking import FurtherTraining


@dataclass(frozen=True, kw_only=True)
class Settings(FurtherTraining):
    """The settings of ``subnetwork:name=value``."""

    width: float = setting(0.5, "above 0 and 1 at most", lambda value: 0 < value <= 1)
    """Share of the heads and neurons of each block that are kept."""
    depth: float = setting(1.0, "above 0 and 1 at most", lambda value: 0 < value <= 1)
    """Share of the layers that are kept."""


class SubnetworkExtraction:
    """A `bench.adapt.transforms.contract.Transform` with optional training (``epochs``)."""

    summary = "the first heads and neurons of each block and equally spaced layers are taken out (DynaBERT)"
    settings = Settings
    version = 1
    compression = "pruning"
    rebuilds = False
    final = False

    def label(self, settings: Settings) -> str:
        return f"width {settings.width:g}, depth {settings.depth:g}{settings.label_suffix()}"

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting | None:
        return settings.of(adaptation) if settings.epochs else None

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.course import Course
        from ptmbench.bench.adapt.transforms import elastic, units

        adapted, settings = material.predictor.network, material.settings
        chosen = elastic.scaled(units.shape_of(adapted), settings.width, settings.depth)
        return units.train_further(material, *elastic.extract_subnetwork(adapted, chosen), Course())

    def prepare(self, adapted: Any, settings: Settings) -> None:
        """Does nothing, because the shape of the stack fully describes the network."""


TRANSFORM = SubnetworkExtraction()
