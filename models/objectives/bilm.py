"""Bidirectional language modelling (BiLM): predict each token from those before it, and again from those after it.

Peters et al. (2018), section 3.1. The two directions share token vectors and output layer, but no hidden states:

    L_BiLM = - 1/2 [ mean_{t >= 1} ln p(x_t | x_0 ... x_{t-1}) + mean_{t < T-1} ln p(x_t | x_{t+1} ... x_{T-1}) ]

The paper adds the two terms. Half the sum is a loss per prediction, comparable with that of other language models.
Batches are those of `models.objectives.lm`. The softmax is over the whole vocabulary: it is exact, and affordable for
vocabularies of subwords. If token vectors are computed from letters, there is no table, and the output layer has its
own weights (section 3.4).
"""

from typing import Any

import tensorflow as tf

from ptmbench.models.layers.core import made_from
from ptmbench.models.layers.vector_heads import BiLmConfig, SpelledBiLmConfig
from ptmbench.models.objectives._loss import Loss


@made_from(BiLmConfig)
class BiLm(Loss):
    """The ``loss`` of an encoder with ``forward``, ``both`` and ``token_embedding`` (see
    `models.layers.recurrent_networks.Bidirectional`).

    The output layer is the transposed table of token vectors (Press & Wolf, 2017) and a bias of its own.
    """

    reports = ("forward_nll", "backward_nll")

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"neighbours": tf.math.count_nonzero(_neighbours(tf.transpose(batch["tokens"])), dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        tokens = tf.transpose(batch["tokens"])  # [T, B]
        total = tf.cast(tf.maximum(totals["neighbours"], 1), tf.float32)
        weights = tf.cast(_neighbours(tokens), tf.float32) / total  # [T - 1, B]
        forward, backward = self._tops(batch["tokens"], seed)
        forward, backward = self._nll(forward[:-1], tokens[1:]), self._nll(backward[1:], tokens[:-1])  # [T - 1, B]
        forward, backward = tf.reduce_sum(forward * weights), tf.reduce_sum(backward * weights)
        return {"loss": (forward + backward) / 2.0, "forward_nll": forward, "backward_nll": backward}

    def log_likelihood(self, batch: dict[str, Any]) -> tf.Tensor:
        """ln p(token t | tokens before t) in the forward direction, float [B, T]; 0 at t = 0 and at padding."""
        tokens = tf.convert_to_tensor(batch["tokens"], tf.int32)
        following = tf.transpose(tokens)[1:]
        nll = self._nll(self.encoder.forward(tokens)[-1][:-1], following)  # [T - 1, B]
        return tf.pad(tf.transpose(tf.where(tf.equal(following, 0), 0.0, -nll)), [[0, 0], [1, 0]])

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], whatever token is there: the mean of
        ln p in the two directions, as LAMA scores ELMo (Petroni et al., 2019, the authors' code). A direction that has
        read nothing gives every piece the same score."""
        tokens, places = (tf.convert_to_tensor(batch[name], tf.int32) for name in ("tokens", "places"))
        rows, last = tf.range(tf.shape(tokens)[0]), tf.shape(tokens)[1] - 1
        ends = tf.math.count_nonzero(tokens, axis=1, dtype=tf.int32) - 1  # [B]
        total = 0.0
        for states, place, there in zip(
            self._tops(tokens, None), (places - 1, places + 1), (places > 0, places < ends), strict=True
        ):
            x = tf.gather_nd(states, tf.stack([tf.clip_by_value(place, 0, last), rows], axis=1))  # [B, P]
            total += tf.nn.log_softmax(self._logits(x) * tf.cast(there, tf.float32)[:, None])
        return total / 2.0

    def _nll(self, x: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """-ln p(targets [S, B] | x [S, B, P]), [S, B]."""
        logits = self._logits(tf.reshape(x, [-1, x.shape[-1]]))  # [S * B, V]
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(targets, [-1]), logits)
        return tf.reshape(nll, tf.shape(targets))

    def _logits(self, x: tf.Tensor) -> tf.Tensor:
        """[N, P] to float32 [N, V]."""
        return tf.cast(tf.nn.bias_add(tf.matmul(x, self._words(), transpose_b=True), self.output_bias), tf.float32)

    def _tops(self, tokens: tf.Tensor, seed: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """The last layer of both directions, [T, B, P] each."""
        forward, backward = self.encoder.both(tokens, seed)
        return forward[-1], backward[-1]

    def _words(self) -> Any:
        """The output table, [V, P]."""
        return self.encoder.token_embedding


@made_from(SpelledBiLmConfig)
class SpelledBiLm(BiLm):
    """`BiLm` for an encoder that makes token vectors from letters (see `models.layers.spelling`). The output layer is a
    separate table of ``words`` [V, P]."""

    def _words(self) -> Any:
        return self.words.whole()


def _neighbours(tokens: tf.Tensor) -> tf.Tensor:
    """Whether a token and the next one are both not padding: [T, B] to bool [T - 1, B]."""
    return (tokens[1:] != 0) & (tokens[:-1] != 0)
