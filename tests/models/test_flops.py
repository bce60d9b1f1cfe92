"""Tests of FLOPs formulas: against counts by hand, and against the matrix products of the graph."""

from dataclasses import replace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models.card import Architecture, Size
from ptmbench.models.layers.config import EncoderConfig
from ptmbench.models.objective import PAIRS
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.media import Media
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.networks import build

SIZE = Size(layers=2, width=8, heads=2, inner=16, length=64)
VOCABULARY = Vocabulary(
    size=100,
    symbols={"languages": ("en", "xx"), "entities": ("Q1", "Q2")},
    widths={"entities": 4, "regions": 3},
)

# Forward FLOPs per token of rows of 10 tokens at `SIZE`, two for each multiplication with its addition. A Transformer
# layer: query, key, value and output 4 x 8 x 8, feed-forward 2 x 8 x 16, so 512 products; scores and mixing over 10
# keys 2 x 10 x 8 = 160 more. Together 2 x 672 = 1344.
LAYER = 1344
# 2 of 10 tokens are masked. Each takes the head's 8 x 8 and the 8 x 100 of the vocabulary: 2 x 864 / 5 per token.
MASKED = 2 * 864 * 2 / 10
# An LSTM direction with state 4 and 16 cells: input and recurrent 2 x 4 x 64, projection 16 x 4.
DIRECTION = 2 * (512 + 64)
# Widths 1 to 7 have 1, 1, 1, 1, 2, 4 and 8 filters, at 50, 49 ... 44 places of 16 numbers per symbol; two highways of
# 18 x 36 and a projection 18 x 4.
SPELLED = 2 * ((50 + 98 + 144 + 188 + 460 + 1080 + 2464) * 16 + 2 * 18 * 36 + 18 * 4)
STAR = 2 * (2 * (384 + 80) + 128 + 2 * 88 / 10 + (2 * 128 + 256) / 10)
HAND = {
    # The pooler's 8 x 8 and the two classes' 8 x 2 once a row.
    "bert": (2 * LAYER + 2 * 64 / 10, 2 * LAYER + 2 * 64 / 10 + MASKED + 2 * 16 / 10),
    # Two towers of two layers, and one over both: query and output 2 x 64, keys and values twice 2 x 64, feed-forward
    # 256, 20 keys; every token is predicted over 100 words.
    "cloze": (2 * 2 * LAYER + 2 * (640 + 320), 2 * 2 * LAYER + 2 * (640 + 320) + 2 * 8 * 100),
    # Two steps. In each of them, the 8 numbers of a token decide whether it halts.
    "universal_transformer": (2 * (LAYER + 16), 2 * (LAYER + 16) + MASKED),
    # For each token query and output 2 x 64, keys and values of state and embedding 4 x 64, 5 keys of 8 twice; in two
    # layers. Keys and values for the relay 2 x 64 and 11 of 8 twice a row, in one. Once a row, keys and values of the
    # relay for the tokens, twice 2 x 64, and its own four 64.
    "star_transformer": (STAR, STAR + MASKED),
    # The generator is as wide as the encoder (its least width is 64): width 8, inner 32, 1 head: a layer of
    # 4 x 64 + 2 x 8 x 32 + 160 = 928 products. Projection 8 x 8 and the discriminator's 8 x 8 and 8 for each token.
    "electra": (2 * LAYER, 2 * LAYER + 2 * 2 * 928 + 2 * 64 + MASKED + 2 * 64 + 2 * 8),
    # 9 of 10 tokens are predicted over 100 words: in two directions of width 4, or in one of width 8.
    "elmo": (2 * 2 * DIRECTION, 2 * 2 * DIRECTION + 2 * 2 * 4 * 100 * 9 / 10),
    "elmo_cnn": (SPELLED + 2 * 2 * DIRECTION, SPELLED + 2 * 2 * DIRECTION + 2 * 2 * 4 * 100 * 9 / 10),
    # State and cells 4 in each direction: 2 x 4 x 16.
    "flair": (2 * 2 * 2 * 128, 2 * 2 * 2 * 128 + 2 * 2 * 4 * 100 * 9 / 10),
    # A layer of 8 cells: twice 8 x 32. The autoencoder reads 10 tokens, and then 9 to generate 9.
    "lm_lstm": (2 * 2 * 512, 2 * 2 * 512 + 2 * 8 * 100 * 9 / 10),
    "sa_lstm": (2 * 2 * 512, 2 * 2 * 512 * 19 / 10 + 2 * 8 * 100 * 9 / 10),
    # Three gates from two vectors of 8, twice 8 x 24; in each decoder from three, and 100 words after each token.
    "skip_thought": (2 * 384, 2 * (384 + 2 * 576 + 2 * 8 * 100)),
    # Vectors of 4, directions of 2 cells: two layers of twice 6 x 8. For 9 of 10 tokens of the target: layers of 4
    # cells from 12 and from 8 numbers, 4 x 4 for the query, 10 keys of 4 twice, 8 x 4 for both, and 100 words.
    "cove": (2 * 192, 2 * 192 + 2 * (192 + 128 + 16 + 80 + 32 + 400) * 9 / 10),
    # 16 cells from 8 numbers, 8 cells from 16: 64 x (8 + 16) and 32 x (16 + 8).
    "ulmfit": (2 * (1536 + 768), 2 * (1536 + 768) + 2 * 8 * 100 * 9 / 10),
    # 16 units from two tokens of 8, three gates each: 16 x 48; 8 units from 16: 16 x 24.
    "multifit": (2 * (768 + 384), 2 * (768 + 384) + 2 * 8 * 100 * 9 / 10),
    "gpt": (2 * LAYER, 2 * LAYER + 2 * 8 * 100 * 9 / 10),
    "ctrl": (2 * LAYER, 2 * LAYER + 2 * 8 * 100 * 9 / 10),
    # 2 hidden tokens add 4 tokens to the 10: layers of 512 + 2 x 14 x 8 products, and 4 predictions.
    "unilm_v2": (2 * LAYER, 2 * 2 * 736 * 14 / 10 + 2 * MASKED),
    # One layer is BERT's. The other has attention over the vectors of entities too, 4 x 4 x 4 and 2 x 10 x 4 products,
    # and 4 x 16 more in its feed-forward layer. The third head takes 8 x 4, and 10 x 4 for the candidates, which have
    # no gradient.
    "ernie_thu": (
        2 * LAYER + 2 * (64 + 80 + 64) + 2 * 64 / 10,
        2 * LAYER + 2 * (64 + 80 + 64) + 2 * 64 / 10 + MASKED + 2 * 16 / 10 + 2 * (32 + 40 * 2 / 3),
    ),
    # BERT's for 10 tokens. In pre-training, 36 regions of 3 numbers, which have no gradient, follow them, and all of
    # them have 46 keys.
    "visualbert": (
        2 * LAYER + 2 * 64 / 10,
        46 / 10 * 2 * 2 * (512 + 2 * 46 * 8) + 2 / 3 * 36 / 10 * 2 * 3 * 8 + 2 * 64 / 10 + MASKED + 2 * 16 / 10,
    ),
    "unilm": (2 * LAYER + 2 * 64 / 10, 2 * LAYER + 2 * 64 / 10 + MASKED + 2 * 16 / 10),
    "gpt2": (2 * LAYER, 2 * LAYER + 2 * 8 * 100 * 9 / 10),
    # Token vectors of width 4 are widened to 8, and narrowed again before the vocabulary.
    "albert": (
        2 * LAYER + 2 * 32 + 2 * 64 / 10,
        2 * LAYER + 2 * 32 + 2 * 64 / 10 + 2 * (8 * 4 + 4 * 100) * 2 / 10 + 2 * 16 / 10,
    ),
    # Inside of a layer 2 dimensions: three products from or to 8, values from 8, 4 x 16; queries and keys 2 x 4, output
    # 2 x 2; 2 x 10 x 2 over the keys; four times 2 x 2 x 16. Trigrams of vectors of 2: 6 x 8.
    "mobilebert": (
        2 * 2 * (64 + 12 + 40 + 256) + 2 * 48,
        2 * 2 * (64 + 12 + 40 + 256) + 2 * 48 + MASKED + 2 * 16 / 10,
    ),
    # As MobileBERT's. The teacher is 16 wide inside: two products from or to 8, twice 8 x 16; queries, keys and values
    # 3 x 8 x 16, output 16 x 16; 2 x 10 x 16 over the keys; 2 x 16 x 64. It has MobileBERT's trigrams and masked words.
    "mobilebert_pkt": (
        2 * 2 * (64 + 12 + 40 + 256) + 2 * 48,
        2 * 2 * (64 + 12 + 40 + 256)
        + 2 * 48
        + MASKED
        + 2 * 16 / 10
        + (2 * 2 * (256 + 384 + 256 + 320 + 2048) + 2 * 48 + MASKED) / 3,
    ),
    # The same with the 2 x 8 x 16 of the size, and a pooler.
    "ib_bert": (
        2 * 2 * (256 + 384 + 256 + 320 + 512) + 2 * 48 + 2 * 64 / 10,
        2 * 2 * (256 + 384 + 256 + 320 + 512) + 2 * 48 + 2 * 64 / 10 + MASKED + 2 * 16 / 10,
    ),
    # Two heads reach the vocabulary; that of the edges reads 3 x 8 numbers, and has a second layer.
    "spanbert": (2 * LAYER, 2 * LAYER + MASKED + 2 * (3 * 64 + 64 + 800) * 2 / 10),
    # A trigram is shuffled besides the 2 masked tokens, and there are three classes.
    "structbert": (2 * LAYER + 2 * 64 / 10, 2 * LAYER + 2 * 64 / 10 + 5 / 2 * MASKED + 2 * 24 / 10),
    # 4 n-grams of 12 tokens for 10 tokens; attention over 12 keys takes 2 x 12 x 8 products instead of 160.
    "infoword": (2 * LAYER, 2 * LAYER + 4 / 10 * (12 * 2 * (LAYER + 2 * 32) + 2 * 8) + MASKED),
    "roberta": (2 * LAYER, 2 * LAYER + MASKED),
    # The student and its teacher of four layers predict every token. The teacher has only a forward pass.
    "distilbert": (2 * LAYER, 2 * LAYER + 2 * 864 + (4 * LAYER + 2 * 864) / 3),
    # Two layers of 5 x 8 numbers to 8, and 2 x 8 to 8 once a row, which pre-training does not need.
    "blend_cnn": (2 * 2 * 320 + 2 * 128 / 10, 2 * 2 * 320 + MASKED),
    # The teacher has 4 layers 16 wide, as TinyBERT's below, and predicts the same 2 of 10 words, each by 16 x 16 and
    # 16 x 100 products. It has only a forward pass.
    "lightpaff": (2 * LAYER, 2 * LAYER + MASKED + (4 * 2 * 2368 + 2 * 1856 * 2 / 10) / 3),
    # The teacher has 2 layers 16 wide and predicts 2 of 10 words among 100 and 100 - 37; it is trained too.
    "dualtrain": (2 * LAYER, 2 * LAYER + MASKED + 2 * 2 * 2368 + 2 * (16 * 16 + 16 * 163) * 2 / 10),
    # The vectors of 3 layers are made 16 wide, 3 x 8 x 16. The teacher has 4 layers 16 wide, 4 x 256 + 2 x 16 x 32
    # products and 320 over keys each, and only a forward pass.
    "tinybert": (2 * LAYER, 2 * LAYER + 2 * 384 + 4 * 2 * 2368 / 3),
    # As TinyBERT's without the vectors. Of the last layer, the student lacks 8 x 8 + 2 x 8 x 16 and the teacher 4 times
    # as much. Values are multiplied with each other instead of with attention weights.
    "minilm": (2 * LAYER, 2 * LAYER - 2 * 320 + (4 * 2 * 2368 - 2 * 1280) / 3),
    # For each token there are 2/9 of a target token, which takes 6 x 64 + 256 products, 2 x 8 x 20/9 over the targets
    # and 2 x 8 x 10 over the source, and the vocabulary; keys and values of the memory take 2 x 64 for each token.
    "t5": (2 * LAYER, 2 * (LAYER + 2 * 128) + 2 / 9 * (2 * 2 * (640 + 16 * 20 / 9 + 160) + 2 * 800)),
    # As T5's, with 1.25 target tokens for each token of the source, 12.5 in a row.
    "bart": (2 * LAYER, 2 * (LAYER + 2 * 128) + 1.25 * (2 * 2 * (640 + 16 * 12.5 + 160) + 2 * 800)),
    # As T5's, with 4 target tokens for a source of 10: half of the tokens between [CLS] and [SEP].
    "mass": (2 * LAYER, 2 * (LAYER + 2 * 128) + 0.4 * (2 * 2 * (640 + 16 * 4 + 160) + 2 * 800)),
    # 1 target token for 10: three streams through the decoder, each with 8 x 32 x 2 products for distances, two of
    # them to the vocabulary.
    "prophetnet": (2 * LAYER, 2 * (LAYER + 2 * 128) + (3 * 2 * 2 * (640 + 512 + 16 + 160) + 2 * 2 * 800) / 10),
    # The second encoder has 6 places for 10 words, 2 x 6 x 8 products over its keys; the decoder generates 2 words.
    "hibert": (
        2 * LAYER + 6 / 10 * 2 * 2 * (512 + 96),
        2 * LAYER + 6 / 10 * 2 * 2 * (512 + 96) + 2 / 10 * (2 * 2 * (512 + 32) + 2 * 800),
    ),
    # Three products over keys, the distances' one longer: 8 x (2 x 10 + 11). With as much memory 8 x (2 x 20 + 21), and
    # its keys and values 2 x 64, which are not differentiated by their input; once forward, the memory's first layer.
    "transformer_xl": (
        2 * 2 * (512 + 248),
        2 * 2 * (512 + 488 + 128) + 2 * 8 * 100 * 9 / 10 + (2 * (512 + 248) - 2 * 2 * 128) / 3,
    ),
    # T5's, with 3 x 8 x 16 products in each feed-forward layer: 128 more.
    "t5_1_1": (
        2 * (LAYER + 256),
        2 * (LAYER + 256 + 2 * 128) + 2 / 9 * (2 * 2 * (768 + 16 * 20 / 9 + 160) + 2 * 800),
    ),
    # As T5's, with 5 places for targets and a source of 10.
    "pegasus": (2 * LAYER, 2 * (LAYER + 2 * 128) + 0.5 * (2 * 2 * (640 + 16 * 5 + 160) + 2 * 800)),
    # Content: the encoder has scores by distance over 20 of them, 8 x (2 x 10 + 20). With 5 tokens of memory there are
    # 15 keys and 25 distances: one layer for 10 tokens, keys and values in both; queries for 2 positions in both, their
    # distances for all 10, and the vocabulary. Once forward: the memory's first layer, 8 x (2 x 5 + 10). Twice instead
    # of three times: keys and values of the memory, 2 x 64, and moving 2 queries to 10 places, 8 wide.
    "xlnet": (
        2 * 2 * (512 + 320),
        (
            10 * 2 * (384 + 8 * (30 + 25) + 2 * 128)
            + 2 * 2 * (2 * (384 + 8 * 30) + 10 * 8 * 25)
            + 2 * 2 * 800
            + (2 * 2 * 2 * (5 * 128 + 2 * 10 * 8) + 5 * 2 * (512 + 160)) / 3
        )
        / 10,
    ),
    # One layer for the row; one for the contents of 2 slots, over 12 keys; in the other, keys and values of 12; queries
    # in both, 2 x 64 + 2 x 128 and 12 keys; the head.
    "mpnet": (
        2 * LAYER,
        (10 * LAYER + 2 * 2 * (512 + 2 * 8 * 12) + 12 * 2 * 128 + 2 * 2 * 2 * (384 + 2 * 8 * 12)) / 10 + MASKED,
    ),
    # 10 words of the one block, 5 places on either side of it and 64 noise words, 8 wide.
    "word2vec": (0, 2 * 8 * 84),
    "fasttext": (0, 2 * 8 * 84),
    # Up to 20 places on either side, but no more than the block has, and 64 noise words of both languages.
    "biskip": (0, 2 * 8 * (10 + 2 * 10 + 2 * 64)),
    # The shares of the 20 places in a mean have no gradient.
    "cbow": (0, 2 * 8 * (20 * 2 / 3 + 64)),
    # 100 words need paths of 7 turns, and paths may have 8 more. Each of 10 neighbours is multiplied along the path.
    "word2vec_hs": (0, 2 * 8 * 15 * 10),
    "cbow_hs": (0, 2 * 8 * (20 * 2 / 3 + 15)),
    # The vector of a new text is multiplied with 10 tokens and 64 noise words, forward and backward, in 10 steps; in
    # training with 64 noise words. With neighbours, the token and the noise words are multiplied with these once.
    "pv_dbow": (10 * 2 * 2 * 8 * 74 / 10, 2 * 8 * 64),
    "pv_dm": (2 * 8 * 65 + 10 * 2 * 2 * 8 * 74 / 10, 2 * 8 * 64),
    # One pair of words.
    "glove": (0, 2 * 8),
    # 11 places of a window and another middle, 8 x 16 each, and two scores of 16.
    "cw": (0, 2 * (12 * 8 * 16 + 2 * 16)),
    # Four words to 16 units, and 9 of 10 tokens are predicted over 100 words.
    "nnlm": (0, 2 * (4 * 8 * 16 + 16 * 100 * 9 / 10)),
    # ELMo's two layers in two directions; 8 of 10 tokens reach two layers of 8 x 8 and 64 noise words.
    "context2vec": (2 * 2 * DIRECTION, 2 * 2 * DIRECTION + 2 * (2 * 64 + 8 * 64) * 8 / 10),
}
LOOPED = {
    **dict.fromkeys(("elmo", "elmo_cnn", "context2vec"), lambda s, t: t * s.layers * 2 * (s.width // 2) * 5 * s.inner),
    "flair": lambda s, t: t * s.layers * 2 * s.width**2,
    "lm_lstm": lambda s, t: t * s.layers * 4 * s.width**2,
    "sa_lstm": lambda s, t: (2 * t - 1) * s.layers * 4 * s.width**2,
    "skip_thought": lambda s, t: t * 3 * 3 * s.width**2,
    # The decoder without the product of the token in its first layer, and without the vocabulary.
    "cove": lambda s, t: t * s.layers * s.width**2 / 2 + (t - 1) * ((8 * s.layers + 3) * s.width**2 / 4 + t * s.width),
    "ulmfit": lambda s, t: t * 4 * ((s.layers - 1) * s.inner**2 + s.width**2),
}
"""Recurrent products of a forward pass over a row. They are in the bodies of loops."""
CONVOLUTIONS = {
    "Conv2D": lambda op: (op.outputs[0], op.inputs[1]),
    "Conv2DBackpropInput": lambda op: (op.inputs[2], op.inputs[1]),
    "Conv2DBackpropFilter": lambda op: (op.inputs[2], op.outputs[0]),
}
"""For each operation, its tensor of sums at all places (or of their gradient) and its kernel (or the gradient)."""
RATIO = {
    **dict.fromkeys(("t5", "t5_1_1", "prophetnet"), 0.005),
    "bart": 0.01,
    "star_transformer": 0.03,
    "transformer_xl": 0.04,
    "xlnet": 0.06,
}
"""The largest relative difference between the matrix products of a graph and the formula, for models where they differ.
Targets are whole tokens, and the formula takes the paper's share of them. The keys of distances are computed once for
all rows, here for 2, and the formula does not count them. The products with the five keys of each token of the
Star-Transformer, which the formula counts, are element-wise."""

every_model = pytest.mark.parametrize("name", models.names())


@pytest.mark.parametrize("name", HAND)
def test_formulas_match_hand_counts(name):
    module = models.load(name)
    encoder, whole = HAND[name]
    model = module.describe(SIZE, VOCABULARY)
    assert model.encoder_flops(10) == pytest.approx(10 * encoder)
    assert model.training_flops(10) == pytest.approx(30 * whole)  # the backward pass costs twice the forward pass


def test_media_flops_depend_on_the_number_of_regions():
    """4 regions of 3 features after 10 tokens: 4 more vectors, 14 keys for all, and the products of the features."""
    model = models.load("visualbert").describe(SIZE, VOCABULARY)
    added = 14 * 2 * 2 * (512 + 2 * 14 * 8) - 10 * 2 * LAYER + 4 * 2 * 3 * 8
    assert model.media_flops(10, {"regions": 4}) == pytest.approx(added)
    assert model.media_flops(10, {"regions": 0}) == model.media_flops(10, {}) == 0
    assert models.load("bert").describe(SIZE, VOCABULARY).media_flops(10, {"regions": 4}) == 0


def test_computed_embeddings_are_counted_separately():
    """ELMo computes vectors from letters. ALBERT widens 4 columns to 8, and ELECTRA the configured number."""
    narrow = replace(SIZE, embedding=2)
    for name, size, expected_flops in (
        ("elmo_cnn", SIZE, SPELLED),
        ("albert", SIZE, 2 * 32),
        ("electra", narrow, 2 * 16),
    ):
        assert models.load(name).describe(size, VOCABULARY).embedding_flops(1) == expected_flops
    assert models.load("electra").describe(SIZE, VOCABULARY).embedding_flops(1) == 0


def test_likelihood_and_decode_flops_by_hand():
    for name, share in (("gpt", 3), ("elmo", 6)):  # ELMo computes likelihoods with one of its two directions
        model = models.load(name).describe(SIZE, VOCABULARY)
        assert model.training_flops(10) == pytest.approx(share * model.likelihood_flops(10))
    gpt = models.load("gpt").describe(SIZE, VOCABULARY).decode_flops(7, 3)
    assert gpt == 10 * 2 * LAYER + 3 * 2 * 800
    t5 = models.load("t5").describe(SIZE, VOCABULARY)
    assert t5.decode_flops(10, 1) == 10 * 2 * (LAYER + 256) + 2 * 2 * 816 + 1600


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Removes the zeros that separate rows in a processor's cache: they are no work of the model."""
    monkeypatch.setattr("ptmbench.models.layers.products.accelerated", lambda: True)


@every_model
def test_formulas_match_the_products_in_the_graph(name):
    """Counts the matrix products of the traced forward and backward pass by their shapes.

    Products in the bodies of while loops are not visible: the recurrent products of LSTMs.
    """
    module, rows, length = models.load(name), 2, 64
    size = Size(layers=2, width=64, heads=2, inner=256, length=length)
    expected = module.describe(size, VOCABULARY).step_flops(rows, length)
    if name == "glove":
        expected = 0  # it multiplies two vectors element by element
    if name in LOOPED:
        expected -= 3 * rows * 2 * LOOPED[name](size, length)
    result, encoder = graph_flops(module, size, rows, length), module.describe(size, VOCABULARY).encoder
    if name not in LOOPED and module.CARD.architecture is Architecture.LSTM:
        assert 0 < result <= expected
        return
    # Segments are looked up by a matrix product, which the formula treats as a look-up.
    segments = isinstance(encoder, EncoderConfig) and encoder.embeddings.segments is not None
    assert result == pytest.approx(expected, rel=RATIO.get(name, 0.003 if segments else 1e-6))


def test_narrow_embeddings_are_counted():
    """ELECTRA-small's embeddings: the encoder widens them, and the generator and the output layer use them
    unchanged."""
    module, size = models.load("electra"), Size(layers=2, width=64, heads=2, inner=256, length=64, embedding=16)
    built = module.build(size, VOCABULARY)
    model = module.describe(size, VOCABULARY)
    assert model.parameters().total == sum(int(np.prod(v.shape)) for v in built.loss.variables)
    assert graph_flops(module, size, 2, 64) == pytest.approx(2 * model.training_flops(64), rel=0.003)


def graph_flops(module, size, rows, length):
    """Returns the FLOPs of the matrix products in a training step of one batch, from its graph after pruning."""
    import tensorflow as tf

    built = build(module, size, VOCABULARY)
    built.encoder.dropout = 0.0
    batch = built.batches(corpus(2 if PAIRS in built.batches.needs else 20), rows, length)(0, 0)
    variables = [v.value for v in built.loss.trainable_variables]

    def gradients(batch):
        with tf.GradientTape() as tape:
            loss = built.loss(batch, seed=tf.constant([1, 2]))["loss"]
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables) if g is not None]

    specs = {key: tf.TensorSpec(value.shape, value.dtype) for key, value in batch.items()}
    graph = tf.function(gradients, autograph=False).get_concrete_function(specs).graph
    return sum(map(operation_flops, required_operations(graph)))


