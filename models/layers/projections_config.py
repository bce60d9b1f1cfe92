"""Configuration of the projections between the weights of two Transformers (`models.layers.projections`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ptmbench.models.layers.config import Config, EncoderConfig, Shape


@dataclass(frozen=True, kw_only=True)
class ProjectionsConfig(Config):
    """Two matrices for each of the two widths of a Transformer: one for the rows of weights and one for their columns.

    ``source`` and ``target`` have a width of vectors and an inner width each. The weights of a network with the widths
    ``source`` are projected and compared with those of a network with the widths ``target``.
    """

    source: tuple[int, int]
    target: tuple[int, int]

    def weights(self) -> Mapping[str, Shape]:
        (D, F), (d, f) = self.source, self.target
        return {"rows_width": (d, D), "rows_inner": (f, F), "columns_width": (D, d), "columns_inner": (F, f)}

    def weight_flops(self, encoder: EncoderConfig) -> float:
        """FLOPs of projecting all weights of ``encoder``, which may have the widths of either network: forward pass
        only. A vector of a layer counts as a matrix of one row."""
        (D, F), (d, f) = self.source, self.target
        embeddings, columns = encoder.embeddings, 2 * D * d
        found = columns * (encoder.embeddings.tokens.rows + embeddings.rows + embeddings.segments.rows + 2)
        kernels = ((4, D, D, d, d), (1, D, F, d, f), (1, F, D, f, d))
        layer = sum(count * 2 * (i * I * O + i * O * o) for count, I, O, i, o in kernels)  # noqa: E741
        vectors = 9 * columns + 2 * F * f
        return float(found + encoder.stack.layers * (layer + vectors))

    def pairs(self) -> Iterator[tuple[int, int]]:
        """The widths of source and target, first of vectors and then inside feed-forward layers."""
        yield from zip(self.source, self.target, strict=True)
