"""Configurations of layers: the structure of a network, its number of weights and its cost.

A configuration is a frozen dataclass. It gives the shapes of the layer's own weights, and the configurations of the
layers inside it. Parameters and FLOPs are sums over these. The Keras layer of the same name is built from it:
``Attention(AttentionConfig(width=128, heads=2))``. Model files compose configurations.

FLOPs are those of matrix products, two for each multiplication and addition. Lookups, sums, norms, activations and
softmax are left out, as is usual (Kaplan et al., 2020, section 2.1; Hoffmann et al., 2022, appendix F).

Letters: B batch, T tokens, D width, E width of token vectors, F inner width, H heads, V vocabulary, L layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

Shape = tuple[int, ...]


class Parameters(NamedTuple):
    """Numbers of weights: the total, and the weights in tables. A step reads only a few rows of a table."""

    total: int = 0
    tables: int = 0

    def plus(self, other: Parameters) -> Parameters:
        return Parameters(self.total + other.total, self.tables + other.tables)


@dataclass(frozen=True, kw_only=True)
class Start:
    """Initial values of a weight: ``kind`` is a Keras initialiser's name, or "sinusoids" for waves.

    ``deviations`` has one standard deviation for the whole weight, or one for each of several equal blocks of columns.
    """

    kind: str = "truncated_normal"
    deviations: tuple[float, ...] = (0.02,)


ZEROS, ONES = Start(kind="zeros", deviations=()), Start(kind="ones", deviations=())
GLOROT = Start(kind="glorot_uniform", deviations=())
BERT = Start()
"""Normal with standard deviation 0.02, truncated at two deviations (Devlin et al., 2019, authors' code)."""
NORMAL = Start(kind="random_normal")
"""Normal with deviation 0.02, not truncated (Radford et al., 2018, section 4.1; BART's and XLNet's authors' code)."""


def uniform(limit: float) -> Start:
    """Uniformly distributed values from -``limit`` to ``limit``."""
    return Start(kind="random_uniform", deviations=(limit / 3**0.5,))


_KINDS: dict[str, type] = {}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Base of all configurations. A field that is a configuration itself describes a layer inside this one."""

    def __init_subclass__(cls) -> None:
        _KINDS[cls.__name__] = cls

    def weights(self) -> Mapping[str, Shape]:
        """Shapes of the layer's own weights by name, without those of the layers inside it."""
        return {}

    def parts(self) -> Iterator[tuple[str, Config]]:
        """Names and configurations of the layers inside this one."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Config):
                yield field.name, value

    def parameters(self) -> Parameters:
        """Numbers of weights of this layer and of all layers inside it."""
        found = Parameters(sum(math.prod(shape) for shape in self.weights().values()))
        for _, part in self.parts():
            found = found.plus(part.parameters())
        return found

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of a forward pass over ``tokens`` vectors, each of which attends to ``seen`` vectors."""
        return sum(part.flops(tokens, seen) for _, part in self.parts())

    def embedding_flops(self, tokens: float) -> float:
        """FLOPs of computing the vectors of ``tokens`` tokens in an encoder; 0 if they are looked up."""
        return 0

    def training_flops(self, length: float) -> float:
        """FLOPs of a training step for one row: three times the forward pass, unless pre-training runs more."""
        return 3 * self.flops(length)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `from_dict`."""
        return {"class": type(self).__name__} | {one.name: _plain(getattr(self, one.name)) for one in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Config):
        return value.to_dict()
    if isinstance(value, Start):
        return {"start": value.kind, "deviations": list(value.deviations)}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def from_dict(values: Mapping[str, Any]) -> Config:
    """Restores a configuration from the ``values`` of `Config.to_dict`."""

    def restored(value: Any) -> Any:
        if isinstance(value, list):  # JSON has no tuples
            return tuple(map(restored, value))
        if isinstance(value, Mapping) and "class" not in value:
            return Start(kind=value["start"], deviations=tuple(value["deviations"]))
        return from_dict(value) if isinstance(value, Mapping) else value

    return _KINDS[values["class"]](**{name: restored(value) for name, value in values.items() if name != "class"})


@dataclass(frozen=True, kw_only=True)
class LinearConfig(Config):
    """A product with a kernel [inputs, outputs], and a bias."""

    inputs: int
    outputs: int
    bias: bool = True
    start: Start = BERT

    def weights(self) -> Mapping[str, Shape]:
        return {"kernel": (self.inputs, self.outputs)} | ({"bias": (self.outputs,)} if self.bias else {})

    def flops(self, tokens: float, seen: float = 0) -> float:
        return 2 * tokens * self.inputs * self.outputs


@dataclass(frozen=True, kw_only=True)
class TableConfig(Config):
    """A lookup table [rows, width]."""

    rows: int
    width: int
    start: Start = BERT

    def weights(self) -> Mapping[str, Shape]:
        return {"table": (self.rows, self.width)}

    def parameters(self) -> Parameters:
        return Parameters(self.rows * self.width, self.rows * self.width)


@dataclass(frozen=True, kw_only=True)
class OutputConfig(TableConfig):
    """An output layer with the shape of a table [rows, width]. Every step reads all of it, so its weights do not count
    as those of a table."""

    def parameters(self) -> Parameters:
        return Parameters(self.rows * self.width)


@dataclass(frozen=True, kw_only=True)
class NormConfig(Config):
    """Layer-norm (Ba et al., 2016), or root-mean-square norm (Zhang and Sennrich, 2019) if not ``centred``."""

    width: int
    epsilon: float = 1e-12
    centred: bool = True

    def weights(self) -> Mapping[str, Shape]:
        return {"scale": (self.width,)} | ({"bias": (self.width,)} if self.centred else {})


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(Config):
    """Multi-head attention over vectors of ``width``, or from them to a memory of vectors of width ``memory``.

    ``scaled`` divides the scores by the root of a head's width (Vaswani et al., 2017, section 3.2.1). ``start`` are the
    initial values of the output projection. ``start_in`` are those of queries, keys and values: one deviation for all
    three, or three in that order (default: ``start``).
    """

    width: int
    heads: int
    memory: int = 0
    bias: bool = True
    scaled: bool = True
    start: Start = BERT
    start_in: Start | None = None

    def parts(self) -> Iterator[tuple[str, Config]]:
        start, D = self.start_in or self.start, self.width
        if self.memory:
            yield "query", LinearConfig(inputs=D, outputs=D, bias=self.bias, start=_block(start, slice(0, 1)))
            values = _block(start, slice(1, None))
            yield "key_value", LinearConfig(inputs=self.memory, outputs=2 * D, bias=self.bias, start=values)
        else:
            yield "query_key_value", LinearConfig(inputs=D, outputs=3 * D, bias=self.bias, start=start)
        yield "projection", LinearConfig(inputs=D, outputs=D, bias=self.bias, start=self.start)

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs without the keys and values of a memory, which `memory_flops` counts once for any number of queries."""
        products = sum(part.flops(tokens) for name, part in self.parts() if name != "key_value")
        return products + 4 * tokens * seen * self.width

    def memory_flops(self, memory: float) -> float:
        """FLOPs of the keys and values of ``memory`` vectors."""
        return 4 * memory * (self.memory or self.width) * self.width


def _block(start: Start, columns: slice) -> Start:
    """``start`` for a slice of its blocks of columns."""
    if len(start.deviations) < 2:
        return start
    found = start.deviations[columns]
    return Start(kind=start.kind, deviations=found[:1] if len(set(found)) == 1 else found)


@dataclass(frozen=True, kw_only=True)
class FeedForwardConfig(Config):
    """Two products with an activation between them.

    With ``gated`` the first product is twice as wide: one half of its result is activated and multiplied with the other
    half (Shazeer, 2020, equation 6). ``inner_dropout`` applies dropout to the activated vectors too. ``start_in`` are
    the initial values of the first product, ``start`` those of the second.
    """

    width: int
    inner: int
    activation: str = "gelu"
    gated: bool = False
    bias: bool = True
    inner_dropout: bool = False
    start_in: Start = BERT
    start: Start = BERT

    def parts(self) -> Iterator[tuple[str, Config]]:
        wide = self.inner * (2 if self.gated else 1)
        yield "inner", LinearConfig(inputs=self.width, outputs=wide, bias=self.bias, start=self.start_in)
        yield "outer", LinearConfig(inputs=self.inner, outputs=self.width, bias=self.bias, start=self.start)


@dataclass(frozen=True, kw_only=True)
class BlockConfig(Config):
    """A Transformer layer: attention, then attention to a memory if ``cross`` is given, then feed-forward.

    Each part's result is added to its input. ``norm_first`` normalises the input of each part (pre-norm); otherwise the
    sums are normalised (post-norm).
    """

    attention: AttentionConfig
    feed_forward: FeedForwardConfig
    norm: NormConfig
    cross: AttentionConfig | None = None
    norm_first: bool = False

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "attention", self.attention
        yield "attention_norm", self.norm
        if self.cross is not None:
            yield "cross", self.cross
            yield "cross_norm", self.norm
        yield "feed_forward", self.feed_forward
        yield "norm", self.norm

    def flops(self, tokens: float, seen: float = 0, memory: float = 0) -> float:
        """FLOPs for ``tokens`` vectors. Each attends to ``seen`` vectors, and in ``cross`` to ``memory`` vectors."""
        looked = self.cross.flops(tokens, memory) if self.cross is not None else 0
        return self.attention.flops(tokens, seen) + self.feed_forward.flops(tokens) + looked


@dataclass(frozen=True, kw_only=True)
class StackConfig(Config):
    """``layers`` equal blocks one after the other. If ``shared``, one block is applied ``layers`` times."""

    block: BlockConfig
    layers: int
    shared: bool = False

    def parts(self) -> Iterator[tuple[str, Config]]:
        for index in range(1 if self.shared else self.layers):
            yield f"layer_{index}", self.block

    def flops(self, tokens: float, seen: float = 0, memory: float = 0) -> float:
        return self.layers * self.block.flops(tokens, seen, memory)


@dataclass(frozen=True, kw_only=True)
class WavesConfig(Config):
    """Fixed vectors of positions: sines, then cosines. ``rows`` is the number of positions in use; later positions can
    be computed too."""

    rows: int
    width: int


@dataclass(frozen=True, kw_only=True)
class DistancesConfig(Config):
    """Learned biases of the attention scores per head and bucket of distances (Raffel et al., 2020, section 2.1).

    ``both_ways`` uses half of the buckets for keys after the query; otherwise such keys are masked.
    """

    heads: int
    both_ways: bool
    buckets: int = 32
    start: Start = BERT

    def weights(self) -> Mapping[str, Shape]:
        return {"table": (self.buckets, self.heads)}

    def parameters(self) -> Parameters:
        return Parameters(self.buckets * self.heads, self.buckets * self.heads)


@dataclass(frozen=True, kw_only=True)
class EmbeddingsConfig(Config):
    """The sum of token vectors (multiplied by ``scale``), position vectors and segment vectors, normalised by ``norm``.

    ``tokens`` is None if the table belongs to another layer, as a decoder's does to its encoder. ``rows`` is the
    longest input. ``channels`` are tables of further vectors that are added. Their rows are the absolute values of the
    channel of the same name (`models.channels`).
    """

    rows: int
    tokens: TableConfig | None = None
    positions: TableConfig | WavesConfig | None = None
    segments: TableConfig | None = None
    norm: NormConfig | None = None
    scale: float = 1.0
    channels: tuple[tuple[str, TableConfig], ...] = ()

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield from super().parts()
        yield from self.channels


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Config):
    """Embeddings, a ``widening`` if they are narrower than the blocks, a stack, and pooling.

    ``distances`` are added to the attention scores. ``norm`` follows the last block, then dropout if ``norm_dropout``.
    ``pooled`` is "mean" or "first": the first token's vector, followed by ``pooler`` and tanh if there is a ``pooler``.
    """

    embeddings: EmbeddingsConfig
    distances: DistancesConfig | None = None
    stack: StackConfig
    widening: LinearConfig | None = None
    norm: NormConfig | None = None
    norm_dropout: bool = False
    pooler: LinearConfig | None = None
    pooled: str = "first"

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of one row of ``tokens``, all of which see each other."""
        pooled = self.pooler.flops(1) if self.pooler is not None else 0
        return self.stack.flops(tokens, tokens) + self.embedding_flops(tokens) + pooled

    def embedding_flops(self, tokens: float) -> float:
        return self.widening.flops(tokens) if self.widening is not None else 0


@dataclass(frozen=True, kw_only=True)
class CausalConfig(Config):
    """A left-to-right language model's network: embeddings, a stack, and a ``norm`` after the last block."""

    embeddings: EmbeddingsConfig
    stack: StackConfig
    norm: NormConfig | None = None

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of one row of ``tokens``. Attention is computed over the whole square: the mask saves nothing."""
        return self.stack.flops(tokens, tokens)


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(Config):
    """The decoder of an encoder-decoder. Its token vectors are the encoder's.

    ``logits`` is the output layer [V, D]. Without it, the encoder's token vectors are the output layer too. The vectors
    of the last block are multiplied by ``logits_scale`` before the output layer.
    """

    embeddings: EmbeddingsConfig
    distances: DistancesConfig | None = None
    stack: StackConfig
    norm: NormConfig | None = None
    norm_dropout: bool = False
    logits: OutputConfig | None = None
    logits_scale: float = 1.0

    def decoding_flops(self, targets: float, memory: float, vocabulary: int) -> float:
        """FLOPs of one row of ``targets`` over an encoding of ``memory`` tokens, with the logits of ``targets``."""
        block = self.stack.block
        read = self.stack.layers * block.cross.memory_flops(memory)
        logits = 2 * targets * block.norm.width * vocabulary
        return self.stack.flops(targets, targets, memory) + read + logits
