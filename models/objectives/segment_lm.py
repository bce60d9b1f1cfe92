"""Left-to-right language modelling (LM) with segment recurrence: predict each token of a segment from those before it,
and from the hidden states of the previous segment. Dai et al. (2019), section 3.2.

    L_LM = - 1/(T - 1) sum_{t >= 1} ln p(x_t | x_0 ... x_{t-1}, memory of the M tokens before x_0)

The authors step through the corpus and keep the states of the last segment from one step to the next. Here a row
contains the tokens of that segment, and each step computes their states again, without gradient. So any step can be
repeated without the one before it. There are two differences. The states come from the weights of this step and not of
the last one. And they have seen only their own M tokens, while the authors' cached states had a memory too; the context
is M tokens and not L M. The cost is a forward pass over M tokens per step.

Batches are those of `models.objectives.lm`, with a memory. Attention does not cross from one document to another, nor
from one into the memory of another.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.products import product
from ptmbench.models.objective import Batches, Objective, sampled
from ptmbench.models.objectives.sampling import TokenRuns, stream, take
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` and ``memory`` int32 [B, T], the T tokens before them (M = T,
    as in the authors' training), and ``documents`` int32 [B, M + T], the document numbers of memory and tokens."""
    runs = TokenRuns(stream(corpus, vocabulary), length)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        where = runs.starts(step, batch, seed)[:, None] + np.arange(-length, length)  # [B, 2 T]
        text = take(runs.ids, where)
        return {
            "tokens": text[:, length:],
            "memory": text[:, :length],
            "documents": np.cumsum(text == vocabulary.cls, axis=1, dtype=np.int32),
        }

    return make


class SegmentLm(Objective, keras.layers.Layer):
    """The ``loss`` of a decoder with tied embeddings, and its methods for likelihoods, blanks and generation.

    ``encoder`` has ``hidden(tokens, seed, memory, documents)`` (see `models.layers.relative_causal`) and
    ``token_embedding`` [V, D]. The output layer has a bias of its own, and is a plain softmax. The authors' adaptive
    softmax is for vocabularies of 267,735 words; vocabularies of subwords do not need it.
    """

    def __init__(self, encoder: keras.layers.Layer, name: str = "loss"):
        super().__init__(name=name)
        self.encoder = encoder
        self.bias = self.add_weight((encoder.token_embedding.shape[0],), "zeros", name="output_bias")
        self.built = True

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"tokens": tf.math.count_nonzero(batch["tokens"][:, 1:], dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        total = tf.cast(tf.maximum(totals["tokens"], 1), tf.float32)
        return {"loss": tf.reduce_sum(self._nll(batch, seed)) / total}

    def log_likelihood(self, batch: dict[str, Any]) -> tf.Tensor:
        """ln p(token t | tokens before t, and the ``memory`` if the batch has one), float [B, T]; 0 at t = 0 and at
        padding."""
        batch = {name: tf.convert_to_tensor(value, tf.int32) for name, value in batch.items()}
        return tf.pad(-self._nll(batch, None), [[0, 0], [1, 0]])

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], from the tokens before; all equal at
        place 0."""
        tokens, places = (tf.convert_to_tensor(batch[name], tf.int32) for name in ("tokens", "places"))
        before = tf.range(tf.shape(tokens)[0]) * tf.shape(tokens)[1] + tf.maximum(places - 1, 0)
        logits = self._logits(tf.gather(self.encoder.hidden(tokens)[-1], before))
        return logits * tf.cast(places > 0, tf.float32)[:, None]

    def decode(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Next-token logits [B, S, V] for ``targets`` [B, S] as the continuation of ``tokens`` [B, T].

        Each row's targets are moved to the end of its own source, so the result does not depend on the length of the
        others. With relative positions, padding between the two would increase their distance.
        """
        tokens = tf.convert_to_tensor(batch["tokens"], tf.int32)
        targets = tf.convert_to_tensor(batch["targets"], tf.int32)
        rows, length = tf.shape(targets)[0], tf.shape(targets)[1]
        source = tf.shape(tokens)[1]
        count = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1, keepdims=True)  # [B, 1]
        column = tf.range(source + length)[None, :]  # [1, T + S]
        moved = tf.where(column < count, column, tf.minimum(column - count + source, source + length - 1))
        joined = tf.gather(tf.concat([tokens, targets], axis=1), moved, batch_dims=1)  # [B, T + S]
        x = self.encoder.hidden(joined, seed)[-1]  # [B * (T + S), D]
        place = tf.range(rows)[:, None] * (source + length) + count + tf.range(length)  # [B, S]
        logits = self._logits(tf.gather(x, tf.reshape(place, [-1])))
        return tf.reshape(logits, [rows, length, logits.shape[-1]])

    def _logits(self, x: tf.Tensor) -> tf.Tensor:
        """[N, D] to [N, V]."""
        logits = product(x, self.encoder.token_embedding, transposed=True)
        return tf.cast(tf.nn.bias_add(logits, self.bias), tf.float32)

    def _nll(self, batch: dict[str, Any], seed: Any) -> tf.Tensor:
        """-ln p of tokens 1 ... T - 1, [B, T - 1], 0 at padding."""
        tokens = batch["tokens"]
        rows, length = tf.shape(tokens)[0], tf.shape(tokens)[1]
        x = self.encoder.hidden(tokens, seed, batch.get("memory"), batch.get("documents"))[-1]  # [B * T, D]
        x = tf.reshape(tf.reshape(x, [rows, length, -1])[:, :-1], [-1, x.shape[-1]])  # [B * (T - 1), D]
        following = tokens[:, 1:]
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(following, [-1]), self._logits(x))
        return tf.reshape(nll, [rows, length - 1]) * tf.cast(tf.not_equal(following, 0), tf.float32)
