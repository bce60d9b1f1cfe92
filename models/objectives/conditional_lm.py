"""Conditional language modelling: LM with a control code in front that names the source of the text. Keskar et al.
(2019), section 3.

    L = - 1/T sum_t ln p(x_t | c, x_0 ... x_{t-1})

The paper's codes name the source (Wikipedia, Books, Reviews). A corpus here does not record the source of a document,
but its files follow each other. It is cut into `CODES` stretches with equal numbers of documents, and each stretch
counts as a source. The codes are the first free special tokens. Each row is the code of its first document and a run of
text as in `models.objectives.lm`. Attention crosses document boundaries, since all documents of a row have to see the
code.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.products import product
from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives.lm import CausalLm
from ptmbench.models.objectives.sampling import TokenRuns, stream, take
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

CODES = 8


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` int32 [B, T], with a code in the first column."""
    text = stream(corpus, vocabulary)
    runs, documents = TokenRuns(text, length - 1), len(corpus.documents) - 1
    codes = np.asarray(vocabulary.sentinels[:CODES], np.int32)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        starts = runs.starts(step, batch, seed)
        first = corpus.openings.searchsorted(starts % len(text), side="right") - 1  # [B] documents
        rows = take(text, starts[:, None] + np.arange(length - 1))
        return {"tokens": np.concatenate([codes[first * CODES // documents][:, None], rows], axis=1)}

    return make


class ConditionalLm(CausalLm):
    """The ``loss`` of a decoder whose output layer is the embedding and a bias."""

    def __init__(self, encoder: keras.layers.Layer, absent: tuple[int, ...] = (), name: str = "loss"):
        super().__init__(encoder, absent, name=name)
        self.output_bias = self.add_weight((encoder.token_embedding.shape[0],), "zeros", name="output_bias")

    def _output(self, x: tf.Tensor) -> Any:
        """[N, D] to [N, V]."""
        logits = tf.nn.bias_add(product(x, self.encoder.token_embedding, transposed=True), self.output_bias)
        return tf.cast(logits, tf.float32)
