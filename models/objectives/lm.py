"""Left-to-right language modelling (LM): predict each token from those before it. Radford et al. (2018), section 3.1.

    L_LM = - 1/(T - 1) sum_{t >= 1} ln p(x_t | x_0 ... x_{t-1})

Rows are runs of exactly T tokens of [CLS] document [SEP] [CLS] document [SEP] ...: nothing is padded or left out. If
several documents share a row, attention does not cross from one to another. A recurrent network reads on into the next
document. It starts each run with zero states, because runs are in random order. In the papers of ULMFiT, ELMo and
Flair, runs follow each other and states are carried over.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.products import product
from ptmbench.models.objective import Batches, Objective, sampled
from ptmbench.models.objectives import _absent
from ptmbench.models.objectives.sampling import TokenRuns, stream
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` int32 [B, T], and ``documents`` int32 [B, T], the number of
    each token's document in its row."""
    runs = TokenRuns(stream(corpus, vocabulary), length)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        tokens = runs(step, batch, seed)
        return {"tokens": tokens, "documents": np.cumsum(tokens == vocabulary.cls, axis=1, dtype=np.int32)}

    return make


class CausalLm(Objective, keras.layers.Layer):
    """The ``loss`` of a decoder with tied embeddings, and its methods for likelihoods, blanks and generation.

    ``encoder`` has ``hidden(tokens, seed, gaps, documents)`` (see `models.layers.transformers.CausalTransformer`) and
    ``token_embedding`` [V, D]. The ids ``absent`` have no probability (see `models.objectives._absent`), and are not
    predicted where they occur in a text.
    """

    def __init__(self, encoder: keras.layers.Layer, absent: tuple[int, ...] = (), name: str = "loss"):
        super().__init__(name=name)
        self.encoder, self.absent = encoder, absent
        self.built = True

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        predicted = _absent.are_targets(tf.convert_to_tensor(batch["tokens"])[:, 1:], self.absent)
        return {"tokens": tf.math.count_nonzero(predicted, dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        total = tf.cast(tf.maximum(totals["tokens"], 1), tf.float32)
        return {"loss": tf.reduce_sum(self._nll(batch["tokens"], seed, batch.get("documents"))) / total}

    def log_likelihood(self, batch: dict[str, Any]) -> tf.Tensor:
        """ln p(token t | tokens before t), float [B, T]; 0 at t = 0, at padding and at absent ids."""
        nll = self._nll(tf.convert_to_tensor(batch["tokens"], tf.int32), None)
        return tf.pad(-nll, [[0, 0], [1, 0]])

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], from the tokens before; all equal at
        place 0."""
        tokens, places = (tf.convert_to_tensor(batch[name], tf.int32) for name in ("tokens", "places"))
        rows, length = tf.shape(tokens)[0], tf.shape(tokens)[1]
        before = tf.range(rows) * length + tf.maximum(places - 1, 0)
        logits = self._output(tf.gather(self.encoder.hidden(tokens)[-1], before))
        return _absent.mask_logits(logits * tf.cast(places > 0, tf.float32)[:, None], self.absent)

    def decode(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Next-token logits [B, S, V] for ``targets`` [B, S] as the continuation of ``tokens`` [B, T].

        The padding between the two is masked and takes up no position, so a row's result does not depend on the length
        of the others.
        """
        tokens = tf.convert_to_tensor(batch["tokens"], tf.int32)
        targets = tf.convert_to_tensor(batch["targets"], tf.int32)
        x = self.encoder.hidden(tf.concat([tokens, targets], axis=1), seed, gaps=True)[-1]  # [B * (T + S), D]
        rows, length, width = tf.shape(targets)[0], tf.shape(targets)[1], x.shape[-1]
        x = tf.reshape(x, [rows, -1, width])[:, tf.shape(tokens)[1] :]  # [B, S, D]
        logits = self._logits(tf.reshape(x, [-1, width]))
        return tf.reshape(logits, [rows, length, logits.shape[-1]])

    def begin(self, tokens: Any) -> tuple[Any, Any]:
        """Reads ``tokens`` [B, T] (see `models.pretrainable.Writer`)."""
        return self.encoder.begin(tf.convert_to_tensor(tokens, tf.int32))

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Returns logits [B, K, V] after ``written`` [B, K, S], and the past for the next step."""
        x, past = self.encoder.step(memory, past, written, seen)
        logits = self._logits(x)  # [B * K, V]
        return tf.reshape(logits, [tf.shape(written)[0], tf.shape(written)[1], logits.shape[-1]]), past

    def _logits(self, x: tf.Tensor) -> tf.Tensor:
        """[N, D] to [N, V]."""
        return _absent.mask_logits(self._output(x), self.absent)

    def _output(self, x: tf.Tensor) -> tf.Tensor:
        """The output layer alone: [N, D] to [N, V]."""
        return tf.cast(product(x, self.encoder.token_embedding, transposed=True), tf.float32)

    def _nll(self, tokens: tf.Tensor, seed: Any, documents: tf.Tensor | None = None) -> tf.Tensor:
        """-ln p of tokens 1 ... T - 1, [B, T - 1], 0 at padding and absent ids; each given the tokens before it in its
        own document."""
        rows, length = tf.shape(tokens)[0], tf.shape(tokens)[1]
        x = self.encoder.hidden(tokens, seed, documents=documents)[-1]  # [B * T, D]
        x = tf.reshape(tf.reshape(x, [rows, length, -1])[:, :-1], [-1, x.shape[-1]])  # [B * (T - 1), D]
        following = tokens[:, 1:]
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(following, [-1]), self._logits(x))
        return tf.where(_absent.are_targets(following, self.absent), tf.reshape(nll, [rows, length - 1]), 0.0)
