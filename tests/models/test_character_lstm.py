"""Tests of ELMo with vectors from letters, against its equations in NumPy."""

from functools import cache

import keras
import numpy as np
import pytest

from ptmbench.models.architectures import recurrent_encoders
from ptmbench.models.card import Size
from ptmbench.models.layers import spelling
from ptmbench.models.layers.recurrent_config import LstmConfig
from ptmbench.models.layers.recurrent_networks import built
from ptmbench.models.layers.vector_heads import SpelledBiLmConfig
from ptmbench.models.objectives.bilm import SpelledBiLm
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from tests.models.test_recurrent import kernels

SIZE = Size(layers=2, width=8, inner=5, length=30)
FILTERS = ((1, 2), (2, 3), (7, 4))
WORDS = ("the", "a", "Zoë", "unbelievable", "x" * 60, "y" * 48)
PIECES = (*(f"[{number}]" for number in range(37)), *WORDS, "##ing")
VOCABULARY = Vocabulary(size=len(PIECES), pieces=PIECES)
TOKENS = np.array([[2, 37, 39, 40, 43, 3], [2, 41, 3, 0, 0, 0]], np.int32)
LENGTHS = (6, 3)


@cache
def build_loss() -> SpelledBiLm:
    keras.utils.set_random_seed(1)
    encoder = built(recurrent_encoders.elmo_cnn(SIZE, VOCABULARY, FILTERS), name="encoder")
    loss = SpelledBiLm.over(encoder, SpelledBiLmConfig(width=4, vocabulary=VOCABULARY.size))
    for variable in loss.variables:  # away from 0, so that every term matters and some cells reach their bound
        variable.assign(3 * np.asarray(variable) + 0.1)
    return loss


def sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


def symbols(vocabulary):
    return spelling.symbols(vocabulary.pieces or (), vocabulary.size, vocabulary.first)


def weights(layer):
    """Returns the weights of a layer itself, by name."""
    return {name: np.asarray(getattr(layer, name), np.float64) for name in layer.config.weights()}


def word(number):
    """Returns the vector of one word, computed symbol by symbol."""
    speller = build_loss().encoder.embeddings
    z = np.asarray(speller.letters.table, np.float64)[symbols(VOCABULARY)[number]]  # [50, 16]
    features = []
    for (wide, count), layer in ((pair, weights(getattr(speller, f"filters_{pair[0]}"))) for pair in FILTERS):
        for f in range(count):
            sums = [
                sum(z[p + k] @ layer["kernel"][k, :, f] for k in range(wide)) + layer["bias"][f]
                for p in range(51 - wide)
            ]
            features.append(max(0.0, *sums))
    y = np.array(features)
    for layer in (weights(highway.gates) for highway in (speller.highway_0, speller.highway_1)):
        gate, new = np.split(y @ layer["kernel"] + layer["bias"], 2)
        y = sigmoid(gate) * np.maximum(new, 0) + (1 - sigmoid(gate)) * y
    last = weights(speller.projection)
    return y @ last["kernel"] + last["bias"]


def lstm(x, w, bound=3.0):
    """x [T, P] to h [T, P], with cells and projections clipped to ``bound``."""
    kernel, bias, u, r = (np.asarray(v, np.float64) for v in kernels(w))
    h, c, result = np.zeros(r.shape[1]), np.zeros(r.shape[0]), []
    for x_t in x:
        g, i, f, o = np.split(x_t @ kernel + h @ u + bias, 4)
        c = np.clip(sigmoid(f) * c + sigmoid(i) * np.tanh(g), -bound, bound)
        h = np.clip((sigmoid(o) * np.tanh(c)) @ r, -bound, bound)
        result.append(h)
    return np.array(result)


def layers_of(row, bound=3.0):
    """Returns x and both layers [T, P] of one row without padding, for each direction."""
    encoder, x = build_loss().encoder, np.array([word(number) for number in row])
    forward, backward = [x], [x]
    for index in range(2):
        new = lstm(forward[-1], encoder.forward_stack.members[index], bound)
        forward.append(new + (forward[-1] if index else 0))
        new = lstm(backward[-1][::-1], encoder.backward_stack.members[index], bound)[::-1]
        backward.append(new + (backward[-1] if index else 0))
    return forward, backward


def test_encoder_matches_the_paper():
    encoding = build_loss().encoder({"tokens": TOKENS})
    for row, length in enumerate(LENGTHS):
        expected = [np.concatenate(pair, axis=1) for pair in zip(*layers_of(TOKENS[row, :length]), strict=True)]
        for got, want in zip(encoding.layers, expected, strict=True):
            assert np.allclose(got[row, :length], want, atol=1e-4)
        assert np.allclose(encoding.pooled[row], expected[-1].max(axis=0), atol=1e-4)
    free = np.concatenate([layers[-1] for layers in layers_of(TOKENS[0], bound=np.inf)], axis=1)
    assert np.abs(free - np.asarray(encoding.tokens)[0]).max() > 0.1, "no bound was reached"


