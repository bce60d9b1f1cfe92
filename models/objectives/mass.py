"""Masked sequence to sequence (MASS): generate one hidden fragment. Song et al. (2019), section 3.2.

    L_MASS = - 1/k sum_{t = u ... v} ln p(x_t | x_u ... x_{t-1}, x with u ... v hidden),        k = v - u + 1

The fragment is half of the text. Encoder and decoder see opposite halves: the decoder is given only the tokens that are
hidden from the encoder, so it has to rely on the encoder rather than on its own past. A decoder position holds the
token before it, as in any language model, and the first one holds [MASK]. Positions are those of the whole text.

The fragment is at the beginning of the text in a fifth of the rows, at the end in a fifth, and anywhere in the others.
The paper gives no distribution of positions. This one is from the authors' code (microsoft/MASS, `shuffle_segments` for
unsupervised and, except for one position, `mask_start` for supervised translation), which produced the scores on the
card. In fine-tuning, texts are generated from their beginning to their end, which uniform fragments rarely contain.

The masked half of the decoder's input carries no information and is left out, as if it were never attended to.

A blank is filled with the first token of a fragment that begins there: p(x_u | x with [MASK] at u).
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives._rows import add_cls_and_sep
from ptmbench.models.objectives.sampling import TokenRuns, generator
from ptmbench.models.objectives.seq2seq_mlm import Seq2SeqLm
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

RATE, MASK, RANDOM = 0.5, 0.8, 0.1
"""The share of the text that is hidden (section 4.5: best near a half); of that, the shares that become [MASK] and a
random token (section 4.1)."""
EDGE = 0.2
"""The share of fragments that are put at the beginning, and at the end (the authors' code)."""


def hide(text: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Returns ``text`` [B, L] with a fragment of k tokens hidden, and where the fragment begins, int64 [B]: at 0 and at
    L - k with the probability `EDGE` each, otherwise anywhere from 0 to L - k."""
    rows, length = text.shape
    size = fragment(length)
    first, edge = rng.integers(0, length - size + 1, rows), rng.random(rows)
    first = np.select([edge < EDGE, edge < 2 * EDGE], [0, length - size], first)
    where = first[:, None] + np.arange(size)  # [B, k]
    draw = rng.random(where.shape)
    other = rng.integers(vocabulary.first, vocabulary.size, where.shape)
    kept = np.take_along_axis(text, where, axis=1)
    shown = np.where(draw < MASK, vocabulary.mask, np.where(draw < MASK + RANDOM, other, kept))
    hidden = text.copy()
    np.put_along_axis(hidden, where, shown.astype(text.dtype), axis=1)
    return hidden, first


def fragment(length: int) -> int:
    """k, for a text of ``length`` tokens."""
    return max(1, round(RATE * length))


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` [B, T]: [CLS] text [SEP] with the fragment hidden; ``targets``
    [B, k + 1]: [MASK] and the fragment; ``first`` int32 [B]: the position of the fragment in ``tokens``."""
    runs = TokenRuns(corpus.ids, length - 2)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        text = runs(step, batch, seed)
        hidden, first = hide(text, generator(seed, step), vocabulary)
        where = first[:, None] + np.arange(fragment(length - 2))
        targets = np.pad(np.take_along_axis(text, where, axis=1), [(0, 0), (1, 0)], constant_values=vocabulary.mask)
        return {
            "tokens": add_cls_and_sep(hidden, vocabulary),
            "targets": targets,
            "first": (first + 1).astype(np.int32),
        }

    return make


class FragmentLm(Seq2SeqLm):
    """The ``loss`` of an encoder-decoder whose decoder takes the position of its first token.

    In `decode`, the target is a separate text and begins at position 0.
    """

    def __init__(self, encoder: keras.layers.Layer, decoder: keras.layers.Layer, mask: int):
        super().__init__(encoder, decoder)
        self.mask = mask

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], which hold [MASK], as do the other
        tokens of the same fragment after them."""
        tokens, places = (tf.convert_to_tensor(batch[name], tf.int32) for name in ("tokens", "places"))
        first = tf.fill([tf.shape(tokens)[0], 1], self.mask)
        logits = self.decoder(first, self.encoder({"tokens": tokens}).tokens, tokens, first=places)
        return tf.cast(logits[:, 0], tf.float32)

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        tokens, targets = tf.convert_to_tensor(batch["tokens"], tf.int32), batch["targets"]
        memory = self.encoder({"tokens": tokens}, seed=seed).tokens  # [B, T, D]
        logits = self.decoder(targets[:, :-1], memory, tokens, seed=seed, first=batch["first"])  # [B, k, V]
        following = targets[:, 1:]  # [B, k]
        present = tf.cast(tf.not_equal(following, 0), tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(following, tf.cast(logits, tf.float32))
        return {"loss": tf.reduce_sum(nll * present) / tf.cast(tf.maximum(totals["targets"], 1), tf.float32)}
