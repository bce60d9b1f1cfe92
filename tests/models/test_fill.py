"""Tests of filling blanks: the scores of every model agree with its own loss."""

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=60)
PLACES = np.array([3, 1], np.int32)
WORDS = np.array([[2, 40, 41, 42, 43, 44, 3], [2, 45, 46, 47, 3, 0, 0]], np.int32)
LABELS = WORDS[[0, 1], PLACES]


def built(name):
    model = models.load(name)
    layers = min(model.SIZES["tiny"].layers, 2)
    network = model.build(Size(layers=layers, width=16, heads=2, inner=24, length=16), VOCABULARY)
    network.encoder.dropout = 0.0
    rng = np.random.default_rng(0)
    for variable in network.loss.variables:  # far enough from 0 for the scores to differ
        variable.assign(variable + rng.normal(0, 0.1, variable.shape))
    return network


def masked(tokens=WORDS):
    tokens = tokens.copy()
    tokens[[0, 1], PLACES] = VOCABULARY.mask
    return tokens


def fill_log_probabilities(network, tokens):
    batch = {"tokens": tokens, "segments": (tokens == 43).astype(np.int32), "places": PLACES}
    return tf.nn.log_softmax(network.fill({name: tf.constant(array) for name, array in batch.items()})).numpy()


@pytest.mark.parametrize("name", models.names())
def test_models_of_words_have_fill(name):
    """Models without ``fill`` generate whole texts, compare texts, distinguish words from noise, or learn hidden states
    of a teacher."""
    without = {"electra", "sa_lstm", "cove", "context2vec", "skip_thought", "pegasus", "hibert", "minilm", "tinybert"}
    lookup = models.load(name).CARD.architecture is models.card.Architecture.LOOKUP and name != "nnlm"
    network = built(name)
    assert (network.fill is None) == (name in without or lookup)
    assert (network.gap_likelihood is not None) == (name in ("pegasus", "hibert"))


@pytest.mark.parametrize("name", ["bert", "universal_transformer", "infoword", "mpnet", "unilm_v2"])
def test_masked_models_fill_as_in_their_loss(name):
    network, tokens = built(name), masked()
    batch = {
        "tokens": tokens,
        "segments": (tokens == 43).astype(np.int32),
        "masked_positions": PLACES[:, None],
        "masked_labels": LABELS[:, None],
        "masked_weights": np.ones((2, 1), np.float32),
        "order": np.zeros((2, 1), np.int32),
        "ngrams": np.full((2, 4, 12), 40, np.int32),
        "next": np.zeros(2, np.int32),
    }
    values = network.loss({name: tf.constant(array) for name, array in batch.items()})
    expected = values["loss"] if name == "mpnet" else values["mlm_loss"]
    assert -fill_log_probabilities(network, tokens)[[0, 1], LABELS].mean() == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("name", ["gpt", "transformer_xl", "nnlm", "ulmfit", "lm_lstm"])
def test_left_to_right_models_fill_as_in_their_likelihood(name):
    network = built(name)
    expected = network.log_likelihood({"tokens": WORDS}).numpy()[[0, 1], PLACES]
    np.testing.assert_allclose(fill_log_probabilities(network, WORDS)[[0, 1], LABELS], expected, atol=1e-5)
    other = WORDS.copy()
    other[0, 3:6], other[1, 1:4] = 50, 51
    np.testing.assert_allclose(
        fill_log_probabilities(network, other), fill_log_probabilities(network, WORDS), atol=1e-6
    )
    nothing = network.fill({"tokens": tf.constant(WORDS), "places": tf.constant([0, 0])}).numpy()
    assert np.ptp(nothing) == 0


@pytest.mark.parametrize("name", ["cloze", "xlnet", "elmo", "elmo_cnn", "flair"])
def test_token_in_the_blank_does_not_matter(name):
    network = built(name)
    unmasked = fill_log_probabilities(network, WORDS)
    np.testing.assert_allclose(fill_log_probabilities(network, masked()), unmasked, atol=1e-6)
    for place, row in ((2, 0), (4, 0), (2, 1)):  # its neighbours matter
        other = WORDS.copy()
        other[row, place] = 55
        assert np.abs(fill_log_probabilities(network, other)[row] - unmasked[row]).max() > 1e-5


