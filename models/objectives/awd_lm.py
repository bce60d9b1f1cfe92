"""Left-to-right language modelling with activation regularisation. Merity, Keskar and Socher (2018), section 4.6:

    L = L_LM + alpha mean (m h_t)^2 + beta mean (h_t - h_{t+1})^2        alpha = 2, beta = 1

where h_t are the states of the last layer and m is their dropout mask. The first term keeps states small (AR), the
second keeps their changes small (TAR). The means are over all numbers of all states, as in the authors' code. Both
terms are for training only: without a seed the loss is L_LM (`models.objectives.lm`, which also makes the batches).
"""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.objectives.lm import CausalLm

ALPHA, BETA = 2.0, 1.0


class AwdLm(CausalLm):
    """The ``loss`` of an encoder with ``outputs`` (see `models.layers.recurrent_networks.Awd`) and the methods that
    `CausalLm` needs.

    The output layer is the table of word vectors and a bias of its own, as in the code of the papers' authors
    (salesforce/awd-lstm-lm; fastai's `awd_lstm_lm_config` with ``out_bias``).
    """

    reports = ("nll",)

    def __init__(self, encoder: keras.layers.Layer, absent: tuple[int, ...] = (), name: str = "loss"):
        super().__init__(encoder, absent, name=name)
        self.output_bias = self.add_weight((encoder.token_embedding.shape[0],), "zeros", name="output_bias")

    def _output(self, x: tf.Tensor) -> tf.Tensor:
        """[N, D] to [N, V]."""
        return super()._output(x) + tf.cast(self.output_bias, tf.float32)

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        tokens = tf.convert_to_tensor(batch["tokens"], tf.int32)
        following, rows = tokens[:, 1:], tf.shape(tokens)[0]
        present = tf.cast(tf.not_equal(following, 0), tf.float32)  # [B, T - 1]
        weights = present / tf.cast(tf.maximum(totals["tokens"], 1), tf.float32)
        raw, dropped = self.encoder.outputs(tokens, seed)  # [B, T, D]
        logits = self._logits(tf.reshape(dropped[:, :-1], [-1, dropped.shape[-1]]))  # [B * (T - 1), V]
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(following, [-1]), logits)
        nll = tf.reduce_sum(tf.reshape(nll, [rows, -1]) * weights)
        if seed is None:
            return {"loss": nll, "nll": nll}
        small = tf.reduce_mean(tf.square(tf.cast(dropped[:, :-1], tf.float32)), axis=2)  # [B, T - 1]
        slow = tf.reduce_mean(tf.square(tf.cast(raw[:, 1:] - raw[:, :-1], tf.float32)), axis=2)
        return {"loss": nll + tf.reduce_sum((ALPHA * small + BETA * slow) * weights), "nll": nll}
