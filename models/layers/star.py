"""The Star-Transformer's layers and network: Guo et al. (2019), section 3 and algorithm 1.

`models.architectures.star_encoder` has the equations. The attention over five keys is computed element-wise, because
products of 1 x K by K x 5 are too small for a call each.
"""

from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from ptmbench.models.architectures.star_encoder import RingAttentionConfig, StarConfig, UpdateConfig
from ptmbench.models.layers.blocks import Attention
from ptmbench.models.layers.core import NO_DROP, Drop, Layer, Rows, made_from, recomputed
from ptmbench.models.layers.operations import HIDDEN, check_length, dropout, shape
from ptmbench.models.layers.transformers import Network, built
from ptmbench.models.pretrainable import Encoding

__all__ = ["StarEncoder", "built"]


class Ring(NamedTuple):
    """The ends of the rows of tokens [B, T]. The last token before the padding and the first token are neighbours."""

    last: tf.Tensor
    """int32 [B]: the index of each row's last token among B * T."""
    closes: tf.Tensor
    """bool [B, T, 1]: whether a token is the last one of its row."""

    def around(self, x: tf.Tensor) -> list[tf.Tensor]:
        """The left neighbours, the nodes themselves and the right neighbours of x [B * T, C], each [B, T, C]."""
        grid = tf.reshape(x, [*shape(self.closes)[:2], x.shape[-1]])
        left = tf.concat([tf.gather(x, self.last)[:, None], grid[:, :-1]], axis=1)
        right = tf.where(self.closes, grid[:, :1], tf.concat([grid[:, 1:], grid[:, :1]], axis=1))
        return [left, grid, right]


@made_from(RingAttentionConfig)
class RingAttention(Attention):
    """Attention of each token to its neighbours, itself, its embedding and the relay, [B * T, D] to [B * T, D]."""

    SEAMS = ()

    def call(
        self, x: tf.Tensor, ring: Ring, rows: Rows, drop: Drop = NO_DROP, memory: Any = None
    ) -> tuple[tf.Tensor, None]:
        """The attention's result for ``x``; ``memory`` are the embeddings [B * T, D] and the relays [B, D]."""
        D, heads, nodes = self.config.width, self.config.heads, rows.batch * rows.tokens
        q = self.query(x) * (D // heads) ** -0.5  # [B * T, D]
        kv = self.key_value(tf.concat([x, *memory], axis=0))  # [2 B * T + B, 2 D]
        own = tf.reshape(kv[nodes : 2 * nodes], [rows.batch, rows.tokens, 2 * D])
        centre = tf.broadcast_to(kv[2 * nodes :, None], [rows.batch, rows.tokens, 2 * D])
        context = tf.stack([*ring.around(kv[:nodes]), own, centre], axis=2)  # [B, T, 5, 2 D]
        k, v = tf.split(tf.reshape(context, [nodes, 5, 2 * heads, D // heads]), 2, axis=2)  # [B * T, 5, H, K]
        q = tf.reshape(q, [nodes, 1, heads, D // heads])
        scores = tf.reduce_sum(tf.cast(q * k, tf.float32), axis=3, keepdims=True)  # [B * T, 5, H, 1]
        weights = tf.cast(tf.nn.softmax(scores, axis=1), v.dtype)
        weights = dropout(weights, drop.rate, drop.seed, drop.place)
        return self.projection(tf.reshape(tf.reduce_sum(weights * v, axis=1), [nodes, D])), None


@made_from(UpdateConfig)
class Update(Layer):
    """One update of tokens or of the relay, [N, D] to [N, D]: attention, ReLU, layer-norm. Extensions get the input of
    the attention, or its output."""

    SEAMS = ("before_attention", "after_attention")
    CASTS = False

    def call(self, x: tf.Tensor, bias: Any, memory: Any, rows: Rows, drop: Drop = NO_DROP) -> tf.Tensor:
        """``bias`` and ``memory`` are passed to the attention."""
        x = self.through("before_attention", x)
        h, _ = self.attention(x, bias, rows=rows, drop=drop, memory=memory)
        return self.norm(tf.nn.relu(drop(self.through("after_attention", h), 1)))


@made_from(StarConfig)
class StarEncoder(Network):
    """Batch to `Encoding`: L updates of the tokens, and one update of the relay between each two of them.

    The pooled vector is the mean of the relay and of the tokens' maximum, as in the authors' classifier (section 3.3).
    Extensions at "between" get the result of each update of the tokens, [B * T, D], and its ``index``.
    """

    SEAMS = ("between",)
    causal = False

    def __init__(self, config: StarConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.satellites = [getattr(self, f"satellite_{index}") for index in range(config.layers)]
        self.relays = [getattr(self, f"relay_{index}") for index in range(config.layers - 1)]

    @staticmethod
    def dims(config: StarConfig) -> tuple[int, int, int]:
        return config.satellite.norm.width, config.layers, config.satellite.attention.heads

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        rows, length = shape(tokens)
        check_length(length, self.length, "encoder")
        width, drop = self.width, Drop(self.dropout, seed, 0)
        present = tf.not_equal(tokens, 0)
        count = tf.reduce_sum(tf.cast(present, tf.int32), axis=1)  # [B]
        last = tf.maximum(count - 1, 0)
        closes = tf.equal(tf.range(length), last[:, None])[:, :, None]  # [B, T, 1]
        ring = Ring(last + tf.range(rows) * length, closes)
        hidden = tf.where(tf.pad(present, [[0, 0], [1, 0]], constant_values=True), 0.0, HIDDEN)  # [B, 1 + T]

        e = drop(self.embeddings(tokens, batch=batch) * width**0.5)  # [B * T, D]
        inside = tf.cast(present, tf.float32)[:, :, None]  # [B, T, 1]
        relay = tf.reduce_sum(tf.cast(tf.reshape(e, [rows, length, width]), tf.float32) * inside, axis=1)
        relay = tf.cast(relay / tf.maximum(tf.reduce_sum(inside, axis=1), 1.0), e.dtype)  # [B, D]

        def look(h: tf.Tensor, e: tf.Tensor, relay: tf.Tensor, update: Any, drop: Drop) -> tf.Tensor:
            return update(h, ring, (e, relay), rows=Rows(rows, length), drop=drop)

        def turn(relay: tf.Tensor, h: tf.Tensor, update: Any, drop: Drop) -> tf.Tensor:
            seen = tf.concat([relay[:, None], tf.reshape(h, [rows, length, width])], axis=1)  # [B, 1 + T, D]
            pair = update.attention.read(tf.reshape(seen, [-1, width]), Rows(rows, 1 + length))  # [B, H, 1 + T, K]
            return update(relay, hidden[:, None, None], pair, rows=Rows(rows, 1), drop=drop)

        layers = [e]
        for index, update in enumerate(self.satellites):
            if index:
                step = partial(turn, update=self.relays[index - 1], drop=drop.at(10 * index + 5))
                relay = recomputed(step, relay, layers[-1])
            step = partial(look, update=update, drop=drop.at(10 * (index + 1)))
            layers.append(self.through("between", recomputed(step, layers[-1], e, relay), index=index))
        layers = tuple(tf.reshape(x, [rows, length, width]) for x in layers)
        highest = tf.reduce_max(tf.where(present[:, :, None], layers[-1], layers[-1].dtype.min), axis=1)  # [B, D]
        return Encoding(tokens=layers[-1], pooled=(relay + highest) / 2, layers=layers)