def test_cells_and_projections_are_clipped_separately():
    """One cell of one number. The gates i and o are open and g is 1, so the cell counts 1, 2, 3, 3, and h is R
    tanh(c)."""
    layer = built(LstmConfig(inputs=1, cells=1, projection=1, clip=3.0), name="layer")
    layer.gates.kernel.assign(np.full((1, 4), 50.0))
    layer.recurrent.kernel.assign(np.zeros((1, 4)))

    def states(r):
        layer.projection.kernel.assign([[r]])
        return np.asarray(layer(np.ones((5, 1, 1), np.float32))[0]).ravel()

    small, large = states(2.0), states(-40.0)
    assert np.allclose(small, 2 * np.tanh([1, 2, 3, 3, 3]), atol=1e-6)
    assert np.allclose(large, -3.0)


def test_loss_and_likelihood_match_the_paper():
    loss = build_loss()
    table, bias = np.asarray(loss.words.table, np.float64), np.asarray(loss.output_bias, np.float64)

    def log_p(x, targets):
        scores = x @ table.T + bias
        scores -= np.log(np.exp(scores - scores.max(1, keepdims=True)).sum(1, keepdims=True)) + scores.max(
            1, keepdims=True
        )
        return scores[np.arange(len(targets)), targets]

    right, left, likelihood = [], [], np.zeros(TOKENS.shape)
    for row, length in enumerate(LENGTHS):
        ids = TOKENS[row, :length]
        forward, backward = layers_of(ids)
        likelihood[row, 1:length] = log_p(forward[-1][:-1], ids[1:])
        right += list(-likelihood[row, 1:length])
        left += list(-log_p(backward[-1][1:], ids[:-1]))
    values = loss({"tokens": TOKENS})
    assert float(values["forward_nll"]) == pytest.approx(np.mean(right), rel=1e-4)
    assert float(values["backward_nll"]) == pytest.approx(np.mean(left), rel=1e-4)
    assert float(values["loss"]) == pytest.approx((np.mean(right) + np.mean(left)) / 2, rel=1e-4)
    assert np.allclose(loss.log_likelihood({"tokens": TOKENS}), likelihood, atol=1e-3)


def test_symbols_of_words_and_special_tokens():
    """293 and 294 mark the beginning and the end of a word, 295 is padding, and 256 + id is a special token."""
    table = symbols(VOCABULARY)
    assert table.shape == (len(PIECES), 50)
    assert table[2].tolist() == [293, 258, 294] + [295] * 47
    assert table[37].tolist() == [293, *b"the", 294] + [295] * 45
    assert table[39, :7].tolist() == [293, ord("Z"), ord("o"), 0xC3, 0xAB, 294, 295]
    assert table[41].tolist() == [293] + [ord("x")] * 48 + [294]
    assert table[42].tolist() == [293] + [ord("y")] * 48 + [294]
    assert table[43, :5].tolist() == [*b"ing", 294, 295]  # continues a word
    assert symbols(Vocabulary(size=50))[41, :5].tolist() == [293, *b"41", 294, 295]


def test_first_words_are_spelled_alike_with_every_kind_of_tokenizer():
    text = ["the writer writes what writers write"] * 30
    for kind, size in (("wordpiece", 90), ("word", 60), ("unigram", 70), ("bpe", 310)):
        tokenizer = Tokenizer.train(kind, text, size)
        (ids,) = tokenizer.encode(["the writer"])
        table = symbols(tokenizer.vocabulary)
        heads = tokenizer.heads(np.array(ids))
        assert [table[number][0] == 293 for number in ids] == heads.tolist(), kind
        assert bytes(value for number in ids for value in table[number].tolist() if value < 256) == b"thewriter", kind


def test_words_with_similar_spelling_have_similar_vectors():
    """Words that share most letters are nearer to each other than to an unrelated word, before any training."""
    keras.utils.set_random_seed(1)
    pieces = (*PIECES[:37], "writers", "writer", "sky")
    filters = tuple((n, 8 * n) for n in range(1, 8))
    config = recurrent_encoders.elmo_cnn(Size(layers=1, width=64, inner=8), Vocabulary(size=40, pieces=pieces), filters)
    speller = built(config.embeddings, name="words")
    one, similar, unrelated = np.asarray(speller(np.array([37, 38, 39], np.int32)))
    assert np.linalg.norm(one - similar) < 0.7 * np.linalg.norm(one - unrelated)


def test_odd_width_raises_an_error():
    with pytest.raises(ValueError, match="even width"):
        recurrent_encoders.elmo_cnn(Size(layers=1, width=7, inner=5), VOCABULARY, FILTERS)
