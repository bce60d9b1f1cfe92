"""What ``build`` returns, and what every encoder gives: all that the harness knows of a model.

Letters in shape comments, here and everywhere: B batch, T tokens, D width, H heads, V vocabulary, L layers, S target
tokens.

A *batch* is a dict of named arrays. Encoders read

    tokens    int32 [B, T]  ids; 0 is padding, at the right end, and hides itself from attention
    segments  int32 [B, T]  0 for the first text, 1 for the second (optional; zeros when absent)

and objectives read whatever their own ``batches`` put there besides, random numbers among it. Randomness inside a
network (dropout) comes only from ``seed``, an int32 [2] tensor; ``seed=None`` means inference. So the same (weights,
batch, seed) always gives the same loss, on any device and after any restart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ptmbench.models.objective import Objective, Sampler


class Encoding(NamedTuple):
    tokens: Any
    """[B, T, D] the last layer, one vector per token."""
    pooled: Any
    """[B, D] one vector per example, in the way of the paper (first token, last token, mean ...)."""
    layers: tuple
    """L + 1 tensors [B, T, D]: the embeddings, then each layer, for a scalar mix."""


class Writer(Protocol):
    """Next-token logits one token at a time, without computing anything twice.

    Of each row K hypotheses are written side by side. What they share is computed once for all of them, and nothing
    moves when some are dropped and others branch: keys and values stay in the column where they were computed, and
    ``seen`` says which columns are a hypothesis's own past.
    """

    def begin(self, tokens: Any, **channels: Any) -> tuple[Any, Any]:
        """``tokens`` int32 [B, T], and the other channels that the encoder reads, to (memory, past): what stays as it
        is, a nest of tensors with B as the first axis; and what grows, a nest of tensors [B, H, U, D / H], at first as
        long as the model likes."""

    def step(self, memory: Any, past: Any, written: Any, seen: Any) -> tuple[Any, Any]:
        """(logits [B, K, V] of the token after ``written``, ``past`` with K more columns).

        ``written`` int32 [B, K, S] is all that each hypothesis says so far, beginning with [CLS]; only its last token
        is new. ``seen`` bool [B, K, S * K]: the columns, K for each place, that a hypothesis may see, its own new one
        among them. No dropout.
        """


@dataclass(frozen=True, kw_only=True)
class Pretrainable:
    """A model ready for `bench.runs.pretrain` and for every adaptation.

    ``encoder(batch, seed=None) -> Encoding`` and ``loss(batch, seed=None) -> {"loss": [], ...}`` are Keras layers,
    built (their variables exist). ``loss`` holds the encoder and the objective's own heads, so ``loss.variables`` is
    everything; other entries of its result (accuracies, parts of the loss) are shown and recorded.

    Every entry is made of means over things that the batch alone decides (masked positions, tokens, rows), and
    ``loss.totals(batch) -> {name: int32 []}`` says how many there are. ``loss(batch, seed, totals)`` takes the totals
    of a larger batch that ``batch`` is a part of: then the entries of all parts add up to those of the whole, however
    many of the things each part has. Every array of a batch has the rows as its first axis.

    An encoder says of itself whether it is ``causal`` (no token sees a later one) and ``recurrent`` (computed one token
    after the other).
    """

    encoder: Any
    loss: Objective
    batches: Sampler
    decode: Callable | None = None
    """(batch with ``tokens`` [B, T] and ``targets`` [B, S] that begin with [CLS], seed=None) to next-token logits [B,
    S, V]: position s predicts target s + 1. None where a model cannot generate."""
    writer: Writer | None = None
    """The same logits as ``decode``, token by token; None where a model cannot, or has to read all again for each."""
    log_likelihood: Callable | None = None
    """(batch with ``tokens`` [B, T]) to float [B, T]: ln p(token t | tokens before t), 0 at t = 0 and at padding. None
    where a model is not a left-to-right language model."""

    @property
    def fill(self) -> Callable | None:
        """(batch with ``tokens`` [B, T] and ``places`` [B]) to float [B, V]: how well every piece fits there, as
        logits, whatever stands there now. A left-to-right model goes by what stands before; an encoder-decoder hides
        the place as it does in pre-training. None where a model's loss has no such answer; [MASK] is what bidirectional
        ones want to find in the place, and in those behind it that are hidden with it."""
        return self.loss.fill

    @property
    def originality(self) -> Callable | None:
        """(batch with ``tokens`` [B, T]) to float [B, T]: ln p(token t is the original and not a replacement | all
        tokens), 0 at padding. None where a model was not trained to tell replaced tokens."""
        return self.loss.originality

    @property
    def gap_likelihood(self) -> Callable | None:
        """(batch with ``tokens`` [B, T] that begin with [CLS]) to float [B, T]: ln p(token t | tokens before t) of a
        sentence that is the only one of its text and hidden as a whole, 0 at t = 0 and at padding. None where a model
        was not trained to write whole hidden sentences."""
        return self.loss.gap_likelihood
