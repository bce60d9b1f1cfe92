"""The shape of an encoder's stack: the size of its remaining blocks, or the cells that replace them.

Transforms that remove layers, heads or inner dimensions describe the remaining stack by a `StackShape`. Those that
replace the stack by convolutional cells describe the cells by a `CellShape`. Checkpoints store the shape. It is applied
to networks and their descriptions before anything is built on them, so parameters, FLOPs, training and further
transforms refer to the smaller network.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

from ptmbench.models.costs import Model
from ptmbench.models.layers.cells_config import CellStackConfig, Edge
from ptmbench.models.layers.config import (
    AttentionConfig,
    BlockConfig,
    Config,
    EmbeddingsConfig,
    EncoderConfig,
    StackConfig,
)
from ptmbench.models.layers.shrunk_config import ShrunkAttentionConfig, ShrunkStackConfig

Kind = TypeVar("Kind", bound=Config)


@dataclass(frozen=True, kw_only=True)
class StackShape:
    """The shape of a stack of blocks. Blocks that share their weights are one block, applied ``layers`` times."""

    layers: int
    heads: tuple[int, ...]
    """Heads of each block."""
    inner: tuple[int, ...]
    """Inner dimensions of the feed-forward layer of each block."""

    def stored(self) -> dict[str, Any]:
        """The shape as plain values, for `read`."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class CellShape:
    """Convolutional cells instead of a stack (`models.layers.cells`): ``layers`` cells of ``nodes`` intermediate
    nodes with these ``edges``. ``width`` is the width of all vectors, embeddings included."""

    width: int
    layers: int
    nodes: int
    edges: tuple[Edge, ...]

    def stored(self) -> dict[str, Any]:
        """The shape as plain values, for `read`."""
        return asdict(self)


Shape = StackShape | CellShape


def read(stored: Mapping[str, Any]) -> Shape:
    """The shape that `StackShape.stored` or `CellShape.stored` describes."""
    if "edges" in stored:
        edges = tuple((source, target, tuple(kinds)) for source, target, kinds in stored["edges"])
        return CellShape(**{**stored, "edges": edges})
    return StackShape(layers=stored["layers"], heads=tuple(stored["heads"]), inner=tuple(stored["inner"]))


def of(stack: StackConfig) -> StackShape:
    """The shape of ``stack``."""
    blocks = [block for _, block in stack.parts()]
    return StackShape(
        layers=stack.layers,
        heads=tuple(block.attention.heads for block in blocks),
        inner=tuple(block.feed_forward.inner for block in blocks),
    )


def obstacle(encoder: Config) -> str:
    """Why the stack of ``encoder`` cannot be given another shape, as text after "because"; "" if it can be."""
    stack = getattr(encoder, "stack", None)
    if type(stack) not in (StackConfig, ShrunkStackConfig) or type(stack.block) is not BlockConfig:
        return "its encoder is not a stack of Transformer blocks."
    if type(stack.block.attention) is not AttentionConfig or stack.block.cross is not None:
        return f"its blocks have attention of another kind ({type(stack.block.attention).__name__})."
    if getattr(encoder, "distances", None) is not None:
        return "all of its layers share one table of distances, with a column for each head."
    if any(hasattr(part, "layers") for name, part in encoder.parts() if name != "stack"):
        return "its encoder has further layers behind the stack of blocks."
    return ""


def cells_obstacle(encoder: Config) -> str:
    """Why cells cannot replace the stack of ``encoder``, as text after "because"; "" if they can."""
    if type(encoder) is not EncoderConfig or type(encoder.embeddings) is not EmbeddingsConfig:
        return "its encoder is not embeddings and a stack alone."
    return ""


def resized(config: Kind, shape: Shape) -> Kind:
    """``config`` with a stack of ``shape``. With cells, the pooled vector is the mean over the tokens, and no norm
    follows the stack."""
    if isinstance(shape, CellShape):
        stack = CellStackConfig(**vars(shape))
        embeddings = _narrowed(config.embeddings, shape.width)
        left_out = dict.fromkeys(("distances", "widening", "norm", "pooler"))
        return replace(config, embeddings=embeddings, stack=stack, **left_out, norm_dropout=False, pooled="mean")
    block = config.stack.block
    size = block.attention.width // block.attention.heads
    known = {name: getattr(block.attention, name) for name in ("width", "bias", "scaled", "start", "start_in")}
    blocks = tuple(
        replace(
            block,
            attention=ShrunkAttentionConfig(**known, heads=heads, size=size),
            feed_forward=replace(block.feed_forward, inner=inner),
        )
        for heads, inner in zip(shape.heads, shape.inner, strict=True)
    )
    stack = ShrunkStackConfig(block=block, layers=shape.layers, shared=config.stack.shared, blocks=blocks)
    return replace(config, stack=stack)


def _narrowed(config: EmbeddingsConfig, width: int) -> EmbeddingsConfig:
    """The configuration of embeddings with all vectors of ``width``."""
    parts = {one.name: getattr(config, one.name) for one in fields(config)}
    changed = {name: replace(part, width=width) for name, part in parts.items() if isinstance(part, Config)}
    channels = tuple((name, replace(table, width=width)) for name, table in config.channels)
    return replace(config, **changed, channels=channels)


def described(model: Model, shape: Shape | None) -> Model:
    """The description of ``model`` with a stack of ``shape``; ``model`` itself without one."""
    return model if shape is None else replace(model, encoder=resized(model.encoder, shape))


def reshape(network: Any, shape: Shape | None) -> None:
    """Gives the encoder of ``network`` (`models.pretrainable.Pretrainable`) a stack of ``shape`` with new weights.
    With cells, the embeddings are new too. Does nothing without a ``shape``. The network must not be traced yet."""
    if shape is None:
        return
    encoder = network.encoder
    config = resized(encoder.config, shape)
    if isinstance(shape, CellShape):
        from ptmbench.models.layers import cells  # noqa: F401  the layers that the configuration names

        encoder.stepwise = False
    for one in fields(config):
        before, after = getattr(encoder.config, one.name), getattr(config, one.name)
        if before != after and isinstance(before, Config):
            encoder.exchange(one.name, after)
    encoder.config = config
    encoder.width, encoder.depth, encoder.heads = encoder.dims(config)
