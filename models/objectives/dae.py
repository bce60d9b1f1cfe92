"""Denoising autoencoder (DAE): damage a text and write the original. Lewis et al. (2020), section 2.2; survey, section
3.1.4.

    L_DAE = - 1/S sum_s ln p(x_s | x_{<s}, damaged x)

Five noises, each a function by itself: token masking, token deletion, text infilling, sentence permutation and
document rotation. BART permutes all sentences and then hides 30 % of the tokens by infilling.

How many tokens are hidden, and in how many spans, is fixed for each row, so that a damaged row has one length and
needs no padding. For infilling that changes little: independent Poisson lengths, given their sum, are multinomial.

What fits into a blank is what the decoder writes there: p(x_s | x_{<s}, x with [MASK] in the place of the blank).
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives import _absent
from ptmbench.models.objectives._rows import framed, widened
from ptmbench.models.objectives.sampling import Sentences, generator
from ptmbench.models.objectives.seq2seq_mlm import Seq2SeqLm, spanned
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

NOISES = ("permutation", "rotation", "infilling", "masking", "deletion")
"""In the order in which they are applied: what moves text before what hides it."""
BART = ("permutation", "infilling")
HIDDEN, RATE, SPAN = 0.3, 0.15, 3.0
"""The share of tokens that infilling hides (section 5.1), that masking and deletion take (BERT's: the paper gives
none), and the mean length of a span."""


def permute_sentences(
    text: np.ndarray, sentences: np.ndarray, documents: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """``text`` [B, L] with the sentences of each document in random order.

    ``sentences`` and ``documents`` [B, L] number the sentence and the document of each token.
    """
    numbers = sentences - sentences[:, :1]
    key = np.take_along_axis(rng.random(text.shape), numbers, axis=1) + (documents - documents[:, :1])
    return np.take_along_axis(text, np.argsort(key, axis=1, kind="stable"), axis=1)


def rotate(text: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """``text`` [B, L], each row turned so that it begins with a random one of its tokens."""
    rows, length = text.shape
    return np.take_along_axis(text, (rng.integers(0, length, (rows, 1)) + np.arange(length)) % length, axis=1)


def infill(text: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary) -> np.ndarray:
    """``text`` [B, L] with spans of tokens replaced by one [MASK] each: [B, L - hidden + spans].

    The lengths of the spans are Poisson given their sum. A span may be empty: then [MASK] stands where nothing is
    missing. Every way to lay the spans between the kept tokens is equally likely, so two can stand side by side.
    """
    rows, length = text.shape
    hidden, spans = plan(length)
    kept = length - hidden
    sizes = rng.multinomial(hidden, np.full(spans, 1 / spans), rows)  # [B, spans]
    places = np.sort(np.argsort(rng.random((rows, kept + spans)), axis=1)[:, :spans], axis=1)
    is_mask = np.zeros((rows, kept + spans), bool)
    np.put_along_axis(is_mask, places, True, axis=1)
    jumps = np.zeros((rows, kept + spans), np.int64)  # a kept token moves on by one, a span by its length
    np.put_along_axis(jumps, places, sizes - 1, axis=1)
    before = np.arange(kept + spans) + np.cumsum(jumps, axis=1)  # where a kept token stands in the text
    found = np.take_along_axis(text, np.clip(before, 0, length - 1), axis=1)
    return np.where(is_mask, vocabulary.mask, found).astype(text.dtype)


def plan(length: int) -> tuple[int, int]:
    """(hidden tokens, spans) of infilling a text of ``length`` tokens."""
    hidden = max(1, round(HIDDEN * length))
    return hidden, max(1, round(hidden / SPAN))


def mask_tokens(text: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary) -> np.ndarray:
    """``text`` [B, L] with a random share `RATE` of tokens replaced by [MASK]."""
    return np.where(drawn(text, rng), vocabulary.mask, text).astype(text.dtype)


def delete_tokens(text: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """``text`` [B, L] without a random share `RATE` of its tokens: [B, L - deleted]."""
    return text[~drawn(text, rng)].reshape(len(text), -1)


def drawn(text: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """bool [B, L]: in each row a share `RATE` of the tokens, rounded, at least one, without replacement."""
    count = max(1, round(RATE * text.shape[1]))
    chosen = np.zeros(text.shape, bool)
    np.put_along_axis(chosen, np.argsort(rng.random(text.shape), axis=1)[:, :count], True, axis=1)
    return chosen


def damaged_length(raw: int, noises: tuple[str, ...]) -> int:
    """Tokens that are left of a text of ``raw`` tokens."""
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
    """(step, seed) to ``tokens`` [B, T] and ``targets`` [B, S], both [CLS] text [SEP].

    As long a text is taken as damaged fits into T; the whole text is the target, of at most ``longest`` tokens. Rows
    begin with a sentence and run on over the ends of documents.
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
        tokens = widened(framed(damaged, vocabulary), length)
        return {"tokens": tokens, "targets": framed(text, vocabulary)}

    return make


class DenoisingLm(Seq2SeqLm):
    """``loss`` of an encoder-decoder that writes a damaged text anew, and so can be asked for what is hidden."""

    def __init__(self, encoder: keras.layers.Layer, decoder: keras.layers.Layer, vocabulary: Vocabulary):
        super().__init__(encoder, decoder, vocabulary.absent)
        self.mask = vocabulary.mask

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], whatever stands there, from 1 on: the
        decoder has written what stands before. One [MASK] hides the place and all [MASK]s that follow it without a
        gap, as text infilling has it."""
        written, places = tf.convert_to_tensor(batch["tokens"], tf.int32), tf.convert_to_tensor(batch["places"])
        tokens = spanned(written, places, self.mask, self.mask)
        memory = self.encoder({"tokens": tokens}).tokens  # [B, T, D]
        logits = self.decoder.after(places - 1, written, memory, tokens)
        return tf.cast(_absent.masked(logits, self.absent), tf.float32)
