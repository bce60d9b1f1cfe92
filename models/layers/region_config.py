"""Configurations of an encoder of tokens and image regions; `models.layers.regions` has the layers. R is the number of
regions, F of their features."""

from dataclasses import dataclass

from ptmbench.models.layers.config import Config, EncoderConfig, LinearConfig, TableConfig


@dataclass(frozen=True, kw_only=True)
class RegionsConfig(Config):
    """Vectors of regions: a product of their features, and two vectors that all of them share."""

    projection: LinearConfig
    segment: TableConfig
    position: TableConfig


@dataclass(frozen=True, kw_only=True)
class RegionEncoderConfig(EncoderConfig):
    """An encoder whose stack reads ``regions`` after the tokens: ``count`` of them in a row of pre-training."""

    regions: RegionsConfig
    count: int

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of one row of ``tokens`` without a picture."""
        return self.row_flops(tokens, 0)

    def row_flops(self, tokens: float, regions: float) -> float:
        """FLOPs of one row of ``tokens`` and ``regions``, all of which see each other."""
        return super().flops(tokens + regions) + self.regions.flops(regions)

    def training_flops(self, length: float) -> float:
        """FLOPs of a training step for one row with ``count`` regions, whose features have no gradient."""
        return 3 * self.row_flops(length, self.count) - self.regions.flops(self.count)
