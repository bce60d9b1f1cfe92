"""Language modelling from the last four words, with one hidden layer. Bengio et al. (2003), section 2, equation 1:

    ln p(x_t | x_{t-4} ... x_{t-1}) = ln softmax(b + U tanh(d + H [v_{t-4}; ...; v_{t-1}]))_{x_t}

without the direct connections W. Batches are those of `models.objectives.lm`. Vectors before the first token of a row,
and those of other documents, are zeros.

H applied to four vectors is a sum over their positions. One product gives the contributions of a token to all
positions.
"""

from typing import Any

import tensorflow as tf

from ptmbench.models.layers.core import made_from
from ptmbench.models.layers.operations import shape
from ptmbench.models.layers.vector_heads import WindowLmConfig
from ptmbench.models.objectives._loss import Loss


@made_from(WindowLmConfig)
class WindowLm(Loss):
    """The ``loss`` of a table of word vectors. It owns the network and the output layer."""

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"tokens": tf.math.count_nonzero(batch["tokens"][:, 1:], dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        return {"loss": tf.reduce_sum(self._nll(batch, seed)) / tf.cast(tf.maximum(totals["tokens"], 1), tf.float32)}

    def log_likelihood(self, batch: dict[str, Any]) -> tf.Tensor:
        """ln p(token t | the four tokens before), float [B, T]; 0 at t = 0 and at padding."""
        return tf.pad(-self._nll({"tokens": tf.convert_to_tensor(batch["tokens"], tf.int32)}, None), [[0, 0], [1, 0]])

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], from the tokens before; all equal at
        place 0."""
        tokens, places = (tf.convert_to_tensor(batch[name], tf.int32) for name in ("tokens", "places"))
        before = tf.range(tf.shape(tokens)[0]) * (tf.shape(tokens)[1] - 1) + tf.maximum(places - 1, 0)
        return tf.gather(self._logits({"tokens": tokens}, None), before) * tf.cast(places > 0, tf.float32)[:, None]

    def _nll(self, batch: dict[str, Any], seed: Any) -> tf.Tensor:
        """-ln p of tokens 1 ... T - 1, [B, T - 1], 0 at padding."""
        following = batch["tokens"][:, 1:]
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(following, [-1]), self._logits(batch, seed))
        return tf.reshape(nll, tf.shape(following)) * tf.cast(tf.not_equal(following, 0), tf.float32)

    def _logits(self, batch: dict[str, Any], seed: Any) -> tf.Tensor:
        """Float32 [B * (T - 1), V] for tokens 1 ... T - 1."""
        tokens = batch["tokens"]
        (rows, length), order, inner = shape(tokens), self.config.order, self.config.inner
        vectors = tf.reshape(self.encoder(batch, seed=seed).tokens, [-1, self.encoder.width])  # [B * T, D]
        parts = tf.reshape(self.places(vectors), [rows, length, order, inner])
        hidden = self.bias
        for back in range(1, order + 1):  # token t - back contributes to token t
            said = tf.pad(parts[:, :, back - 1], [[0, 0], [back, 0], [0, 0]])[:, 1:length]  # [B, T - 1, F]
            if "documents" in batch:
                numbers = tf.pad(batch["documents"], [[0, 0], [back, 0]], constant_values=-1)[:, :length]
                same = tf.equal(numbers, batch["documents"])[:, 1:, None]
                said = tf.where(same, said, tf.zeros_like(said))
            hidden = hidden + said
        return tf.cast(self.logits(tf.reshape(tf.tanh(hidden), [-1, inner])), tf.float32)
