"""Tests of conditional language modelling: which control code precedes which text, and the loss by hand."""

from types import SimpleNamespace

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.objectives import conditional_lm
from ptmbench.models.objectives.conditional_lm import CODES
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=5000)
DOCUMENTS, SIZE = 40, 50


def corpus() -> Corpus:
    """40 documents of one sentence of 50 tokens each. An id tells the position of its token."""
    total = DOCUMENTS * SIZE
    ends = np.arange(0, total + 1, SIZE)
    ids = np.arange(VOCABULARY.first, VOCABULARY.first + total, dtype=np.int32)
    return Corpus(ids=ids, sentences=ends, documents=np.arange(DOCUMENTS + 1), heads=np.ones(total, bool))


def test_control_code_names_the_part_of_the_corpus_of_the_first_document():
    make, codes = conditional_lm.batches(corpus(), VOCABULARY, 8, 17), set()
    for step in range(30):  # beyond the end of an epoch
        tokens = make(step, 1)["tokens"]
        assert tokens.shape == (8, 17) and tokens.dtype == np.int32
        for row in tokens:
            text = np.flatnonzero(row[1:] >= VOCABULARY.first)
            # A row that begins with [SEP] belongs to the document that ends there.
            place = row[1:][text[0]] - VOCABULARY.first - (row[1] == VOCABULARY.sep)
            assert row[0] == VOCABULARY.sentinels[place // SIZE * CODES // DOCUMENTS]
            assert not set(row[1:].tolist()) & set(VOCABULARY.sentinels)
            codes.add(int(row[0]))
    assert codes == set(VOCABULARY.sentinels[:CODES])
    assert np.array_equal(make(3, 1)["tokens"], conditional_lm.batches(corpus(), VOCABULARY, 8, 17)(3, 1)["tokens"])
    assert not np.array_equal(make(3, 1)["tokens"], make(3, 2)["tokens"])


def test_loss_by_hand():
    """Width 2 and 3 words besides padding. The vector of each token predicts the next token."""
    table = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], np.float32)
    bias = np.array([0.0, 0.5, -0.5, 1.0], np.float32)
    encoder = keras.layers.Layer(name="encoder")
    encoder.token_embedding = encoder.add_weight((4, 2), "zeros", name="tokens")
    encoder.token_embedding.assign(table)
    seen = SimpleNamespace(documents="never asked")

    def hidden(tokens, seed=None, gaps=False, documents=None):
        seen.documents = documents
        return [tf.reshape(tf.gather(table, tokens), [-1, 2])]

    encoder.hidden = hidden
    loss = conditional_lm.ConditionalLm(encoder)
    loss.output_bias.assign(bias)
    tokens = np.array([[3, 1, 2], [1, 2, 0]], np.int32)
    nll = []
    for now, after in ((3, 1), (1, 2), (1, 2)):  # the pair that ends in padding does not count
        scores = table @ table[now] + bias
        nll.append(np.log(np.exp(scores).sum()) - scores[after])
    assert np.isclose(float(loss({"tokens": tokens})["loss"]), np.mean(nll), atol=1e-6)
    assert seen.documents is None  # every token attends to the code
    halves = [float(loss({"tokens": row[None]}, totals={"tokens": tf.constant(3)})["loss"]) for row in tokens]
    assert np.isclose(sum(halves), np.mean(nll), atol=1e-6)
