"""The layers of BERT-fused translation: every block of encoder and decoder also attends to a second memory.

Source: Zhu et al. (2020), section 4. The second memory M [B, T, W] holds the vectors of the source tokens from another
encoder, usually a pre-trained one. With attentions attn_S over the block's own input, attn_E over the encoder and
attn_M over M, each with its own weights:

    encoder    x' = x + 1/2 (attn_S(x, x) + attn_M(x, M))                  equation 1
    decoder    y' = y + attn_S(y, y before it)
               y'' = y' + 1/2 (attn_E(y', x) + attn_M(y', M))              equation 2

A feed-forward layer follows each. In training a block uses attn_M alone or the other attention alone, each with
probability p / 2, and otherwise their mean (drop-net, equation 3). So each becomes useful without the other.
"""

from functools import partial
from typing import Any

import tensorflow as tf

from ptmbench.models.layers.blocks import Block, Pair
from ptmbench.models.layers.config import ONES, Start
from ptmbench.models.layers.core import NO_DROP, Drop, Rows, built, made_from, recomputed
from ptmbench.models.layers.fused_config import FusedBlockConfig, FusedDecoderConfig, FusedEncoderConfig
from ptmbench.models.layers.operations import fold
from ptmbench.models.layers.transformers import Decoder, Encoder

__all__ = ["FusedDecoder", "FusedEncoder", "built"]


def mix_attentions(own: tf.Tensor, other: tf.Tensor, fused: Any, drop_net: float, drop: Drop) -> tf.Tensor:
    """The mean of ``own`` and ``other`` [N, D]; in training (if ``drop`` has a seed) one of them alone with probability
    ``drop_net``, drawn once for all rows. ``fused`` is 1, or 0 to ignore ``other``."""
    share = tf.constant(0.5)
    if drop.seed is not None and drop_net:
        draw = tf.random.stateless_uniform([], fold(drop.seed, drop.place))
        share = tf.where(draw < drop_net / 2, 0.0, tf.where(draw > 1 - drop_net / 2, 1.0, share))
    share = tf.cast(share * tf.cast(fused, tf.float32), own.dtype)
    return (1 - share) * own + share * other


@made_from(FusedBlockConfig)
class FusedBlock(Block):
    """One layer of a Transformer with a second memory, [N, D] to [N, D]. Extensions at "after_other" get the result of
    the attention to the second memory."""

    def __init__(self, config: FusedBlockConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.SEAMS = (*self.SEAMS, "after_other")

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor,
        rows: Rows,
        drop: Drop = NO_DROP,
        memory: Any = None,
        absent: Any = None,
        past: Any = None,
        other: Any = None,
        fused: Any = 1.0,
    ) -> tuple[tf.Tensor, Pair]:
        """The block's result [N, D], and the keys and values of its self-attention.

        ``other`` are the keys and values of the second memory (from `Attention.read`), and ``fused`` is 1, or 0 to
        ignore them. ``absent`` masks some of them, and the same ones of ``memory``. The other arguments are those of
        `Block`.
        """
        own = None

        def attend(x: tf.Tensor) -> tf.Tensor:
            nonlocal own
            h, own = self.self_attend(x, bias, rows, drop, past=past)
            return h

        def look(x: tf.Tensor) -> tf.Tensor:
            h, _ = self.other(x, absent, rows=rows, drop=drop.at(2), memory=other)
            return drop(self.through("after_other", h), 3)

        mix = partial(mix_attentions, fused=fused, drop_net=self.config.drop_net)
        if self.config.cross is None:
            x = self._added(x, lambda x: mix(attend(x), look(x), drop=drop.at(4)), self.attention_norm)
            return self._added(x, partial(self.feed, drop=drop.at(5)), self.norm), own

        def both(x: tf.Tensor) -> tf.Tensor:
            seen = look(x)
            return mix(self.cross_attend(x, absent, rows, drop.at(4), memory), seen, drop=drop.at(6))

        x = self._added(x, attend, self.attention_norm)
        x = self._added(x, both, self.cross_norm)
        return self._added(x, partial(self.feed, drop=drop.at(7)), self.norm), own


@made_from(FusedEncoderConfig)
class FusedEncoder(Encoder):
    """Batch to `Encoding`. The batch also has ``memory`` [B, T, W], the second memory of its ``tokens`` [B, T]. The
    weight ``fused`` is initially 1; 0 switches the memory off, here and in the decoder."""

    stepwise = False  # a block reads more than the output of the block before it
    FIXED = ("fused",)

    def starts(self) -> dict[str, Start]:
        return {"fused": ONES}

    def deeper(self, x: tf.Tensor, bias: tf.Tensor, batch: dict[str, Any], rows: Rows, drop: Drop) -> list[tf.Tensor]:
        memory = tf.reshape(batch["memory"], [-1, self.config.stack.block.other.memory])  # [B * T, W]
        layers = [x]
        for index, block in enumerate(self.stack):

            def apply(x: tf.Tensor, bias: tf.Tensor, memory: tf.Tensor, block: Any = block, index: int = index) -> Any:
                given = {"other": block.other.read(memory, rows), "absent": bias, "fused": self.fused.value}
                return block(x, bias, rows=rows, drop=drop.at(10 * (index + 1)), **given)[0]

            x = recomputed(apply, layers[-1], bias, memory)
            layers.append(self.stack.through("between", x, index=index))
        return layers


@made_from(FusedDecoderConfig)
class FusedDecoder(Decoder):
    """Next-token logits over a pair of memories: the output of a `FusedEncoder` [B, T, D], and the encoder's own second
    memory [B, T, W]."""

    def _flat(self, memory: Any) -> tuple[tf.Tensor, ...]:
        encoded, other = memory
        return *super()._flat(encoded), tf.reshape(other, [-1, self.config.stack.block.other.memory])

    def _read(self, block: FusedBlock, flat: tuple[tf.Tensor, ...], rows: Rows) -> Any:
        encoded, other = flat
        return block.cross.read(encoded, rows), block.other.read(other, rows)

    def _looking(self, read: Any) -> dict[str, Any]:
        memory, other = read
        return {"memory": memory, "other": other, "fused": self.encoder.fused.value}
