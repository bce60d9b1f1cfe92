"""The shape of an encoder's stack of blocks: how many layers, heads and inner dimensions are left.

Transforms that remove layers, heads or inner dimensions say with a `StackShape` what is left, and checkpoints keep it.
Networks and their descriptions are made in this shape before anything is built on them, so parameters, FLOPs, training
and further transforms refer to the smaller network.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from ptmbench.models.costs import Model
from ptmbench.models.layers.config import AttentionConfig, BlockConfig, Config, StackConfig
from ptmbench.models.layers.shrunk_config import ShrunkAttentionConfig, ShrunkStackConfig

Kind = TypeVar("Kind", bound=Config)


@dataclass(frozen=True, kw_only=True)
class StackShape:
    """What is left of a stack. Blocks that share their weights are one block, applied ``layers`` times."""

    layers: int
    heads: tuple[int, ...]
    """Heads of each block."""
    inner: tuple[int, ...]
    """Inner dimensions of the feed-forward layer of each block."""

    def stored(self) -> dict[str, Any]:
        """Plain values, which `read` takes."""
        return asdict(self)


def read(stored: Mapping[str, Any]) -> StackShape:
    """The shape that `StackShape.stored` describes."""
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
    """Why the stack of ``encoder`` cannot be given another shape, after "because"; "" if it can be."""
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


def resized(config: Kind, shape: StackShape) -> Kind:
    """The configuration of an encoder whose stack has ``shape``."""
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


def described(model: Model, shape: StackShape | None) -> Model:
    """The description of ``model`` with a stack of ``shape``; ``model`` itself without one."""
    return model if shape is None else replace(model, encoder=resized(model.encoder, shape))


def reshape(network: Any, shape: StackShape | None) -> None:
    """Gives the encoder of ``network`` (`models.pretrainable.Pretrainable`), which is not yet traced, a stack of
    ``shape`` with new weights; nothing without one."""
    if shape is not None:
        encoder = network.encoder
        encoder.exchange("stack", resized(encoder.config, shape).stack)
        encoder.depth = shape.layers