def test_cloze_and_xlnet_fill_as_in_their_loss():
    cloze, xlnet = built("cloze").loss, built("xlnet")
    logits = tf.reshape(cloze.logits({"tokens": tf.constant(WORDS)}), [2, 7, 60]).numpy()[[0, 1], PLACES]
    filled = cloze.fill({"tokens": WORDS, "places": PLACES}).numpy()
    np.testing.assert_allclose(filled, logits, atol=1e-5)
    batch = {
        "tokens": WORDS,
        "segments": (WORDS == 43).astype(np.int32),
        "ranks": (np.arange(7) == PLACES[:, None]).astype(np.int32),
        "predicted_positions": PLACES[:, None],
        "predicted_labels": LABELS[:, None],
        "predicted_weights": np.ones((2, 1), np.float32),
        "memory": np.zeros((2, 3), np.int32),
    }
    expected = xlnet.loss({name: tf.constant(array) for name, array in batch.items()})["loss"]
    assert -fill_log_probabilities(xlnet, WORDS)[[0, 1], LABELS].mean() == pytest.approx(float(expected), abs=1e-5)


def test_fill_is_the_mean_of_both_directions():
    """The mean of ln p of the two language models, each computed from its own network. A missing direction counts as
    uniform."""
    network = built("elmo")
    loss, encoder = network.loss, network.encoder

    def direction_log_p(states, place):
        return tf.nn.log_softmax(
            states[-1][place, :1] @ tf.transpose(encoder.token_embedding) + loss.output_bias
        ).numpy()[0]

    tokens = tf.constant(WORDS[:1])
    ahead, back = encoder.both(tokens)
    result = network.fill({"tokens": tokens, "places": tf.constant([3])}).numpy()[0]
    np.testing.assert_allclose(result, (direction_log_p(ahead, 2) + direction_log_p(back, 4)) / 2, atol=1e-5)
    first = network.fill({"tokens": tokens, "places": tf.constant([0])}).numpy()[0]
    np.testing.assert_allclose(first, (direction_log_p(back, 1) - np.log(60)) / 2, atol=1e-5)
    last = network.fill({"tokens": tokens, "places": tf.constant([6])}).numpy()[0]
    np.testing.assert_allclose(last, (direction_log_p(ahead, 5) - np.log(60)) / 2, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    ["xlnet", "cloze", "elmo", "mpnet", "unilm_v2", "transformer_xl", "nnlm", "t5", "bart", "mass", "prophetnet"],
)
def test_one_trace_serves_every_shape(name):
    network, ones = built(name), [tf.TensorSpec([None, None], tf.int32)] * 2 + [tf.TensorSpec([None], tf.int32)]
    spec = dict(zip(("tokens", "segments", "places"), ones, strict=True))
    graph = tf.function(lambda batch: network.fill(batch), input_signature=[spec])
    for tokens, places in ((WORDS, PLACES), (WORDS[:1, :5], PLACES[:1])):
        batch = {"tokens": tokens, "segments": tokens * 0, "places": places}
        np.testing.assert_allclose(graph(batch), network.fill(batch), atol=1e-5)
    assert graph.experimental_get_tracing_count() == 1


def nll(network, expected="loss", **batch):
    return float(network.loss({name: tf.constant(array, tf.int32) for name, array in batch.items()})[expected])


@pytest.mark.parametrize("name", ["t5", "t5_1_1"])
def test_span_corruption_fills_as_in_its_loss(name):
    """One sentinel hides the place, and the decoder generates its token after the sentinel."""
    network, first = built(name), VOCABULARY.sentinels[0]
    for row, place in enumerate(PLACES):
        source = WORDS[row : row + 1].copy()
        source[0, place] = first
        target = np.array([[2, first, LABELS[row]]])
        both, one = nll(network, tokens=source, targets=target), nll(network, tokens=source, targets=target[:, :2])
        assert -fill_log_probabilities(network, WORDS)[row, LABELS[row]] == pytest.approx(2 * both - one, abs=1e-5)