def required_operations(graph):
    """Yields the operations that the outputs of ``graph`` depend on. Others never run."""
    left, seen = [tensor.op for tensor in graph.outputs], set()
    while left:
        op = left.pop()
        if op.name not in seen:
            seen.add(op.name)
            left += [tensor.op for tensor in op.inputs]
            yield op


def operation_flops(op):
    """Returns the FLOPs of a matrix product or a convolution, two for each multiplication with its addition; 0 for
    other operations."""
    if op.type in CONVOLUTIONS:
        places, kernel = CONVOLUTIONS[op.type](op)
        return 2 * places.shape.num_elements() * int(np.prod(kernel.shape[:-1]))
    flags = {"MatMul": "transpose_a", "BatchMatMulV2": "adj_x"}
    if op.type not in flags:
        return 0
    inner = op.inputs[0].shape[-2 if op.get_attr(flags[op.type]) else -1]
    return 2 * inner * op.outputs[0].shape.num_elements()


def corpus(sentences):
    """Random words in sentences of ten, with ``sentences`` of these in each document."""
    ids = np.random.default_rng(0).integers(VOCABULARY.first, VOCABULARY.size, 2000).astype(np.int32)
    ends = np.arange(0, 2001, 10)
    languages = (np.arange(2000) // 10 % 2 + 1).astype(np.int32)
    return Corpus(
        ids=ids,
        sentences=ends,
        documents=ends[::sentences] // 10,
        heads=np.ones(2000, bool),
        layers={"languages": languages, "entities": languages * (np.arange(2000) % 10 == 0)},
        vectors={"entities": np.pad(np.ones((2, 4), np.float32), [(1, 0), (0, 0)])},
        media=Media(
            np.arange(1 + 200 // sentences),
            {"regions": np.ones(600, np.float32), "boxes": np.tile(np.float32([0, 0, 1, 1]), 200)},
            {"regions": 3, "boxes": 4},
        ),
    )
