"""BERT's Transformer encoder under a mask of one's own: who sees whom is given with the tokens, and so are positions.

Source: Dong et al. (2019), section 2.2, equations 2 and 3: the layers are those of `transformer_encoder`, to whose
scores a mask M is added, 0 where a token is seen and minus infinity where not. The encoder proper reads its mask off
the segments, which in the authors' released code are six, two for each kind of mask that has two texts:

    0, 1  both texts see everything            2  each token sees itself and what stands before it
    4, 5  the source sees itself, the target   3  each token sees itself and what stands after it
          the source, itself and before it

Epsilon is 1e-5, as the authors' released code has it in every norm (microsoft/unilm, unilm-v1, `BertLayerNorm`), not
BERT's 1e-12. `RelativeMaskedEncoder` is that of Bao et al. (2020): masks come from the objective alone, and scores know
distances.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from models.architectures.parts import (
    HIDDEN,
    attention,
    block,
    check_length,
    dense,
    dropout,
    gelu,
    layer_norm,
    shape,
    split_heads,
)
from models.architectures.transformer import BUCKETS, FARTHEST, distance_buckets
from models.architectures.transformer_encoder import EPSILON, initializer, sinusoids
from models.card import Size
from models.pretrainable import Encoding

FORWARD, BACKWARD, SOURCE, TARGET = 2, 3, 4, 5


def seen(segments: tf.Tensor) -> tf.Tensor:
    """Whether each token [B, T] may see each other one: bool [B, T, T], queries first."""
    place = tf.range(shape(segments)[1])
    before, after = place[None, :] <= place[:, None], place[None, :] >= place[:, None]  # [T, T]
    query, key = segments[:, :, None], segments[:, None, :]
    return (
        (query < FORWARD)
        | (tf.equal(query, FORWARD) & before)
        | (tf.equal(query, BACKWARD) & after)
        | (tf.equal(query, SOURCE) & tf.equal(key, SOURCE))
        | (tf.equal(query, TARGET) & (tf.equal(key, SOURCE) | before))
    )


class MaskedEncoder(keras.layers.Layer):
    """Batch to `Encoding`; the pooled vector is BERT's, a dense layer with tanh on the first token, or without
    ``pooler`` the first token's vector.

    ``segments`` are those above; without them every token sees all others. ``dropout`` is read when a graph is traced.
    """

    causal = False
    recurrent = False
    kinds = 6
    """Rows of the table of segments."""
    epsilon = 1e-5
    """Added to the variance in every layer norm; the MLM head has the same."""
    source, target = SOURCE, TARGET
    """The segments of what is written from, and of what is written."""

    def __init__(self, size: Size, vocabulary: int, pooler: bool = True, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.depth, self.length, self.heads = size.width, size.layers, size.length, size.heads
        self.dropout = 0.1
        self.token_embedding = self.add_weight((vocabulary, size.width), initializer(), name="tokens")
        self.positions = self.add_weight((size.length, size.width), sinusoids, name="positions")
        self.segments = self.add_weight((self.kinds, size.width), initializer(), name="segments")
        self.norm_scale = self.add_weight((size.width,), "ones", name="norm_scale")
        self.norm_bias = self.add_weight((size.width,), "zeros", name="norm_bias")
        self.blocks = [self._block(f"layer_{index}", size.width, size.inner) for index in range(size.layers)]
        self.pooler_kernel = self.pooler_bias = None
        if pooler:
            self.pooler_kernel = self.add_weight((size.width, size.width), initializer(), name="pooler_kernel")
            self.pooler_bias = self.add_weight((size.width,), "zeros", name="pooler_bias")
        self.built = True

    def _block(self, name: str, width: int, inner: int) -> SimpleNamespace:
        def weight(part: str, *dims: int, start: Any = "zeros") -> keras.Variable:
            return self.add_weight(dims, start, name=f"{name}_{part}")

        return SimpleNamespace(
            qkv_kernel=weight("qkv_kernel", width, 3 * width, start=initializer()),
            qkv_bias=weight("qkv_bias", 3 * width),
            output_kernel=weight("output_kernel", width, width, start=initializer()),
            output_bias=weight("output_bias", width),
            attention_norm_scale=weight("attention_norm_scale", width, start="ones"),
            attention_norm_bias=weight("attention_norm_bias", width),
            inner_kernel=weight("inner_kernel", width, inner, start=initializer()),
            inner_bias=weight("inner_bias", inner),
            outer_kernel=weight("outer_kernel", inner, width, start=initializer()),
            outer_bias=weight("outer_bias", width),
            norm_scale=weight("norm_scale", width, start="ones"),
            norm_bias=weight("norm_bias", width),
        )

    def hidden(
        self, tokens: tf.Tensor, segments: tf.Tensor, visible: tf.Tensor, positions: Any = None, seed: Any = None
    ) -> list[tf.Tensor]:
        """The L + 1 tensors [B * T, D]: embeddings, then each layer.

        ``visible`` bool [B, T, T] says whom each token sees (none of which is padding); ``positions`` int32 [B, T]
        are those from the left when not given.
        """
        batch, length = shape(tokens)
        if positions is None:
            check_length(length, self.length, "encoder")
            place = self.positions[:length]  # [T, D]
        else:
            place = tf.gather(self.positions.value, positions)  # [B, T, D]
        x = tf.gather(self.token_embedding.value, tokens) + place  # [B, T, D]
        x = tf.reshape(x, [-1, self.width])  # [B * T, D]
        x += tf.matmul(tf.one_hot(tf.reshape(segments, [-1]), self.kinds, dtype=x.dtype), self.segments)
        x = dropout(layer_norm(x, self.norm_scale, self.norm_bias, self.epsilon), self.dropout, seed, 0)
        bias = self._bias(visible & tf.not_equal(tokens, 0)[:, None, :], positions)  # [B, 1 or H, T, T]
        layers = [x]

        def layer(x: tf.Tensor, weights: SimpleNamespace, bias: tf.Tensor, salt: int) -> tf.Tensor:
            q, k, v = split_heads(
                dense(x, weights.qkv_kernel, weights.qkv_bias), batch, length, self.heads, 3
            )  # [B, H, T, K]
            context = attention(q * q.shape[-1] ** -0.5, k, v, bias, self.dropout, seed, salt)  # [B * T, D]
            update = dropout(dense(context, weights.output_kernel, weights.output_bias), self.dropout, seed, salt + 1)
            x = layer_norm(x + update, weights.attention_norm_scale, weights.attention_norm_bias, self.epsilon)
            inner = gelu(dense(x, weights.inner_kernel, weights.inner_bias))  # [B * T, F]
            update = dropout(dense(inner, weights.outer_kernel, weights.outer_bias), self.dropout, seed, salt + 2)
            return layer_norm(x + update, weights.norm_scale, weights.norm_bias, self.epsilon)

        for index, weights in enumerate(self.blocks):
            layers.append(block(partial(layer, salt=10 * (index + 1)), layers[-1], weights, bias))
        return layers

    def _bias(self, visible: tf.Tensor, positions: Any) -> tf.Tensor:
        """What is added to the scores: float32 [B, 1, T, T] (or one for each head)."""
        return tf.where(visible, 0.0, HIDDEN)[:, None]

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        rows, length = shape(tokens)
        segments = batch.get("segments")
        segments = tf.zeros_like(tokens) if segments is None else segments
        flat = self.hidden(tokens, segments, seen(segments), seed=seed)
        layers = tuple(tf.reshape(x, [rows, length, self.width]) for x in flat)
        pooled = layers[-1][:, 0]  # [B, D]
        if self.pooler_kernel is not None:
            pooled = tf.tanh(dense(pooled, self.pooler_kernel, self.pooler_bias))
        return Encoding(tokens=layers[-1], pooled=pooled, layers=layers)

    def continuation(self, tokens: tf.Tensor, targets: tf.Tensor, mask: int, seed: Any = None) -> tf.Tensor:
        """Vectors [B, S, D] that predict what follows each of ``targets`` [B, S] after the source ``tokens`` [B, T].

        The paper's way of writing (section 2.5): a ``mask`` is put behind what was written so far, sees it and the
        source, and is read. Here all S masks stand side by side, each at the position of the token that it asks for
        and unseen by all others, so one pass gives what S passes would. The symbol that opens the targets is left
        out, since in the paper the target follows the source's [SEP] directly.
        """
        (rows, source), length = shape(tokens), shape(targets)[1]
        check_length(source + length, self.length, "encoder")
        written = targets[:, 1:]  # [B, S - 1]
        asking = tf.fill([rows, length], mask)
        step = tf.concat([tf.zeros([source], tf.int32), tf.range(1, length), tf.range(length)], 0)  # [T + 2 S - 1]
        # Source 0, written 1, asking 2.
        kind = tf.concat([tf.fill([source], 0), tf.fill([length - 1], 1), tf.fill([length], 2)], 0)
        query, key = kind[:, None], kind[None, :]
        earlier = tf.equal(key, 1) & (step[None, :] <= step[:, None])
        own = tf.equal(key, 2) & tf.equal(query, 2) & tf.equal(step[None, :], step[:, None])
        visible = tf.equal(key, 0) | (query > 0) & (earlier | own)  # [T + 2 S - 1, T + 2 S - 1]
        count = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1)[:, None]  # [B, 1]
        places = tf.concat([tf.range(source), tf.range(length - 1), tf.range(length)], 0)
        positions = places + tf.where(kind > 0, count, 0)  # [B, T + 2 S - 1]
        every = tf.concat([tokens, written, asking], axis=1)
        segments = tf.broadcast_to(tf.where(kind > 0, self.target, self.source), tf.shape(every))
        x = self.hidden(every, segments, visible[None], positions, seed)[-1]  # [B * (T + 2 S - 1), D]
        return tf.reshape(x, [rows, -1, self.width])[:, source + length - 1 :]  # [B, S, D]


class RelativeMaskedEncoder(MaskedEncoder):
    """`MaskedEncoder` with T5's bias for the distance of two positions (Raffel et al., 2020, section 2.1) beside its
    absolute positions, and the two segments of BERT; no pooler."""

    kinds = 2
    epsilon = EPSILON
    source, target = 0, 1

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(size, vocabulary, pooler=False, name=name)
        self.distances = self.add_weight((BUCKETS, size.heads), initializer(), name="distances")

    def _bias(self, visible: tf.Tensor, positions: Any) -> tf.Tensor:
        """Float32 [B, H, T, T]; positions are [1, T] where all rows have the same."""
        if positions is None:
            positions = tf.range(shape(visible)[1])[None]
        ahead = positions[:, None, :] - positions[:, :, None]  # [B, T, T], key minus query
        bucket = tf.gather(tf.constant(distance_buckets(BUCKETS // 2)), tf.minimum(tf.abs(ahead), FARTHEST))
        bucket += tf.where(ahead > 0, BUCKETS // 2, 0)
        near = tf.transpose(tf.cast(tf.gather(self.distances.value, bucket), tf.float32), [0, 3, 1, 2])  # [B, H, T, T]
        return near + tf.where(visible, 0.0, HIDDEN)[:, None]
