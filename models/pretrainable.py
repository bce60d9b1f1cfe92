"""The interface between models and the harness: the result of ``build``, and the output of every encoder.

Letters in shape comments, here and everywhere: B batch, T tokens, D width, H heads, V vocabulary, L layers, S target
tokens.

A *batch* is a dict of named arrays. Encoders read

    tokens    int32 [B, T]  ids; 0 is padding, at the right end, and is masked in attention
    segments  int32 [B, T]  0 for the first text, 1 for the second (optional; zeros when absent)

Objectives also read the arrays that their own ``batches`` add, such as labels and random numbers. The only source of
randomness inside a network (dropout) is ``seed``, an int32 [2] tensor; ``seed=None`` means inference. So the same
(weights, batch, seed) always gives the same loss, on any device and after any restart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ptmbench.models.objective import Objective, Sampler


class Encoding(NamedTuple):
    tokens: Any
    """[B, T, D] The last layer, one vector per token."""
    pooled: Any
    """[B, D] One vector per example, pooled as in the paper (first token, last token, mean ...)."""
    layers: tuple
    """L + 1 tensors [B, T, D]: the embeddings, then the output of each layer, for a scalar mix."""


class Writer(Protocol):
    """Computes next-token logits one token at a time, without computing anything twice.

    Each row has K hypotheses, written in parallel. What they share is computed once for all of them. Nothing is moved
    when hypotheses are dropped and others branch: keys and values stay in the column where they were computed, and
    ``seen`` selects the columns that belong to a hypothesis.
    """

    def begin(self, tokens: Any, **channels: Any) -> tuple[Any, Any]:
        """Encodes ``tokens`` int32 [B, T] and the other channels that the encoder reads, and returns (memory, past).

        ``memory`` does not change between steps: a nest of tensors whose first axis is B. ``past`` grows: a nest of
        tensors [B, H, U, D / H], whose initial length U is up to the model.
        """

    def step(self, memory: Any, past: Any, written: Any, seen: Any) -> tuple[Any, Any]:
        """Returns (logits [B, K, V] of the token after ``written``, ``past`` with K more columns).

        ``written`` int32 [B, K, S] is the text of each hypothesis so far, which begins with [CLS]; only its last token
        is new. ``seen`` bool [B, K, S * K] marks the columns, K for each position, that a hypothesis may attend to, its
        own new one included. There is no dropout.
        """


@dataclass(frozen=True, kw_only=True)
class Pretrainable:
    """A model ready for `bench.runs.pretrain` and for every adaptation.

    ``encoder(batch, seed=None) -> Encoding`` and ``loss(batch, seed=None) -> {"loss": [], ...}`` are built Keras
    layers: their variables exist. ``loss`` holds the encoder and the objective's own heads, so ``loss.variables`` are
    all variables. The other entries of its result (accuracies, parts of the loss) are shown and recorded.

    Every entry is a sum of means over items that the batch alone determines (masked positions, tokens, rows).
    ``loss.totals(batch) -> {name: int32 []}`` counts the items. ``loss(batch, seed, totals)`` takes the totals of a
    larger batch of which ``batch`` is a part. The entries of all parts then add up to those of the larger batch,
    however the items are distributed. The first axis of every array of a batch is the rows.

    An encoder has the attributes ``causal`` (no token sees a later one) and ``recurrent`` (tokens are computed one
    after the other).
    """

    encoder: Any
    loss: Objective
    batches: Sampler
    decode: Callable | None = None
    """(batch with ``tokens`` [B, T] and ``targets`` [B, S] that begin with [CLS], seed=None) to next-token logits
    [B, S, V]: position s predicts target s + 1. None if the model cannot generate."""
    writer: Writer | None = None
    """The same logits as ``decode``, token by token. None if the model cannot generate, or has to read everything again
    for each token."""
    log_likelihood: Callable | None = None
    """(batch with ``tokens`` [B, T]) to float [B, T]: ln p(token t | tokens before t), 0 at t = 0 and at padding. None
    if the model is not a left-to-right language model."""

    @property
    def fill(self) -> Callable | None:
        """(batch with ``tokens`` [B, T] and ``places`` [B]) to float [B, V]: logits of every piece at that position,
        whatever token it holds. None if the objective cannot score pieces at a position.

        A left-to-right model uses the tokens before the position. An encoder-decoder hides the position as in
        pre-training. Bidirectional models expect [MASK] at the position, and at the following ones that are hidden with
        it.
        """
        return self.loss.fill

    @property
    def originality(self) -> Callable | None:
        """(batch with ``tokens`` [B, T]) to float [B, T]: ln p(token t is the original and not a replacement | all
        tokens), 0 at padding. None if the model was not trained to detect replaced tokens."""
        return self.loss.originality

    @property
    def gap_likelihood(self) -> Callable | None:
        """(batch with ``tokens`` [B, T] that begin with [CLS]) to float [B, T]: ln p(token t | tokens before t), 0 at
        t = 0 and at padding, of a sentence that is the only one of its text and hidden as a whole. None if the model
        was not trained to generate whole hidden sentences."""
        return self.loss.gap_likelihood
