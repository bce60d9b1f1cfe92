"""Removal of units (heads or neurons) from the blocks of an encoder: the settings and the transform.

The transforms `heads` and `ffn` are instances of `UnitRemoval`. TensorFlow and NumPy are imported by the removal alone.
"""

from dataclasses import dataclass, replace
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import check_effect, one_of, setting, share
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import further_training_settings
from ptmbench.bench.errors import NotApplicable


@dataclass(frozen=True, kw_only=True)
class FurtherTraining:
    """Settings of the training after a removal of layers or units."""

    epochs: int = setting(0)
    """Passes over the training examples after the removal; 0 for no further training."""
    max_steps: int = setting(0)
    """Maximum number of training steps; 0 for no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate; 0 for the adaptation's."""

    def __post_init__(self) -> None:
        if not self.epochs:
            check_effect(self, "epochs=0", "max_steps", "learning_rate")

    def of(self, adaptation: Adapting) -> Adapting:
        """The settings of the further training."""
        return further_training_settings(self, adaptation)

    def label_suffix(self) -> str:
        """The end of a label, which gives the number of further epochs."""
        return f", {self.epochs} more epoch{'s' * (self.epochs > 1)}" if self.epochs else ""


@dataclass(frozen=True, kw_only=True)
class RemovalSettings(FurtherTraining):
    """Settings of a removal of units."""

    share: float = share(0.5)
    """Share of the units that are removed; their number is rounded down."""
    by: str = one_of("importance", "importance", "random")
    """The units that are kept: the most important ones or random ones."""
    examples: int = setting(1000)
    """Number of training examples for measuring importance; 0 for all."""

    def training(self, adaptation: Adapting) -> Adapting | None:
        """The settings of the transform's training. Without further training, importance costs one epoch over its
        examples."""
        if self.epochs:
            return self.of(adaptation)
        if self.by == "random":
            return None
        limit = min(self.examples or adaptation.train_limit, adaptation.train_limit or self.examples)
        return replace(adaptation, epochs=1, max_steps=0, train_limit=limit)


@dataclass(frozen=True, kw_only=True)
class UnitRemoval:
    """A `bench.adapt.transforms.contract.Transform` that removes units of each block, with optional training
    (``epochs``)."""

    summary: str
    part: str
    """The field of `bench.adapt.shapes.StackShape` that becomes smaller: "heads" or "inner"."""
    noun: str
    """The name of the units on the board."""
    together: bool
    """Whether the units of all blocks are ranked together; otherwise each block has its own ranking."""
    settings: type = RemovalSettings
    version: int = 1
    compression: str = "pruning"
    rebuilds: bool = False
    final: bool = False

    def label(self, settings: RemovalSettings) -> str:
        chosen = " at random" if settings.by == "random" else ""
        return f"{100 * settings.share:g} % of {self.noun} removed{chosen}{settings.label_suffix()}"

    def training(self, settings: RemovalSettings, adaptation: Adapting) -> Adapting | None:
        return settings.training(adaptation)

    def transformed(self, material: Material) -> Transformed:
        import numpy as np

        from ptmbench.bench.adapt.course import Course
        from ptmbench.bench.adapt.transforms import units

        settings, adapted = material.settings, material.predictor.network
        shape, spent = units.shape_of(adapted), Course()
        rng = np.random.default_rng([material.seed, 4])
        if settings.by == "random":
            scores = [rng.random(count) for count in getattr(shape, self.part)]
        else:
            rows = material.rows["train"]
            if 0 < settings.examples < len(rows):
                rows = [rows[i] for i in np.sort(rng.permutation(len(rows))[: settings.examples])]
            scores = units.importance(adapted, rows, self.part)
            spent.tokens, spent.flops = sum(row.tokens for row in rows), 3 * adapted.forward_flops(rows)
        kept = units.best(scores, settings.share, self.together)
        if settings.share and list(map(len, kept)) == list(map(len, scores)):
            raise NotApplicable(
                "few-units",
                f"because share={settings.share:g} of its {self.noun} is less than one. Set a higher share.",
            )
        return units.train_further(material, *units.keep_units(adapted, self.part, kept), spent)

    def prepare(self, adapted: Any, settings: RemovalSettings) -> None:
        """Does nothing, because the shape of the stack fully describes the network."""
