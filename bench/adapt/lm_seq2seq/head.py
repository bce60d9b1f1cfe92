"""Generation with weighted losses of language models: the network writes the target, and also predicts each of the two
texts by itself."""

from typing import Any, NamedTuple

import keras
from keras import ops

from ptmbench.bench.adapt.heads import generation

Codec = generation.Codec


class Said(NamedTuple):
    """What a network says of the next token."""

    logits: Any
    """[B, S, V] after each target, given the source."""
    source: Any = None
    """[B, T, V] after each token of the source, as a language model; None where nothing learns."""
    target: Any = None
    """[B, S, V] after each target, as a language model that knows of no source."""
    lm_weight: float = 0.0
    """Weight of the loss of each language model."""


class Head(generation.Head):
    """Holds no weights; ``outputs`` as `generation.Head` has them. The language models are not smoothed."""

    def loss(self, said: Said, batch: dict[str, Any]) -> Any:
        loss = super().loss(said.logits, batch)
        if said.source is not None:
            loss += said.lm_weight * (_nll(said.source, batch["tokens"]) + _nll(said.target, batch["targets"]))
        return loss


def _nll(logits: Any, tokens: Any) -> Any:
    """- ln p per token behind the first, by ``logits`` [B, T, V] of ``tokens`` [B, T]."""
    following = tokens[:, 1:]
    known = ops.cast(following != 0, "float32")
    each = keras.losses.sparse_categorical_crossentropy(following, logits[:, :-1], from_logits=True)
    return ops.sum(each * known) / ops.maximum(ops.sum(known), 1.0)
