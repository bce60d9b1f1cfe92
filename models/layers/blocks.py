"""The layers of Transformers: attention, feed-forward, one block of both, and a stack of blocks.

Activations have the shape [N, D] with N = B * T; ``rows`` is (B, T), as ints if they are known. ``bias`` float32,
broadcast to [B, H, T, U], is added to the scores and has masks and relative positions. The dropout places of ``drop``
inside a block are 0 for the attention weights, then one for each vector that is added to the input.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import tensorflow as tf

from ptmbench.models.layers.config import AttentionConfig, BlockConfig, FeedForwardConfig, StackConfig
from ptmbench.models.layers.core import NO_DROP, Drop, Layer, Linear, Rows, made_from, recomputed
from ptmbench.models.layers.operations import attention, gelu, shape, split_columns, split_heads
from ptmbench.models.layers.products import product
from ptmbench.models.layers.shrunk_config import ShrunkAttentionConfig, ShrunkStackConfig

Pair = tuple[tf.Tensor, tf.Tensor]
"""Keys and values, [B, H, U, K] each."""

ACTIVATIONS = {"gelu": gelu, "gelu_tanh": partial(tf.nn.gelu, approximate=True), "relu": tf.nn.relu}
"""By name: GELU exactly and by its tanh approximation (Hendrycks and Gimpel, 2016, section 2), and ReLU."""


def append_to_past(past: Any, pair: Any) -> Pair:
    """Keys and values of the ``past``, if there is one, followed by those of ``pair``."""
    if past is None:
        return tuple(pair)
    return tuple(tf.concat(parts, axis=2) for parts in zip(past, pair, strict=True))


def columns(linear: Linear, x: tf.Tensor, begin: int, end: int, shards: int = 1) -> tf.Tensor:
    """Columns ``begin`` to ``end`` of the output of ``linear`` for x [N, I]. The others are not computed, unless the
    layer is quantised or sharded, or extensions change its result. The result lies in ``shards`` groups, as the columns
    of the kernel do (`models.layers.operations.split_columns`)."""
    if shards > 1:
        grouped = tf.reshape(linear(x), [-1, shards, linear.config.outputs // shards])
        return tf.reshape(grouped[:, :, begin // shards : end // shards], [-1, end - begin])
    if linear.quantization_mode or linear.extensions("output"):
        return linear(x)[:, begin:end]
    kernel = linear.through("kernel", tf.cast(linear.kernel, linear.compute_dtype))[:, begin:end]
    x = product(linear.through("input", tf.cast(x, linear.compute_dtype)), kernel)
    return x if linear.bias is None else tf.nn.bias_add(x, tf.cast(linear.bias, x.dtype)[begin:end])


@made_from(ShrunkAttentionConfig)
@made_from(AttentionConfig)
class Attention(Layer):
    """Multi-head attention [N, D] to [N, D]: Vaswani et al. (2017), section 3.2.

    Extensions at "keys_values" get a pair [B, H, U, K] and may put more in front of it, to which every query attends.
    """

    SEAMS = ("keys_values",)
    CASTS = False

    def heads(self, x: tf.Tensor, rows: Rows, parts: int = 1) -> list[tf.Tensor]:
        """Splits [N, parts * D] into ``parts`` tensors [B, H, T, K]."""
        return split_heads(x, rows.batch, rows.tokens, self.config.heads, parts, self.shards)

    def read(self, memory: tf.Tensor, rows: Rows, past: Any = None) -> Pair:
        """Keys and values of the ``past``, followed by those of a ``memory`` [B * U, W] with (B, U) = ``rows``. They
        serve any number of calls."""
        D = self.projection.config.inputs  # of all heads
        if self.config.memory:
            both = self.key_value(memory)
        else:
            both = columns(self.query_key_value, memory, D, 3 * D, self.shards)
        return append_to_past(past, self.heads(both, rows, 2))

    def call(
        self, x: tf.Tensor, bias: tf.Tensor, rows: Rows, drop: Drop = NO_DROP, memory: Any = None, past: Any = None
    ) -> tuple[tf.Tensor, Pair]:
        """Returns the attention's result [N, D] for ``x``, and its keys and values without those of extensions.

        These are the ``memory`` (from `read`) if it is given; otherwise those of the ``past``, followed by those of
        ``x``.
        """
        if memory is None:
            q, *own = self.heads(self.query_key_value(x), rows, 3)  # [B, H, T, K]
            own = append_to_past(past, own)  # [B, H, U, K]
        else:
            D = self.projection.config.inputs
            q = self.query(x) if self.config.memory else columns(self.query_key_value, x, 0, D, self.shards)
            (q,), own = self.heads(q, rows), memory
        if self.config.scaled:
            q = q * q.shape[-1] ** -0.5
        return self.mixed(q, own, bias, drop), own

    def mixed(self, q: tf.Tensor, pair: Pair, bias: tf.Tensor, drop: Drop) -> tf.Tensor:
        """The attention's result [N, D] for queries [B, H, T, K]. ``bias`` is added to the scores of the keys of
        ``pair``. Keys of extensions have the bias 0."""
        k, v = pair
        if self.extensions("keys_values"):
            k, v = self.through("keys_values", (k, v))
            bias = tf.pad(bias, [[0, 0], [0, 0], [0, 0], [shape(k)[2] - shape(pair[0])[2], 0]])
        return self.projection(attention(q, k, v, bias, drop.rate, drop.seed, drop.place))


@made_from(FeedForwardConfig)
class FeedForward(Layer):
    """Two products with an activation between them, [N, D] to [N, D]."""

    def call(self, x: tf.Tensor, drop: Drop = NO_DROP) -> tf.Tensor:
        activation = ACTIVATIONS[self.config.activation]
        h = self.inner(x)  # [N, F], or [N, 2 F]
        if self.config.gated:
            gate, h = split_columns(h, 2, self.shards)
            h = activation(gate) * h
        else:
            h = activation(h)
        return self.outer(drop(h) if self.config.inner_dropout else h)


@made_from(BlockConfig)
class Block(Layer):
    """One layer of a Transformer, [N, D] to [N, D].

    Extensions at "before_..." get the input of attention or feed-forward. Those at "after_..." get their results before
    these are added to the input (where Houlsby et al., 2019, put adapters). A block with a memory also has a seam
    "after_cross".
    """

    SEAMS = ("before_attention", "after_attention", "before_feed_forward", "after_feed_forward")
    CASTS = False

    def __init__(self, config: BlockConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        if config.cross is not None:
            self.SEAMS = (*self.SEAMS[:2], "after_cross", *self.SEAMS[2:])

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor,
        rows: Rows,
        drop: Drop = NO_DROP,
        memory: Any = None,
        absent: Any = None,
        past: Any = None,
        seen: Any = None,
        addend: Any = None,
    ) -> tuple[tf.Tensor, Pair]:
        """The block's result [N, D], and the keys and values of its self-attention.

        ``memory`` are the keys and values for the cross-attention (from `Attention.read`), and ``absent`` [B, 1, 1, U]
        masks some of them. ``past`` are the keys and values of earlier tokens. If ``seen`` is given, the self-attention
        uses these keys and values (from `read`) and none of ``x``. ``addend`` [N, D] is added to the result of the
        self-attention.
        """
        own = None

        def attend(x: tf.Tensor) -> tf.Tensor:
            nonlocal own
            h, own = self.self_attend(x, bias, rows, drop, seen, past)
            return h if addend is None else h + addend

        x = self._added(x, attend, self.attention_norm)
        if self.config.cross is not None:
            drop = drop.at(2)
            x = self._added(
                x, partial(self.cross_attend, absent=absent, rows=rows, drop=drop, memory=memory), self.cross_norm
            )
        return self._added(x, partial(self.feed, drop=drop.at(2)), self.norm), own

    def self_attend(
        self, x: tf.Tensor, bias: tf.Tensor, rows: Rows, drop: Drop = NO_DROP, seen: Any = None, past: Any = None
    ) -> tuple[tf.Tensor, Pair]:
        """The vectors [N, D] that the self-attention adds to its input, and its keys and values."""
        x = self.through("before_attention", x)
        h, own = self.attention(x, bias, rows=rows, drop=drop, memory=seen, past=past)
        return drop(self.through("after_attention", h), 1), own

    def cross_attend(self, x: tf.Tensor, absent: tf.Tensor, rows: Rows, drop: Drop, memory: Any) -> tf.Tensor:
        """The vectors [N, D] that the cross-attention adds to its input."""
        h, _ = self.cross(x, absent, rows=rows, drop=drop, memory=memory)
        return drop(self.through("after_cross", h), 1)

    def feed(self, x: tf.Tensor, drop: Drop = NO_DROP) -> tf.Tensor:
        """The vectors [N, D] that the feed-forward layer adds to its input."""
        h = self.feed_forward(self.through("before_feed_forward", x), drop=drop)
        return drop(self.through("after_feed_forward", h), int(self.config.feed_forward.inner_dropout))

    def read(self, x: tf.Tensor, rows: Rows, *given: Any) -> Any:
        """The keys and values of the self-attention for x [N, D], without its result. ``given`` goes to
        `Attention.read`."""
        x = self.attention_norm(x) if self.config.norm_first else x
        return self.attention.read(self.through("before_attention", x), rows, *given)

    def _added(self, x: tf.Tensor, part: Any, norm: Any) -> tf.Tensor:
        return x + part(norm(x)) if self.config.norm_first else norm(x + part(x))


@made_from(ShrunkStackConfig)
@made_from(StackConfig)
class Stack(Layer):
    """Blocks one after the other. Extensions at "between" get the output of each block, [N, D], and its number
    ``index`` from 0."""

    SEAMS = ("between",)
    CASTS = False
    detour: Any = None
    """A function that is called in place of each block in training, or None. It gets the block as a function of
    ``x`` [N, D], and ``x``, ``index``, ``bias``, ``rows`` and ``drop``, and returns [N, D]. Read when a graph is
    traced; not saved."""

    def __init__(self, config: StackConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.blocks = [getattr(self, name) for name, _ in config.parts()]

    def __iter__(self) -> Any:
        """The blocks in the order in which they are applied."""
        return iter(self.blocks * self.config.layers if self.config.shared else self.blocks)

    @contextmanager
    def detoured(self, detour: Any) -> Iterator[None]:
        """A context in which ``detour`` replaces `detour`."""
        before, self.detour = self.detour, detour
        try:
            yield
        finally:
            self.detour = before

    def call(self, x: tf.Tensor, bias: tf.Tensor, rows: Rows, drop: Drop = NO_DROP) -> list[tf.Tensor]:
        """The L + 1 tensors [N, D]: ``x``, then the output of each block. The blocks' dropout places are ten apart."""
        layers = [x]
        for index in range(self.config.layers):
            layers.append(self.step(index, layers[-1], bias, rows, drop))
        return layers

    def step(self, index: int, x: tf.Tensor, bias: tf.Tensor, rows: Rows, drop: Drop = NO_DROP) -> tf.Tensor:
        """The output of block ``index`` for ``x`` [N, D], the result of the block before it."""
        one = self.blocks[0 if self.config.shared else index]
        step = partial(one, rows=rows, drop=drop.at(10 * (index + 1)))

        def block(x: tf.Tensor) -> tf.Tensor:
            return recomputed(lambda x, bias: step(x, bias)[0], x, bias)

        x = self.detour(block, x, index, bias, rows, drop) if self.detour else block(x)
        return self.through("between", x, index=index)
