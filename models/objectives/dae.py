"""Denoising autoencoder (DAE): reconstruct a text from a corrupted version of it. Lewis et al. (2020), section 2.2;
survey, section 3.1.4.

    L_DAE = - 1/S sum_s ln p(x_s | x_{<s}, damaged x)

There are five noises, one function each: token masking, token deletion, text infilling, sentence permutation and
document rotation. BART permutes all sentences and then hides 30 % of the tokens by infilling.

The numbers of hidden tokens and of spans depend on the length of the text only. So all damaged rows have the same
length and need no padding. This changes little for infilling: independent Poisson lengths, given their sum, are
multinomial.

A blank is filled with the token that the decoder predicts there: p(x_s | x_{<s}, x with [MASK] in place of the blank).
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives import _absent
from ptmbench.models.objectives._rows import add_cls_and_sep, pad_to_width
from ptmbench.models.objectives.sampling import Sentences, generator
from ptmbench.models.objectives.seq2seq_mlm import Seq2SeqLm, collapse_masks
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

NOISES = ("permutation", "rotation", "infilling", "masking", "deletion")
"""In the order of application: noises that move text come before those that hide it."""
BART = ("permutation", "infilling")
HIDDEN, RATE, SPAN = 0.3, 0.15, 3.0
"""The share of tokens hidden by infilling (section 5.1), the share hidden by masking or deletion (BERT's, since the
paper gives none), and the mean length of a span."""


def permute_sentences(
    text: np.ndarray, sentences: np.ndarray, documents: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Returns ``text`` [B, L] with the sentences of each document in random order.

    ``sentences`` and ``documents`` [B, L] are the numbers of the sentence and the document of each token.
    """
    numbers = sentences - sentences[:, :1]
    key = np.take_along_axis(rng.random(text.shape), numbers, axis=1) + (documents - documents[:, :1])
    return np.take_along_axis(text, np.argsort(key, axis=1, kind="stable"), axis=1)


def rotate(text: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns ``text`` [B, L] with each row rotated, so that it begins with a random one of its tokens."""
    rows, length = text.shape
    return np.take_along_axis(text, (rng.integers(0, length, (rows, 1)) + np.arange(length)) % length, axis=1)


def infill(text: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary) -> np.ndarray:
    """Returns ``text`` [B, L] with each hidden span replaced by one [MASK]: [B, L - hidden + spans].

    The lengths of the spans are Poisson given their sum. A span may be empty; its [MASK] is then inserted. All
    arrangements of spans and kept tokens are equally likely, so two spans can be adjacent.
    """
    rows, length = text.shape
    hidden, spans = plan(length)
    kept = length - hidden
    sizes = rng.multinomial(hidden, np.full(spans, 1 / spans), rows)  # [B, spans]
    places = np.sort(np.argsort(rng.random((rows, kept + spans)), axis=1)[:, :spans], axis=1)
    is_mask = np.zeros((rows, kept + spans), bool)
    np.put_along_axis(is_mask, places, True, axis=1)
    jumps = np.zeros((rows, kept + spans), np.int64)  # steps in the text: 1 for a kept token, its length for a span
    np.put_along_axis(jumps, places, sizes - 1, axis=1)
    before = np.arange(kept + spans) + np.cumsum(jumps, axis=1)  # position in the text of a kept token
    found = np.take_along_axis(text, np.clip(before, 0, length - 1), axis=1)
    return np.where(is_mask, vocabulary.mask, found).astype(text.dtype)


def plan(length: int) -> tuple[int, int]:
    """Returns (hidden tokens, spans) for infilling a text of ``length`` tokens."""
    hidden = max(1, round(HIDDEN * length))
    return hidden, max(1, round(hidden / SPAN))


def mask_tokens(text: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary) -> np.ndarray:
    """Returns ``text`` [B, L] with a random share `RATE` of its tokens replaced by [MASK]."""
    return np.where(draw_tokens(text, rng), vocabulary.mask, text).astype(text.dtype)


def delete_tokens(text: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns ``text`` [B, L] without a random share `RATE` of its tokens: [B, L - deleted]."""
    return text[~draw_tokens(text, rng)].reshape(len(text), -1)


def draw_tokens(text: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws a share `RATE` of the tokens of each row without replacement: bool [B, L]. The count is rounded and at
    least one."""
    count = max(1, round(RATE * text.shape[1]))
    chosen = np.zeros(text.shape, bool)
    np.put_along_axis(chosen, np.argsort(rng.random(text.shape), axis=1)[:, :count], True, axis=1)
    return chosen


def damaged_length(raw: int, noises: tuple[str, ...]) -> int:
    """Returns the number of tokens after the ``noises`` are applied to a text of ``raw`` tokens."""
    if "infilling" in noises:
        hidden, spans = plan(raw)
        raw += spans - hidden
    return raw - max(1, round(RATE * raw)) if "deletion" in noises else raw


@sampled()
def batches(
    corpus: Corpus,
    vocabulary: Vocabulary,
    batch: int,
    length: int,
    *,
    longest: int,
    noises: tuple[str, ...] = BART,
) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` [B, T] and ``targets`` [B, S], both [CLS] text [SEP].

    The text is the longest whose damaged version fits into T and whose target has at most ``longest`` tokens. The
    target is the whole text. Rows begin with a sentence and continue across document boundaries. Raises `ValueError`
    for unknown ``noises`` and for a ``length`` that is too short.
    """
    unknown = sorted(set(noises) - set(NOISES))
    if unknown:
        raise ValueError(f"There is no noise {', '.join(unknown)}: choose from {', '.join(NOISES)}.")
    fitting = [raw for raw in range(2, longest - 1) if damaged_length(raw, noises) + 2 <= length]
    if not fitting:
        raise ValueError(f"Inputs of {length} tokens are too short to be damaged: use at least 8.")
    raw = fitting[-1]
    texts = Sentences(corpus, raw)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        text, sentences, documents = texts(step, batch, seed)
        rng, damaged = generator(seed, step), text
        if "permutation" in noises:
            damaged = permute_sentences(damaged, sentences, documents, rng)
        if "rotation" in noises:
            damaged = rotate(damaged, rng)
        if "infilling" in noises:
            damaged = infill(damaged, rng, vocabulary)
        if "masking" in noises:
            damaged = mask_tokens(damaged, rng, vocabulary)
        if "deletion" in noises:
            damaged = delete_tokens(damaged, rng)
        tokens = pad_to_width(add_cls_and_sep(damaged, vocabulary), length)
        return {"tokens": tokens, "targets": add_cls_and_sep(text, vocabulary)}

    return make


class DenoisingLm(Seq2SeqLm):
    """The ``loss`` of an encoder-decoder that reconstructs a damaged text, and can therefore fill blanks."""

    def __init__(self, encoder: keras.layers.Layer, decoder: keras.layers.Layer, vocabulary: Vocabulary):
        super().__init__(encoder, decoder, vocabulary.absent)
        self.mask = vocabulary.mask

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], whatever token is there. Places are at
        least 1. The decoder is given the tokens before the place. One [MASK] replaces the place and the [MASK]s
        directly after it, as in text infilling."""
        written, places = tf.convert_to_tensor(batch["tokens"], tf.int32), tf.convert_to_tensor(batch["places"])
        tokens = collapse_masks(written, places, self.mask, self.mask)
        memory = self.encoder({"tokens": tokens}).tokens  # [B, T, D]
        logits = self.decoder.after(places - 1, written, memory, tokens)
        return tf.cast(_absent.mask_logits(logits, self.absent), tf.float32)
