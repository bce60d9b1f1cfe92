"""What fits into a blank: every model whose loss has an answer gives the one that its own loss counts."""

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
    made = model.build(Size(layers=layers, width=16, heads=2, inner=24, length=16), VOCABULARY)
    made.encoder.dropout = 0.0
    rng = np.random.default_rng(0)
    for variable in made.loss.variables:  # far enough from 0 for each answer to be its own
        variable.assign(variable + rng.normal(0, 0.1, variable.shape))
    return made


def masked(tokens=WORDS):
    tokens = tokens.copy()
    tokens[[0, 1], PLACES] = VOCABULARY.mask
    return tokens


def answer(made, tokens):
    batch = {"tokens": tokens, "segments": (tokens == 43).astype(np.int32), "places": PLACES}
    return tf.nn.log_softmax(made.fill({name: tf.constant(array) for name, array in batch.items()})).numpy()


@pytest.mark.parametrize("name", models.names())
def test_whoever_models_words_fills_blanks(name):
    """Only what writes whole texts, compares texts, or tells words from noise has no answer."""
    without = {"electra", "sa_lstm", "cove", "context2vec", "skip_thought", "pegasus", "hibert", "minilm", "tinybert"}
    lookup = models.load(name).CARD.architecture is models.card.Architecture.LOOKUP and name != "nnlm"
    made = built(name)
    assert (made.fill is None) == (name in without or lookup)
    assert (made.gap_likelihood is not None) == (name in ("pegasus", "hibert"))


@pytest.mark.parametrize("name", ["bert", "universal_transformer", "infoword", "mpnet", "unilm_v2"])
def test_masked_models_as_their_loss_counts(name):
    made, tokens = built(name), masked()
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
    values = made.loss({name: tf.constant(array) for name, array in batch.items()})
    expected = values["loss"] if name == "mpnet" else values["mlm_loss"]
    assert -answer(made, tokens)[[0, 1], LABELS].mean() == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("name", ["gpt", "transformer_xl", "nnlm", "ulmfit", "lm_lstm"])
def test_left_to_right_models_as_their_likelihood_counts(name):
    made = built(name)
    expected = made.log_likelihood({"tokens": WORDS}).numpy()[[0, 1], PLACES]
    np.testing.assert_allclose(answer(made, WORDS)[[0, 1], LABELS], expected, atol=1e-5)
    other = WORDS.copy()
    other[0, 3:6], other[1, 1:4] = 50, 51
    np.testing.assert_allclose(answer(made, other), answer(made, WORDS), atol=1e-6)
    nothing = made.fill({"tokens": tf.constant(WORDS), "places": tf.constant([0, 0])}).numpy()
    assert np.ptp(nothing) == 0


@pytest.mark.parametrize("name", ["cloze", "xlnet", "elmo", "elmo_cnn", "flair"])
def test_what_stands_in_the_blank_does_not_matter(name):
    made = built(name)
    asked = answer(made, WORDS)
    np.testing.assert_allclose(answer(made, masked()), asked, atol=1e-6)
    for place, row in ((2, 0), (4, 0), (2, 1)):  # its neighbours do
        other = WORDS.copy()
        other[row, place] = 55
        assert np.abs(answer(made, other)[row] - asked[row]).max() > 1e-5


def test_cloze_and_xlnet_as_their_loss_counts():
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
    assert -answer(xlnet, WORDS)[[0, 1], LABELS].mean() == pytest.approx(float(expected), abs=1e-5)


def test_both_directions_count_alike_and_an_end_has_one():
    """The mean of the two language models' ln p, each asked by its own network."""
    made = built("elmo")
    loss, encoder = made.loss, made.encoder

    def says(states, place):
        return tf.nn.log_softmax(
            states[-1][place, :1] @ tf.transpose(encoder.token_embedding) + loss.output_bias
        ).numpy()[0]

    tokens = tf.constant(WORDS[:1])
    ahead, back = encoder.both(tokens)
    found = made.fill({"tokens": tokens, "places": tf.constant([3])}).numpy()[0]
    np.testing.assert_allclose(found, (says(ahead, 2) + says(back, 4)) / 2, atol=1e-5)
    first = made.fill({"tokens": tokens, "places": tf.constant([0])}).numpy()[0]
    np.testing.assert_allclose(first, (says(back, 1) - np.log(60)) / 2, atol=1e-5)
    last = made.fill({"tokens": tokens, "places": tf.constant([6])}).numpy()[0]
    np.testing.assert_allclose(last, (says(ahead, 5) - np.log(60)) / 2, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    ["xlnet", "cloze", "elmo", "mpnet", "unilm_v2", "transformer_xl", "nnlm", "t5", "bart", "mass", "prophetnet"],
)
def test_one_trace_serves_every_shape(name):
    made, ones = built(name), [tf.TensorSpec([None, None], tf.int32)] * 2 + [tf.TensorSpec([None], tf.int32)]
    spec = dict(zip(("tokens", "segments", "places"), ones, strict=True))
    graph = tf.function(lambda batch: made.fill(batch), input_signature=[spec])
    for tokens, places in ((WORDS, PLACES), (WORDS[:1, :5], PLACES[:1])):
        batch = {"tokens": tokens, "segments": tokens * 0, "places": places}
        np.testing.assert_allclose(graph(batch), made.fill(batch), atol=1e-5)
    assert graph.experimental_get_tracing_count() == 1


