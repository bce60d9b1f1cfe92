"""Transformer-XL's network: relative positions, and a memory of the text before (Dai et al., 2019, section 3)."""

from typing import Any

import tensorflow as tf

from ptmbench.models.architectures.relative_decoder import RelativeCausalConfig
from ptmbench.models.layers.config import NORMAL, Start
from ptmbench.models.layers.core import Drop, Rows, made_from
from ptmbench.models.layers.operations import HIDDEN, check_length, fold, shape
from ptmbench.models.layers.relative import View, distance_waves, run_with_memory
from ptmbench.models.layers.transformers import LeftToRight, built

__all__ = ["RelativeCausal", "built"]


@made_from(RelativeCausalConfig)
class RelativeCausal(LeftToRight):
    """A stack of blocks with relative positions. ``length`` bounds the text."""

    def starts(self) -> dict[str, Start]:
        return dict.fromkeys(self.config.weights(), NORMAL)

    def hidden(
        self, tokens: tf.Tensor, seed: Any = None, memory: tf.Tensor | None = None, documents: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        """The L + 1 tensors [B * T, D] for tokens [B, T]: embeddings, then each layer.

        ``memory`` [B, M] are the tokens just before them. Their hidden states are computed first, from themselves
        alone, and no gradient reaches them. A token attends only to tokens with its number in ``documents`` [B, M + T].
        Padding at the right end needs no mask, because no token before it attends to it.
        """
        before, states = 0, [None] * self.depth
        if memory is not None:
            before = shape(memory)[1]
            inside = None if documents is None else documents[:, :before]
            # The last layer's output for the memory is not used as a key.
            states = self._run(memory, [None] * (self.depth - 1), 0, inside, fold(seed, 5000))
            states = [tf.stop_gradient(x) for x in states]
        layers = self._run(tokens, states, before, documents, seed)
        return [*layers[:-1], Drop(self.dropout, seed, 2)(layers[-1])]

    def _run(
        self, tokens: tf.Tensor, memory: list[tf.Tensor | None], before: Any, documents: tf.Tensor | None, seed: Any
    ) -> list[tf.Tensor]:
        """The embeddings and the output of one layer for each entry of ``memory``. An entry is the layer's input for
        the M = ``before`` tokens before ``tokens``, [B * M, D], or None."""
        rows, drop = shape(tokens), Drop(self.dropout, seed, 0)
        length = rows[1]
        check_length(length, self.length, "decoder")
        keys = before + length  # U
        column = tf.range(keys) - before
        bias = tf.where(column[None, :] > tf.range(length)[:, None], HIDDEN, 0.0)[None, None, :, :]  # [1, 1, T, U]
        if documents is not None:
            together = tf.equal(documents[:, before:, None], documents[:, None, :])[:, None, :, :]  # [B, 1, T, U]
            bias = tf.minimum(bias, tf.where(together, 0.0, HIDDEN))
        x = self.embeddings(tokens, drop=drop)  # [B * T, D]
        u, v = (tf.convert_to_tensor(bias) for bias in (self.content_bias, self.position_bias))  # [H, 1, K]
        far = distance_waves(keys, -1, self.width, drop.at(1))  # [U + 1, D]
        return run_with_memory(self.stack, x, View(bias, far, (u, v)), Rows(*rows), drop, memory, before)
