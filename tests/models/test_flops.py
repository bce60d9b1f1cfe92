"""FLOPs by formula: against a hand count, and against the graph that TensorFlow's own profiler reads."""

import numpy as np
import pytest

import models
from models.card import Size
from models.corpus import Corpus
from models.tokenizers import Vocabulary

SIZE = Size(layers=2, width=8, heads=2, inner=16, length=64)
VOCABULARY = Vocabulary(size=100)

# Forward FLOPs per token of rows of 10 tokens at `SIZE`, two for each multiplication with its addition. A Transformer
# layer: query, key, value and output 4 x 8 x 8, feed-forward 2 x 8 x 16, so 512 products; scores and mixing over 10
# keys 2 x 10 x 8 = 160 more. Together 2 x 672 = 1344.
LAYER = 1344
# 2 of 10 tokens are masked. Each takes the head's 8 x 8 and the 8 x 100 of the vocabulary: 2 x 864 / 5 per token.
MASKED = 2 * 864 * 2 / 10
# An LSTM direction with state 4 and 16 cells: input and recurrent 2 x 4 x 64, projection 16 x 4.
DIRECTION = 2 * (512 + 64)
HAND = {
    # The pooler's 8 x 8 and the two classes' 8 x 2 once a row.
    "bert": (2 * LAYER + 2 * 64 / 10, 2 * LAYER + 2 * 64 / 10 + MASKED + 2 * 16 / 10),
    # The generator is as wide (no narrower than 64 would be the paper's): width 8, inner 32, 1 head: a layer of
    # 4 x 64 + 2 x 8 x 32 + 160 = 928 products. Projection 8 x 8 and the discriminator's 8 x 8 and 8 for each token.
    "electra": (2 * LAYER, 2 * LAYER + 2 * 2 * 928 + 2 * 64 + MASKED + 2 * 64 + 2 * 8),
    # 9 of 10 tokens are predicted over 100 words: in two directions of width 4, or in one of width 8.
    "elmo": (2 * 2 * DIRECTION, 2 * 2 * DIRECTION + 2 * 2 * 4 * 100 * 9 / 10),
    "gpt": (2 * LAYER, 2 * LAYER + 2 * 8 * 100 * 9 / 10),
    # Beside each token stand 2/9 of a target token, which takes 6 x 64 + 256 products, 2 x 8 x 20/9 over the targets
    # and 2 x 8 x 10 over the source, and the vocabulary; keys and values of the memory take 2 x 64 for each token.
    "t5": (2 * LAYER, 2 * (LAYER + 2 * 128) + 2 / 9 * (2 * 2 * (640 + 16 * 20 / 9 + 160) + 2 * 800)),
    # 10 words and 64 noise words, 8 wide.
    "word2vec": (0, 2 * 8 * 74),
}
RATIO = {"t5": 0.03, "bert": 0.02, "electra": 0.02, "gpt": 1e-6, "word2vec": 1e-6, "elmo": 1e-6}
"""How far the profiler's matrix products may be from the formula. It counts no more than them for GPT, word vectors
and what stands outside of ELMo's loops. BERT and ELECTRA look their two segments up by a product, which the formula
leaves to the lookups; T5's targets are whole tokens, where the formula takes the paper's share of them."""

every_model = pytest.mark.parametrize("name", models.names())


@every_model
def test_formulas_are_the_hand_counts(name):
    module = models.load(name)
    encoder, whole = HAND[name]
    assert module.encoder_flops_per_token(SIZE, 10) == pytest.approx(encoder)
    assert module.flops_per_token(SIZE, VOCABULARY, 10) == pytest.approx(3 * whole)  # backward is twice forward


def test_asking_and_writing_are_parts_of_the_same_count():
    for name, share in (("gpt", 3), ("elmo", 6)):  # ELMo answers from one of its two directions
        module = models.load(name)
        once = module.likelihood_flops_per_token(SIZE, VOCABULARY, 10)
        assert module.flops_per_token(SIZE, VOCABULARY, 10) == pytest.approx(share * once)
    gpt = models.load("gpt").decode_flops(SIZE, VOCABULARY, 7, 3)
    assert gpt == 10 * 2 * LAYER + 3 * 2 * 800
    assert models.load("t5").decode_flops(SIZE, VOCABULARY, 10, 1) == 10 * 2 * (LAYER + 256) + 2 * 2 * 816 + 1600


@every_model
def test_formulas_are_what_the_profiler_counts(name):
    """TensorFlow's profiler over the traced forward and backward pass.

    What it counts: MatMul and BatchMatMulV2 as the formulas do, element-wise operations and reductions besides (3 to
    6 % here). What it does not: the bodies of while loops, which hold ELMo's recurrent products, and transposed
    operands of batched products, whose inner dimension it mistakes: rows of 64 tokens are as long as word2vec's noise.
    """
    module, rows, length = models.load(name), 2, 64
    size = Size(layers=2, width=64, heads=2, inner=256, length=length)
    products, everything = profiled(module, size, rows, length)
    expected = rows * length * module.flops_per_token(size, VOCABULARY, length)
    if name == "elmo":
        state, cells = size.width // 2, size.inner
        looped = 2 * size.layers * 2 * (state * 4 * cells + cells * state)
        expected -= 3 * rows * length * looped
    assert products == pytest.approx(expected, rel=RATIO[name])
    assert 1.0 < everything / products < 1.1


def profiled(module, size, rows, length):
    """Training FLOPs of one batch by TensorFlow's profiler: those of matrix products, and all."""
    import tensorflow as tf

    built = module.build(size, VOCABULARY)
    built.encoder.dropout = 0.0
    batch = built.batches(corpus(), rows, length)(0, 0)
    variables = [v.value for v in built.loss.trainable_variables]

    def gradients(batch):
        with tf.GradientTape() as tape:
            loss = built.loss(batch, seed=tf.constant([1, 2]))["loss"]
        return tape.gradient(loss, variables)

    specs = {key: tf.TensorSpec(value.shape, value.dtype) for key, value in batch.items()}
    graph = tf.function(gradients, autograph=False).get_concrete_function(specs).graph
    profiler = tf.compat.v1.profiler
    options = profiler.ProfileOptionBuilder(profiler.ProfileOptionBuilder.float_operation()).with_empty_output()
    counted, by_kind = profiler.profile(graph, cmd="op", options=options.build()), {}
    node = counted
    while node.children:  # the "op" view is a chain: each node holds the next
        node = node.children[0]
        by_kind[node.name] = node.float_ops
    return by_kind.get("MatMul", 0) + by_kind.get("BatchMatMulV2", 0), counted.total_float_ops


def corpus():
    """One text of random words in sentences of ten."""
    ids = np.random.default_rng(0).integers(VOCABULARY.first, VOCABULARY.size, 2000).astype(np.int32)
    ends = np.arange(0, 2001, 10)
    return Corpus(ids=ids, sentences=ends, documents=ends[::20] // 10, heads=np.ones(2000, bool))