def nll(made, expected="loss", **batch):
    return float(made.loss({name: tf.constant(array, tf.int32) for name, array in batch.items()})[expected])


@pytest.mark.parametrize("name", ["t5", "t5_1_1"])
def test_span_corruption_as_its_loss_counts(name):
    """One sentinel hides the place, and the decoder writes it behind the sentinel."""
    made, first = built(name), VOCABULARY.sentinels[0]
    for row, place in enumerate(PLACES):
        source = WORDS[row : row + 1].copy()
        source[0, place] = first
        target = np.array([[2, first, LABELS[row]]])
        both, one = nll(made, tokens=source, targets=target), nll(made, tokens=source, targets=target[:, :2])
        assert -answer(made, WORDS)[row, LABELS[row]] == pytest.approx(2 * both - one, abs=1e-5)


def test_denoising_as_its_loss_counts():
    """One [MASK] hides the place, and the decoder has written what stands before."""
    made = built("bart")
    for row, place in enumerate(PLACES):
        until = WORDS[row : row + 1, : place + 1]
        longer = nll(made, tokens=masked()[row : row + 1], targets=until) * place
        shorter = nll(made, tokens=masked()[row : row + 1], targets=until[:, :-1]) * (place - 1) if place > 1 else 0.0
        assert -answer(made, WORDS)[row, LABELS[row]] == pytest.approx(longer - shorter, abs=1e-5)


def test_fragments_and_spans_as_their_loss_counts():
    """A hidden fragment of one token, at its position, after [MASK] (MASS) or the token before it (ProphetNet)."""
    mass = nll(made := built("mass"), tokens=masked(), first=PLACES, targets=np.stack([[4, 4], LABELS], 1))
    assert -answer(made, masked())[[0, 1], LABELS].mean() == pytest.approx(mass, abs=1e-5)
    made, before = built("prophetnet"), (PLACES - 1)[:, None]
    previous = np.take_along_axis(WORDS, before, 1)
    batch = {"tokens": masked(), "targets": LABELS[:, None], "previous": previous, "positions": before}
    expected = nll(made, "next_token_loss", **batch)
    assert -answer(made, masked())[[0, 1], LABELS].mean() == pytest.approx(expected, abs=1e-5)


def test_a_row_without_a_mark_in_front_is_asked_for_its_first_token():
    made, tokens = built("prophetnet"), WORDS[:1, 1:]
    hidden = np.where(np.arange(6) == 0, VOCABULARY.mask, tokens)
    found = made.fill({"tokens": tf.constant(hidden), "places": tf.constant([0])}).numpy()
    begun = {"tokens": tf.constant(hidden), "targets": tf.constant([[VOCABULARY.cls]])}
    np.testing.assert_allclose(found, made.decode(begun).numpy()[:, 0], atol=1e-5)


def test_neighbours_that_are_hidden_too_belong_to_the_same_span():
    for name, symbol in (("t5", VOCABULARY.sentinels[0]), ("bart", VOCABULARY.mask)):
        made = built(name)
        tokens = np.array([[2, 40, 4, 4, 41, 4, 3], [2, 4, 4, 3, 0, 0, 0]], np.int32)
        found = made.fill({"tokens": tokens, "places": tf.constant([2, 1])}).numpy()
        for row, (spanned, place) in enumerate((([2, 40, symbol, 41, 4, 3], 2), ([2, symbol, 3], 1))):
            alone = made.fill({"tokens": np.array([spanned], np.int32), "places": tf.constant([place])}).numpy()
            np.testing.assert_allclose(found[row], alone[0], atol=1e-5)


@pytest.mark.parametrize("name", ["pegasus", "hibert"])
def test_whole_hidden_sentences_as_their_loss_counts(name):
    made, mask = built(name), VOCABULARY.mask
    tokens = np.array([[2, 40, 41, 42, 43], [2, 45, 46, 0, 0]], np.int32)
    found = made.gap_likelihood({"tokens": tf.constant(tokens)}).numpy()
    assert (found[:, 0] == 0).all() and (found[1, 3:] == 0).all() and (found[0, 1:] < 0).all()
    for row, size in enumerate((4, 2)):
        own = tokens[row : row + 1, : size + 1]
        batch = {"tokens": [[2, mask, 3]], "targets": own}
        if name == "hibert":
            batch = {"tokens": [[2, *[mask] * size, 3]], "targets": own[:, 1:], "previous": own[:, :-1]}
            batch |= {"places": [list(range(size))], "sentences": [[0] * size]}
        assert -found[row].sum() == pytest.approx(size * nll(made, **batch), abs=1e-4)


@pytest.mark.parametrize("name", ["t5", "t5_1_1", "bart", "mass", "prophetnet"])
def test_encoder_decoders_fill_alike_in_any_batch(name):
    made = built(name)
    together = answer(made, masked())
    for row, size in enumerate((7, 5)):
        one = {"tokens": masked()[row : row + 1, :size], "places": PLACES[row : row + 1]}
        alone = tf.nn.log_softmax(made.fill({key: tf.constant(array) for key, array in one.items()})).numpy()
        np.testing.assert_allclose(alone[0], together[row], atol=1e-5)