def test_denoising_fills_as_in_its_loss():
    """One [MASK] hides the place, and the decoder is given the tokens before it."""
    network = built("bart")
    for row, place in enumerate(PLACES):
        until = WORDS[row : row + 1, : place + 1]
        longer = nll(network, tokens=masked()[row : row + 1], targets=until) * place
        shorter = (
            nll(network, tokens=masked()[row : row + 1], targets=until[:, :-1]) * (place - 1) if place > 1 else 0.0
        )
        assert -fill_log_probabilities(network, WORDS)[row, LABELS[row]] == pytest.approx(longer - shorter, abs=1e-5)


def test_fragments_and_spans_fill_as_in_their_loss():
    """A hidden fragment of one token at its position, after [MASK] (MASS) or after the token before it (ProphetNet)."""
    mass = nll(network := built("mass"), tokens=masked(), first=PLACES, targets=np.stack([[4, 4], LABELS], 1))
    assert -fill_log_probabilities(network, masked())[[0, 1], LABELS].mean() == pytest.approx(mass, abs=1e-5)
    network, before = built("prophetnet"), (PLACES - 1)[:, None]
    previous = np.take_along_axis(WORDS, before, 1)
    batch = {"tokens": masked(), "targets": LABELS[:, None], "previous": previous, "positions": before}
    expected = nll(network, "next_token_loss", **batch)
    assert -fill_log_probabilities(network, masked())[[0, 1], LABELS].mean() == pytest.approx(expected, abs=1e-5)


def test_first_token_of_a_row_without_cls_can_be_filled():
    network, tokens = built("prophetnet"), WORDS[:1, 1:]
    hidden = np.where(np.arange(6) == 0, VOCABULARY.mask, tokens)
    result = network.fill({"tokens": tf.constant(hidden), "places": tf.constant([0])}).numpy()
    begun = {"tokens": tf.constant(hidden), "targets": tf.constant([[VOCABULARY.cls]])}
    np.testing.assert_allclose(result, network.decode(begun).numpy()[:, 0], atol=1e-5)


def test_adjacent_masks_belong_to_the_same_span():
    for name, symbol in (("t5", VOCABULARY.sentinels[0]), ("bart", VOCABULARY.mask)):
        network = built(name)
        tokens = np.array([[2, 40, 4, 4, 41, 4, 3], [2, 4, 4, 3, 0, 0, 0]], np.int32)
        result = network.fill({"tokens": tokens, "places": tf.constant([2, 1])}).numpy()
        for row, (spanned, place) in enumerate((([2, 40, symbol, 41, 4, 3], 2), ([2, symbol, 3], 1))):
            alone = network.fill({"tokens": np.array([spanned], np.int32), "places": tf.constant([place])}).numpy()
            np.testing.assert_allclose(result[row], alone[0], atol=1e-5)


@pytest.mark.parametrize("name", ["pegasus", "hibert"])
def test_hidden_sentences_are_scored_as_in_the_loss(name):
    network, mask = built(name), VOCABULARY.mask
    tokens = np.array([[2, 40, 41, 42, 43], [2, 45, 46, 0, 0]], np.int32)
    result = network.gap_likelihood({"tokens": tf.constant(tokens)}).numpy()
    assert (result[:, 0] == 0).all() and (result[1, 3:] == 0).all() and (result[0, 1:] < 0).all()
    for row, size in enumerate((4, 2)):
        own = tokens[row : row + 1, : size + 1]
        batch = {"tokens": [[2, mask, 3]], "targets": own}
        if name == "hibert":
            batch = {"tokens": [[2, *[mask] * size, 3]], "targets": own[:, 1:], "previous": own[:, :-1]}
            batch |= {"places": [list(range(size))], "sentences": [[0] * size]}
        assert -result[row].sum() == pytest.approx(size * nll(network, **batch), abs=1e-4)


@pytest.mark.parametrize("name", ["t5", "t5_1_1", "bart", "mass", "prophetnet"])
def test_encoder_decoders_fill_alike_in_every_batch(name):
    network = built(name)
    together = fill_log_probabilities(network, masked())
    for row, size in enumerate((7, 5)):
        one = {"tokens": masked()[row : row + 1, :size], "places": PLACES[row : row + 1]}
        alone = tf.nn.log_softmax(network.fill({key: tf.constant(array) for key, array in one.items()})).numpy()
        np.testing.assert_allclose(alone[0], together[row], atol=1e-5)
