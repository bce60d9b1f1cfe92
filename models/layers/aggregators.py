"""The layers of an encoder that reads entities: a frozen table, the fusion of two streams, aggregators, the encoder.

Source: Zhang et al. (2019), section 3.3, and the authors' code (thunlp/ERNIE, code/knowledge_bert/modeling.py). The
configurations are in `models.layers.entities`. With N = B * T, vectors of tokens are [N, D] and vectors of entities
[N, E]. An entity's vector is at the first token that mentions it.
"""

from functools import partial
from typing import Any

import tensorflow as tf

from ptmbench.models.layers.blocks import ACTIVATIONS
from ptmbench.models.layers.core import NO_DROP, Drop, Layer, Rows, Table, built, initializer, made_from, recomputed
from ptmbench.models.layers.entities import (
    AggregatorConfig,
    AggregatorsConfig,
    EntityEncoderConfig,
    FrozenTableConfig,
    FusionConfig,
)
from ptmbench.models.layers.operations import HIDDEN, shape
from ptmbench.models.layers.transformers import Encoder

__all__ = ["EntityEncoder", "FrozenTable", "built"]


@made_from(FrozenTableConfig)
class FrozenTable(Table):
    """Looks up the vectors [..., E] of rows int32 [...]. The table is not trained. Row 0 is zeros; the other rows are
    random until they are assigned."""

    def build(self, input_shape: Any = None) -> None:
        def start(dims: tuple[int, int], dtype: Any = None) -> tf.Tensor:
            return tf.pad(initializer(self.config.start)((dims[0] - 1, dims[1]), dtype=dtype), [[1, 0], [0, 0]])

        self.table = self.add_weight((self.config.rows, self.config.width), start, trainable=False, name="table")


@made_from(FusionConfig)
class Fusion(Layer):
    """h = act(x W_t + e W_e + b), then h W_x + b_x and h W_y + b_y: equation 4, and equation 5 without activations."""

    def call(self, x: tf.Tensor, e: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """New vectors [N, D] and [N, E] for ``x`` [N, D] and ``e`` [N, E], which is zeros where no entity begins."""
        h = ACTIVATIONS[self.config.activation](self.inner(x) + self.entity_inner(e))  # [N, F]
        return self.outer(h), None if self.config.last else self.entity_outer(h)


@made_from(AggregatorConfig)
class Aggregator(Layer):
    """One layer over tokens [N, D] and entities [N, E]. Extensions attach to the tokens, as in
    `models.layers.blocks.Block`."""

    SEAMS = ("before_attention", "after_attention", "before_feed_forward", "after_feed_forward")
    CASTS = False

    def call(
        self,
        x: tf.Tensor,
        e: tf.Tensor,
        bias: tf.Tensor,
        entity_bias: tf.Tensor,
        here: tf.Tensor,
        rows: Rows,
        drop: Drop = NO_DROP,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The new tokens and entities. ``bias`` and ``entity_bias`` hide keys of the two attentions; ``here`` [N, 1]
        is 1 where an entity begins and 0 elsewhere."""
        h, _ = self.attention(self.through("before_attention", x), bias, rows=rows, drop=drop)
        x = self.attention_norm(x + drop(self.through("after_attention", h), 1))
        g, _ = self.entity_attention(e, entity_bias, rows=rows, drop=drop.at(2))
        e = self.entity_attention_norm(e + drop(g, 3)) * here
        h, g = self.fusion(self.through("before_feed_forward", x), e)
        x = self.norm(x + drop(self.through("after_feed_forward", h), 4))
        return x, e if g is None else self.entity_norm(e + drop(g, 5))


@made_from(AggregatorsConfig)
class Aggregators(Layer):
    """Aggregators one after the other. Extensions at "between" get the tokens [N, D] after each aggregator, and its
    number ``index`` from 0."""

    SEAMS = ("between",)
    CASTS = False

    def call(
        self,
        x: tf.Tensor,
        e: tf.Tensor,
        bias: tf.Tensor,
        entity_bias: tf.Tensor,
        here: tf.Tensor,
        rows: Rows,
        drop: Drop = NO_DROP,
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """The tokens and the entities after each aggregator. The aggregators' dropout places are ten apart."""
        tokens, entities = [], []
        for index, (name, _) in enumerate(self.config.parts()):
            step = partial(getattr(self, name), rows=rows, drop=drop.at(10 * index))
            x, e = recomputed(step, x, e, bias, entity_bias, here)
            x = self.through("between", x, index=index)
            tokens.append(x)
            entities.append(e)
        return tokens, entities


@made_from(EntityEncoderConfig)
class EntityEncoder(Encoder):
    """Batch to `Encoding`. The channel ``entities`` is k at each token that begins a mention of the k-th entity.
    Without the channel there are no entities."""

    stepwise = False  # the aggregators follow the stack

    def __init__(self, config: EntityEncoderConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.depth += config.aggregators.layers

    def deeper(self, x: tf.Tensor, bias: tf.Tensor, batch: dict[str, Any], rows: Rows, drop: Drop) -> list[tf.Tensor]:
        layers = super().deeper(x, bias, batch, rows, drop)
        tokens, _ = self.aggregated(layers[-1], bias, batch, rows, drop.at(10 * len(layers)))
        return [*layers, *tokens]

    def aggregated(
        self, x: tf.Tensor, bias: tf.Tensor, batch: dict[str, Any], rows: Rows, drop: Drop = NO_DROP
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """The tokens [N, D] and the entities [N, E] after each aggregator, from tokens ``x`` [N, D]."""
        entities = batch.get("entities")
        entities = tf.zeros_like(batch["tokens"]) if entities is None else tf.maximum(entities, 0)  # [B, T]
        # [CLS] counts as an entity without a vector, as in the authors' code, so that attention always has a key.
        here = (entities > 0) | (tf.range(shape(entities)[1]) == 0)  # [B, T]
        vectors = tf.reshape(self.entities(entities), [-1, self.config.entities.width])  # [N, E]
        entity_bias = tf.where(here, 0.0, HIDDEN)[:, None, None, :]  # [B, 1, 1, T]
        mask = tf.cast(tf.reshape(here, [-1, 1]), vectors.dtype)  # [N, 1]
        return self.aggregators(x, vectors, bias, entity_bias, mask, rows=rows, drop=drop)
