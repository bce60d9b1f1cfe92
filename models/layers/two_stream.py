"""XLNet's network: two streams, relative positions in both directions, relative segments, and a memory.

Source: Yang et al. (2019), sections 2.3 to 2.5. The content stream is an ordinary encoder. The query stream is for
pre-training only and has one vector for each position to predict. It starts from one learned vector for all tokens,
uses the position, and attends to the content stream.
"""

from functools import partial
from typing import Any

import tensorflow as tf

from ptmbench.models.architectures.two_stream import TwoStreamConfig
from ptmbench.models.layers.config import NORMAL, Start
from ptmbench.models.layers.core import Drop, Rows, made_from, recomputed
from ptmbench.models.layers.operations import HIDDEN, check_length, fold, shape
from ptmbench.models.layers.relative import View, distance_waves, run_with_memory
from ptmbench.models.layers.transformers import Network, built
from ptmbench.models.pretrainable import Encoding

__all__ = ["TwoStream", "built"]

_CLS = 2
"""The id that [CLS] has in every vocabulary here."""


class Keys:
    """The keys of attention: U = M + T tokens and their segments [B, U], of which the first ``before`` are memory."""

    def __init__(self, tokens: tf.Tensor, segments: tf.Tensor, before: Any):
        self.tokens, self.segments, self.before = tokens, segments, before
        self.batch, self.count = shape(tokens)
        self.length = self.count - before

    def view(self, segments: tf.Tensor, sees: tf.Tensor) -> View:
        """The `View` of queries in ``segments`` [B, N], which may attend to keys where ``sees``
        [B or 1, N or 1, U or 1] is true."""
        sees &= tf.not_equal(self.tokens, 0)[:, None, :]
        differs = tf.not_equal(segments[:, :, None], self.segments[:, None, :])
        bias = tf.where(sees, 0.0, HIDDEN)[:, None, :, :]  # [B, 1, N or 1, U]
        return View(bias, elsewhere=tf.cast(differs, tf.float32)[:, None, :, :])

    def waves(self, width: int, drop: Drop) -> tf.Tensor:
        """The waves [U + T, D] of the distances U ... 1 - T."""
        return distance_waves(self.count, -self.length, width, drop)


@made_from(TwoStreamConfig)
class TwoStream(Network):
    """Batch to `Encoding` by the content stream, in which all tokens attend to each other. The pooled vector is that of
    [CLS] at any position (last in the paper, first in models trained here), or that of the first token without a [CLS].

    Positions are relative, so no weight depends on ``length``; it only limits inputs.
    """

    causal = False

    def starts(self) -> dict[str, Start]:
        return {"query": NORMAL}

    def content(self, tokens: tf.Tensor, segments: tf.Tensor | None, seed: Any, depth: int) -> list[tf.Tensor]:
        """``depth`` + 1 tensors [B * T, D] for tokens and segments [B, T]: embeddings, then each layer. Every token
        attends to every token that is not padding."""
        rows, drop = shape(tokens), Drop(self.dropout, seed, 0)
        check_length(rows[1], self.length, "encoder")
        keys = Keys(tokens, tf.zeros_like(tokens) if segments is None else segments, 0)
        view = keys.view(keys.segments, tf.ones([1, 1, 1], tf.bool))._replace(waves=keys.waves(self.width, drop.at(1)))
        x = self.embeddings(tokens, drop=drop)  # [B * T, D]
        return run_with_memory(self.stack, x, view, Rows(*rows), drop, [None] * depth)

    def predict(self, batch: dict[str, Any], seed: Any = None) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Both streams: L tensors [B * T, D] of the content, and L + 1 tensors [B * S, D] of the queries.

        ``tokens``, ``segments`` and ``ranks`` are int32 [B, T]. Tokens of rank 0 are context, to which all attend. A
        token of rank r also attends to tokens of smaller ranks and to itself. ``predicted_positions`` int32 [B, S] have
        ranks above 0; their queries attend to what their tokens attend to, without these themselves. ``memory`` int32
        [B, M] are the M tokens before the row, in its first segment, padded on the left. All attend to them. They are
        encoded from themselves alone, and no gradient reaches them.
        """
        tokens, ranks, memory = batch["tokens"], batch["ranks"], batch["memory"]
        drop = Drop(self.dropout, seed, 0)
        check_length(shape(tokens)[1], self.length, "encoder")
        before = shape(memory)[1]
        # The last layer's output for the memory is not used as a key.
        old = [tf.stop_gradient(x) for x in self.content(memory, None, fold(seed, 5000), self.depth - 1)]
        segments = tf.concat([tf.zeros_like(memory), batch["segments"]], axis=1)  # [B, U]
        keys = Keys(tf.concat([memory, tokens], axis=1), segments, before)
        order = tf.concat([tf.zeros_like(memory), ranks], axis=1)[:, None, :]  # [B, 1, U]
        positions = batch["predicted_positions"]  # [B, S]
        rank = tf.gather(ranks, positions, batch_dims=1)  # [B, S]
        itself = tf.equal(tf.range(keys.length)[:, None] + before, tf.range(keys.count)[None, :])  # [T, U]
        waves = keys.waves(self.width, drop.at(1))
        content_view = keys.view(batch["segments"], (order == 0) | (order < ranks[:, :, None]) | itself)
        content_view = content_view._replace(waves=waves)
        segment = tf.gather(batch["segments"], positions, batch_dims=1)  # [B, S]
        query_view = keys.view(segment, (order == 0) | (order < rank[:, :, None]))._replace(places=positions)
        row, slot = Rows(keys.batch, keys.length), Rows(*shape(positions))

        query = tf.cast(self.query, self.compute_dtype)[None, :]
        contents = [self.embeddings(tokens, drop=drop, batch=batch)]
        queries = [drop(tf.tile(query, [slot.batch * slot.tokens, 1]), 2)]  # [B * S, D]

        def layer(
            h: tf.Tensor, g: tf.Tensor, old: tf.Tensor, block: Any, drop: Drop, last: bool
        ) -> tuple[tf.Tensor, ...]:
            past = block.read(old, Rows(keys.batch, before))  # a separate product, because its input needs no gradient
            if last:  # the content is not read after this layer
                seen = block.read(h, row, past, waves)
            else:
                h, seen = block(h, content_view, rows=row, drop=drop, past=past)
            g, _ = block(g, query_view, rows=slot, drop=drop.at(5), seen=seen)
            return (g,) if last else (g, h)

        for index, (block, states) in enumerate(zip(self.stack, old, strict=True)):
            step = partial(layer, block=block, drop=drop.at(10 * (index + 1)), last=index == self.depth - 1)
            streams = recomputed(step, contents[-1], queries[-1], states)
            g, *h = (self.stack.through("between", stream, index=index) for stream in streams)
            contents += h
            queries.append(g)
        queries[-1] = drop(queries[-1], 3)
        return contents, queries

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        rows, length = shape(tokens)
        flat = self.content(tokens, batch.get("segments"), seed, self.depth)
        flat[-1] = Drop(self.dropout, seed, 3)(flat[-1])
        layers = tuple(tf.reshape(x, [rows, length, self.width]) for x in flat)
        place = tf.argmax(tf.cast(tf.equal(tokens, _CLS), tf.float32), axis=1, output_type=tf.int32)  # [B]
        return Encoding(tokens=layers[-1], pooled=tf.gather(layers[-1], place, batch_dims=1), layers=layers)
