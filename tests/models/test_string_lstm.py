"""Tests of Flair against its equations in NumPy, word by word over the characters of a text."""

from functools import cache

import keras
import numpy as np
import pytest

from ptmbench.models.architectures.recurrent_encoders import flair
from ptmbench.models.card import Size
from ptmbench.models.layers import spelling
from ptmbench.models.layers.recurrent_networks import Strings, built, running_maximum
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from tests.models.test_recurrent import kernels

TEXT = ["the sky is blue, and the sea is not.", "Zoë sees a ▁ and the sea", "a tree is an idea"] * 4
SENTENCES = [["the", "sea", ",", "Zoë", "q"], ["a", "tree"]]  # no text has a q: it is unknown


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.train("character", TEXT, 80)


@cache
def build_encoder(layers: int = 1) -> Strings:
    keras.utils.set_random_seed(1)
    return built(flair(Size(layers=layers, width=8, length=64), tokenizer().vocabulary), name="encoder")


def openings(vocabulary):
    return spelling.openings(vocabulary.pieces or (), vocabulary.size, vocabulary.first, vocabulary.unk)


def rows() -> tuple[np.ndarray, list[list[tuple[int, int, int]]]]:
    """Returns [CLS] characters [SEP] of `SENTENCES`, and for each word the positions of its "▁", its first and its last
    character."""
    outputs, words = np.zeros((2, 24), np.int32), []
    for row, sentence in zip(outputs, SENTENCES, strict=True):
        place, spans = 1, []
        for word, (ids,) in zip(sentence, (tokenizer().encode([w]) for w in sentence), strict=True):
            assert len(ids) == 1 + len(word)
            row[place : place + len(ids)] = ids
            spans.append((place, place + 1, place + len(word)))
            place += len(ids)
        row[0], row[place] = tokenizer().vocabulary.cls, tokenizer().vocabulary.sep
        words.append(spans)
    return outputs, words


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def states(ids, layers):
    """Returns the states [T, C] of every layer above the vectors of ``ids``, from left to right."""
    x, result = np.asarray(build_encoder(len(layers)).token_embedding, np.float64)[ids], []
    for layer in layers:
        w, b, u = (np.asarray(v, np.float64) for v in kernels(layer))
        h, c, out = np.zeros(len(u)), np.zeros(len(u)), []
        for x_t in x:
            g, i, f, o = np.split(x_t @ w + h @ u + b, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            out.append(h)
        x = np.array(out)
        result.append(x)
    return result


@pytest.mark.parametrize("length", [1, 2, 5, 8, 9])
def test_the_running_maximum_is_that_of_numpy_at_every_length(length):
    x = np.random.default_rng(length).integers(0, 40, (3, length)).astype(np.int32)
    np.testing.assert_array_equal(running_maximum(x, longest=9), np.maximum.accumulate(x, axis=1))


@pytest.mark.parametrize("layers", [1, 2])
def test_word_vector_is_the_states_at_the_ends_of_the_word(layers):
    encoder = build_encoder(layers)
    tokens, words = rows()
    encoding = encoder({"tokens": tokens})
    for row, spans in enumerate(words):
        ids = tokens[row][tokens[row] > 0]
        forward = states(ids, encoder.forward_stack)
        backward = [x[::-1] for x in states(ids[::-1], encoder.backward_stack)]
        for depth in range(layers):
            for mark, first, last in spans:
                expected = np.concatenate([forward[depth][last], backward[depth][first]])
                for place in range(mark, last + 1):
                    assert np.allclose(encoding.layers[depth + 1][row, place], expected, atol=1e-5)
            for place in (0, len(ids) - 1):  # [CLS] and [SEP] are words
                expected = np.concatenate([forward[depth][place], backward[depth][place]])
                assert np.allclose(encoding.layers[depth + 1][row, place], expected, atol=1e-5)
        table = np.asarray(encoder.token_embedding)[ids]
        assert np.allclose(encoding.layers[0][row, : len(ids)], np.concatenate([table, table], axis=1))
        assert np.allclose(encoding.pooled[row], np.asarray(encoding.tokens)[row, : len(ids)].max(axis=0))


def test_word_vector_depends_on_its_spelling_and_on_both_sides():
    """The text after a word affects only its backward half, the text before it only the forward half, and a character
    of the word both."""
    encoder, (tokens, words) = build_encoder(), rows()
    mark, first, last = words[0][1]
    e = tokenizer().encode(["e"])[0][1]
    before = np.asarray(encoder({"tokens": tokens}).tokens)[0, mark]
    for place, forward, backward in ((mark - 2, True, False), (first, True, True), (last + 3, False, True)):
        changed = tokens.copy()
        changed[0, place] = e if changed[0, place] != e else e + 1
        change = np.abs(np.asarray(encoder({"tokens": changed}).tokens)[0, mark] - before) > 1e-6
        assert change[:4].any() == forward and change[4:].any() == backward, place


def test_language_models_read_every_character():
    """Training uses the states themselves, not the vectors of words."""
    encoder, (tokens, _) = build_encoder(), rows()
    ids = tokens[1][tokens[1] > 0]
    forward, backward = (layers[-1] for layers in encoder.both(tokens))
    assert np.array_equal(encoder.forward(tokens)[-1], forward)
    assert np.allclose(np.asarray(forward)[: len(ids), 1], states(ids, encoder.forward_stack)[0], atol=1e-5)
    expected = states(ids[::-1], encoder.backward_stack)[0][::-1]
    assert np.allclose(np.asarray(backward)[: len(ids), 1], expected, atol=1e-5)


@pytest.mark.parametrize(("kind", "size"), [("character", 80), ("wordpiece", 90), ("unigram", 70), ("bpe", 310)])
def test_words_are_found_with_every_kind_of_tokenizer(kind, size):
    """A sentence without punctuation has as many words as its spaces separate, each with the tokens of the
    tokenizer."""
    trained = Tokenizer.train(kind, TEXT, size)
    opens, marks = openings(trained.vocabulary)
    ((ids, index),) = trained.encode_words([["the", "trees", "and", "seas"]])
    assert np.cumsum(opens[ids]).tolist() == [number + 1 for number in index]
    assert opens[[0, 2, 3, 4]].all() and opens[1] == (kind == "wordpiece")
    assert {trained.pieces([number])[0] for number in np.flatnonzero(marks)} <= {"▁", "Ġ"}
    assert marks.any() == (kind != "wordpiece")


def test_every_token_is_a_word_if_spellings_are_unknown():
    opens, marks = openings(Vocabulary(size=50))
    assert opens.all() and not marks.any()


def test_odd_width_raises_an_error():
    with pytest.raises(ValueError, match="even width"):
        flair(Size(layers=1, width=7), Vocabulary(size=50))
