"""Which weights can be split over devices in training, and along which axis, derived from configurations.

Megatron-LM (Shoeybi et al., 2019, section 3) splits a Transformer block over N devices. The first product of each part
is split by columns: queries, keys and values by heads, and the first product of feed-forward by inner dimensions. The
second product is split by rows. So each device computes its heads and its inner dimensions alone. Only the two sums
after the second products run over all devices. The table of token vectors is split by rows, the vocabulary.

`bench.engine.tensor_parallel` places the weights accordingly. All other weights are copied to every device.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ptmbench.models.layers.config import (
    AttentionConfig,
    Config,
    DecoderConfig,
    EmbeddingsConfig,
    FeedForwardConfig,
    LinearConfig,
    Shape,
)

HEADS, INNER, VOCABULARY = "attention heads", "inner dimensions", "rows of the vocabulary"


@dataclass(frozen=True, slots=True)
class Cut:
    """How one weight is split: along ``axis``, between ``units`` of ``what``.

    A fused kernel has the columns of several ``parts`` side by side, such as queries, keys and values. Each device gets
    its columns of every part (`models.layers.operations.split_columns`).
    """

    axis: int
    units: int
    what: str
    parts: int = 1


def cuts(config: Config) -> Mapping[str, Mapping[str, Cut]]:
    """{part: {weight: `Cut`}} for the layers directly inside the layer of ``config``.

    Only the configurations named here are split. A subclass of an attention or feed-forward configuration is not,
    because its products may have another layout.
    """
    kind, parts = type(config), dict(config.parts())
    if kind is AttentionConfig:
        columns = ((name, part) for name, part in parts.items() if name != "projection")
        found = {name: _columns(part, config.heads, HEADS, part.outputs // config.width) for name, part in columns}
        return found | {"projection": _rows(config.heads, HEADS)}
    if kind is FeedForwardConfig:
        first = _columns(parts["inner"], config.inner, INNER, 2 if config.gated else 1)
        return {"inner": first, "outer": _rows(config.inner, INNER)}
    if isinstance(config, EmbeddingsConfig) and config.tokens is not None:
        return {"tokens": {"table": Cut(0, config.tokens.rows, VOCABULARY)}}
    if isinstance(config, DecoderConfig) and config.logits is not None:
        return {"logits": {"table": Cut(0, config.logits.rows, VOCABULARY)}}
    return {}


def _columns(part: LinearConfig, units: int, what: str, parts: int) -> dict[str, Cut]:
    return {name: Cut(len(shape) - 1, units, what, parts) for name, shape in part.weights().items()}


def _rows(units: int, what: str) -> dict[str, Cut]:
    """Only the kernel: the bias is added once, to the sum over all devices."""
    return {"kernel": Cut(0, units, what)}


def weights(config: Config, own: Mapping[str, Cut] | None = None) -> Iterator[tuple[Shape, Cut | None]]:
    """Shape and `Cut` of every weight of the layer of ``config`` and of all layers inside it. ``own`` are the cuts of
    its own weights."""
    for name, shape in config.weights().items():
        yield shape, (own or {}).get(name)
    inside = cuts(config)
    for name, part in config.parts():
        yield from weights(part, inside.get(name))
