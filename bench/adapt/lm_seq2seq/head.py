"""Generation with weighted losses of language models: the network writes the target, and also predicts each of the two
texts by itself."""

from typing import Any, NamedTuple

import keras
from keras import ops

from ptmbench.bench.adapt.heads import generation

Codec = generation.Codec


class NextTokenLogits(NamedTuple):
    """Logits of the next token."""

    logits: Any
    """[B, S, V] after each target, given the source."""
    source: Any = None
    """[B, T, V] after each token of the source, as a language model; None outside of training and with a weight of
    0."""
    target: Any = None
    """[B, S, V] after each target, as a language model that does not see the source."""
    lm_weight: float = 0.0
    """Weight of the loss of each language model."""


class Head(generation.Head):
    """``outputs`` is the label smoothing, as in `generation.Head`; the language models have none. It has no weights."""

    def loss(self, logits: NextTokenLogits, batch: dict[str, Any]) -> Any:
        loss = super().loss(logits.logits, batch)
        if logits.source is not None:
            loss += logits.lm_weight * (_nll(logits.source, batch["tokens"]) + _nll(logits.target, batch["targets"]))
        return loss


def _nll(logits: Any, tokens: Any) -> Any:
    """Mean of - ln p of the tokens after the first, by ``logits`` [B, T, V] of ``tokens`` [B, T]."""
    following = tokens[:, 1:]
    known = ops.cast(following != 0, "float32")
    each = keras.losses.sparse_categorical_crossentropy(following, logits[:, :-1], from_logits=True)
    return ops.sum(each * known) / ops.maximum(ops.sum(known), 1.0)
