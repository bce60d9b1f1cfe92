"""AWD-LSTM: a left-to-right LSTM in which nearly everything is dropped. Merity, Keskar and Socher (2018).

L layers, the inner ones of ``inner`` cells, the first of D inputs and the last of D cells, so that the table of token
vectors is the output layer too (section 4.5). What is dropped, and where (sections 2, 4.2 and 4.3):

    weights      entries of U, the same ones in all steps and rows of a batch: the loop knows nothing of it
    embedding    whole words: all occurrences in a batch
    input        entries of token vectors, the same ones in all steps of a row ("variational", Gal & Ghahramani, 2016)
    hidden       entries between layers, in the same way
    output       entries of the last layer, in the same way; by the objective, which needs both (see `outputs`)

The rates stand to each other as ULMFiT's (Howard & Ruder, 2018, section 4.1): ``dropout`` 0.4 gives them all as in that
paper, another value all of them larger or smaller, 0 none.
"""

from typing import Any

import tensorflow as tf

from ptmbench.models.architectures.left_lstm import LeftLstm, State, over
from ptmbench.models.architectures.parts import dropout, shape
from ptmbench.models.card import Size

SHARES = {"weights": 1.25, "embedding": 0.125, "input": 1.0, "hidden": 0.75, "output": 1.0}
"""Rates in units of ``dropout``: 0.5, 0.05, 0.4, 0.3 and 0.4 where that is 0.4."""


class AwdLstm(LeftLstm):
    """Batch to `Encoding`. ``layers`` are the embeddings and the last layer: what is between is of another width, and
    no task could mix it with them."""

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(size, vocabulary, name)
        self.depth = 1

    @staticmethod
    def cells(size: Size) -> list[int]:
        return [size.inner] * (size.layers - 1) + [size.width]

    def run(self, tokens: tf.Tensor, seed: Any, present: tf.Tensor | None) -> tuple[list[tf.Tensor], list[State]]:
        """The embeddings and the last layer, [T, B, D] for ``tokens`` [T, B], and the layers' last states."""
        x = first = self.embedded(tokens, seed)
        states = []
        for index, layer in enumerate(self.stack):
            if index:
                x = self.locked(x, "hidden", seed, 10 + index, axis=0)
            recurrent = dropout(layer.recurrent.value, self.rate("weights"), seed, 100 + index)
            x, state = over(x, layer, recurrent, present)
            states.append(state)
        return [first, x], states

    def embedded(self, tokens: tf.Tensor, seed: Any) -> tf.Tensor:
        """The vectors of ``tokens`` [T, B], [T, B, D], after both kinds of dropout that fall on them."""
        x = tf.gather(self.token_embedding.value, tokens)
        if seed is not None:
            kept = dropout(tf.ones([self.token_embedding.shape[0]], x.dtype), self.rate("embedding"), seed, 0)  # [V]
            x *= tf.gather(kept, tokens)[:, :, None]
        return self.locked(x, "input", seed, 1, axis=0)

    def outputs(self, tokens: tf.Tensor, seed: Any = None) -> tuple[tf.Tensor, tf.Tensor]:
        """The last layer [B, T, D] for ``tokens`` [B, T] as it is, and after dropout."""
        raw = tf.transpose(self.run(tf.transpose(tokens), seed, None)[0][-1], [1, 0, 2])
        return raw, self.locked(raw, "output", seed, 2, axis=1)

    def locked(self, x: tf.Tensor, what: str, seed: Any, salt: int, axis: int) -> tf.Tensor:
        """Dropout with one mask for all steps, which are the ``axis`` of ``x``."""
        if seed is None:
            return x
        dims = shape(x)
        dims[axis] = 1
        return x * dropout(tf.ones(dims, x.dtype), self.rate(what), seed, salt)

    def rate(self, what: str) -> float:
        """The rate of one of `SHARES`, below 1 whatever ``dropout`` is."""
        return min(0.9, SHARES[what] * self.dropout)
