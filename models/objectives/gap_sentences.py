"""Gap sentences generation (GSG): generate the most important sentences of a document. Zhang, Zhao et al. (2020),
section 3.1.

    L_GSG = - 1/S sum_s ln p(y_s | y_{<s}, x with gap sentences hidden)

30 % of a document's sentences are replaced by one mask each, and the target is their concatenation. If they are the
sentences that say most about the rest, this resembles a summary. The score of a sentence is its ROUGE-1 F1 against the
rest of its document. Each sentence is scored independently, and repeated words count as often as they match
("Ind-Orig", the best variant in the paper). [MASK] stands for the paper's [MASK1]; masking of single words was dropped
from the large model (section 6.1.2).

Inputs are full: one and a half times the input length is read, and the text that follows replaces the hidden sentences.
Only sentences that begin in the first two thirds can become gaps, so every mask is inside the input.

The probability of a single sentence is that of the gap in a text that has only this gap: p(y_s | y_{<s}, [MASK]).
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives import _absent
from ptmbench.models.objectives._rows import add_cls_and_sep, pack_left
from ptmbench.models.objectives.sampling import Sentences
from ptmbench.models.objectives.seq2seq_mlm import Seq2SeqLm
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

RATIO = 0.3


def rouge_1(text: np.ndarray, pieces: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """ROUGE-1 F1 of each sentence against the rest of its document, float [B, P], 0 if there is no sentence.

    ``text`` [B, L] are ids; ``pieces`` and ``documents`` [B, L] are numbers of sentences and documents, both from 0 in
    each row. A sentence of n tokens that shares c tokens with the other N - n has precision c / n and recall
    c / (N - n), so F1 is 2 c / N.
    """
    rows, count, words = len(text), int(pieces.max()) + 1, int(text.max()) + 1
    row = np.arange(rows)[:, None] * count
    inside, whole = row + pieces, row + documents
    owner = np.zeros(rows * count, np.int64)  # the document of each sentence
    owner[inside] = whole
    found, times = np.unique(inside * words + text, return_counts=True)  # each word of each sentence once
    in_document, all_times = np.unique(whole * words + text, return_counts=True)
    sentence, word = np.divmod(found, words)
    elsewhere = all_times[np.searchsorted(in_document, owner[sentence] * words + word)] - times
    common = np.bincount(sentence, np.minimum(times, elsewhere), rows * count)
    size = np.bincount(whole.ravel(), minlength=rows * count)
    return (2 * common / np.maximum(size[owner], 1)).reshape(rows, count)


def cut(sentences: np.ndarray, longest: int) -> np.ndarray:
    """Numbers sentences [B, L] from 0 in each row. A sentence of more than ``longest`` tokens is split into several."""
    length = sentences.shape[1]
    opens = np.diff(sentences, axis=1, prepend=sentences[:, :1] - 1) != 0
    begin = np.maximum.accumulate(np.where(opens, np.arange(length), 0), axis=1)
    return np.cumsum((np.arange(length) - begin) % longest == 0, axis=1) - 1


def principal(text: np.ndarray, pieces: np.ndarray, documents: np.ndarray, room: int, longest: int) -> np.ndarray:
    """Selects the sentences that become gaps: bool [B, P].

    The number of gaps of a document with more than one sentence is `RATIO` of its sentences, at least one. The best
    ones that begin before ``room`` are taken. If a row has no such document, the whole row counts as one document. Gaps
    are dropped, the worst first, until the others fit into ``longest`` tokens.
    """
    rows, count = len(text), int(pieces.max()) + 1
    row = np.arange(rows)[:, None]
    size, begin, owner = np.zeros((3, rows, count), np.int64)
    np.add.at(size, (row, pieces), 1)
    opens = np.nonzero(np.diff(pieces, axis=1, prepend=-1))
    begin[opens[0], pieces[opens]] = opens[1]
    owner[opens[0], pieces[opens]] = documents[opens]
    able = (size > 0) & (begin < room)
    siblings = ((owner[:, :, None] == owner[:, None]) & (size > 0)[:, None]).sum(axis=2)  # [B, P]
    lone = ~((siblings > 1) & able).any(axis=1)
    owner[lone], siblings[lone] = 0, (size[lone] > 0).sum(axis=1, keepdims=True)
    score = np.where(able, rouge_1(text, pieces, np.where(lone[:, None], 0, documents)), -1.0)
    order = np.argsort(-score, axis=1, kind="stable")  # the best first; ties go to the earlier sentence
    score, owner, siblings, size = (np.take_along_axis(a, order, axis=1) for a in (score, owner, siblings, size))
    same = owner[:, :, None] == owner[:, None]
    rank = np.tril(np.ones((count, count), bool), -1) & same & (score >= 0)[:, None]
    quota = np.where(siblings > 1, np.maximum(np.rint(RATIO * siblings), 1), 0)
    chosen = (score >= 0) & (rank.sum(axis=2) < quota)
    chosen &= np.cumsum(size * chosen, axis=1) <= longest
    gaps = np.zeros_like(chosen)
    np.put_along_axis(gaps, order, chosen, axis=1)
    return gaps


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` [B, T]: [CLS] text with gaps [SEP], and ``targets``
    [B, (T - 2) / 2 + 2]: [CLS] gap sentences [SEP], padded.

    The authors' inputs of 512 tokens also have targets of half that length. Only the choice of text is random. Raises
    `ValueError` if ``length`` is less than 10.
    """
    room = length - 2
    longest = room // 2
    if longest < 4:
        raise ValueError(f"Inputs of {length} tokens are too short for gap sentences: use at least 10.")
    texts = Sentences(corpus, room + longest)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        text, sentences, documents = texts(step, batch, seed)
        pieces, documents = cut(sentences, longest), documents - documents[:, :1]
        gaps = np.take_along_axis(principal(text, pieces, documents, room, longest), pieces, axis=1)  # [B, L]
        opens = gaps & (np.diff(pieces, axis=1, prepend=-1) != 0)
        source = pack_left(np.where(opens, vocabulary.mask, text), ~gaps | opens, room)
        return {
            "tokens": add_cls_and_sep(source, vocabulary),
            "targets": add_cls_and_sep(pack_left(text, gaps, longest), vocabulary),
        }

    return make


class GapSentencesLm(Seq2SeqLm):
    """The ``loss`` of an encoder-decoder that generates gap sentences, and can therefore score a single sentence."""

    def __init__(self, encoder: keras.layers.Layer, decoder: keras.layers.Layer, vocabulary: Vocabulary):
        super().__init__(encoder, decoder, vocabulary.absent)
        self.gap = vocabulary.template.lay([[vocabulary.mask]])[0]

    def gap_likelihood(self, batch: dict[str, Any]) -> tf.Tensor:
        """ln p(token t | tokens before t, a gap) of ``tokens`` [B, T] that begin with [CLS], float [B, T]; 0 at t = 0
        and at padding."""
        tokens = tf.convert_to_tensor(batch["tokens"], tf.int32)
        source = tf.tile(tf.constant([self.gap]), [tf.shape(tokens)[0], 1])
        logits = tf.cast(self.decode({"tokens": source, "targets": tokens[:, :-1]}), tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(tokens[:, 1:], logits)
        return tf.pad(tf.where(_absent.are_targets(tokens[:, 1:], self.absent), -nll, 0.0), [[0, 0], [1, 0]])
