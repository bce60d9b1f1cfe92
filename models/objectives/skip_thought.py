"""Skip-thought: generate the previous and the next sentence, given the vector of a sentence. Kiros et al. (2015),
section 2.1.

    L = - mean over words of  ln p(w_{i+1}^t | w_{i+1}^{<t}, h_i)  and  ln p(w_{i-1}^t | w_{i-1}^{<t}, h_i)

The two decoders have separate weights; word vectors and output layer are shared. h_i is the last state of the encoder
over sentence i. The paper takes triples of sentences. Here a row is running text, whose states are reset at each
sentence. Every sentence of the row is both read and generated: from the previous and from the next sentence in its
document, if they are in the row. So rows have no padding, and a sentence is read once for both of its neighbours. The
last sentence of a row is cut at its end. Each sentence is generated from [CLS] on; its end is not predicted.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import Layer, made_from
from ptmbench.models.layers.recurrent_networks import over_rows
from ptmbench.models.layers.vector_heads import SkipThoughtConfig
from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives._loss import Loss
from ptmbench.models.objectives.sampling import Sentences
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens``; ``inputs``, the token before each token in its sentence,
    [CLS] at the first; and ``before`` and ``after``, the positions in the row at which the previous and the next
    sentence end, -1 if there is none in the row and the document. All are int32 [B, T]."""
    texts = Sentences(corpus, length)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        tokens, sentence, document = texts(step, batch, seed)
        inputs = np.roll(tokens, 1, axis=1)
        first = np.ones_like(tokens, bool)
        first[:, 1:] = sentence[:, 1:] != sentence[:, :-1]
        inputs[first] = vocabulary.cls
        before, after = np.full((2, batch, length), -1, np.int32)
        for row in range(batch):
            starts = np.flatnonzero(first[row])
            own = np.cumsum(first[row]) - 1  # the number of each token's sentence in the row
            ends = np.append(starts[1:], length) - 1
            texts_of = document[row, starts]
            joined = texts_of[1:] == texts_of[:-1]  # with the next sentence
            before[row] = np.append(-1, np.where(joined, ends[:-1], -1))[own]
            after[row] = np.append(np.where(joined, ends[1:], -1), -1)[own]
        return {"tokens": tokens, "inputs": inputs, "before": before, "after": after}

    return make


@made_from(SkipThoughtConfig)
class SkipThought(Loss):
    """The ``loss`` of a `models.layers.recurrent_networks.SentenceGru`. It owns the two decoders and the output
    layer."""

    @property
    def decoders(self) -> dict[str, Layer]:
        """The decoder that is given the previous sentence of its target, and the one that is given the next."""
        return {"before": self.from_before, "after": self.from_after}

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        counts = [
            tf.math.count_nonzero(tf.convert_to_tensor(batch[side]) >= 0, dtype=tf.int32) for side in self.decoders
        ]
        return {"words": counts[0] + counts[1]}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        batch = {name: tf.convert_to_tensor(value) for name, value in batch.items()}
        fresh = batch["inputs"] == self.config.cls
        always = tf.ones_like(fresh)
        _, states = self.encoder.states(batch["tokens"], fresh, seed)  # [B, T, D]
        inputs, total = self.encoder.embed(batch["inputs"], seed, 1), 0.0
        for side, decoder in self.decoders.items():
            there = batch[side] >= 0
            vectors = tf.gather(states, tf.maximum(batch[side], 0), batch_dims=1)  # [B, T, D]
            written = over_rows(decoder, inputs, fresh, always, vectors)
            logits = self.logits(tf.reshape(written, [-1, self.encoder.width]))  # [B * T, V]
            nll = tf.nn.sparse_softmax_cross_entropy_with_logits(
                tf.reshape(batch["tokens"], [-1]), tf.cast(logits, tf.float32)
            )
            total += tf.reduce_sum(nll * tf.cast(tf.reshape(there, [-1]), tf.float32))
        return {"loss": total / tf.cast(tf.maximum(totals["words"], 1), tf.float32)}
