"""CBOW with hierarchical softmax: what the first release of word2vec did unless told otherwise.

Mikolov, Chen, Corrado and Dean (2013). Efficient Estimation of Word Representations in Vector Space. ICLR workshop.
Taxonomy: non-contextual; lookup table; CBOW; no extension.

The mean of the vectors around a word is asked for the way to this word in a Huffman tree of the vocabulary: at each
inner node, left or right. One prediction per word and about log2 V products for each make it the cheapest of the four
ways of word2vec that needs no noise.

    L = - sum over inner nodes n on the way to w of  ln s(+- u_n . h),        h = mean of v_c over the words c around w

Nearest relative: `models.cbow`, the same means told from noise.
"""

from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

CARD = Card(
    title="CBOW (HS)",
    citation="Mikolov et al. (2013)",
    year=2013,
    representation=Representation.NON_CONTEXTUAL,
    architecture=Architecture.LOOKUP,
    objectives=("cbow", "hierarchical_softmax"),
    loss="L_CBOW-HS",
    tokenizer="word",
    corpus="Google News (6 billion words)",
    parameters="300 per word; vocabulary of one million",
    reference="gensim's Word2Vec: trees and steps; fasttext: probabilities; its equations, written out in NumPy",
    optimizer="SGD",
)

SIZES = {
    "tiny": Size(layers=0, width=128, length=4096),
    "mini": Size(layers=0, width=256, length=4096),
    "small": Size(layers=0, width=512, length=4096),
    "base": Size(layers=0, width=1000, length=4096),
}

LEARNING_RATE = 1e-2
"""That of `models.cbow` and `models.word2vec_hs`, whose halves it joins."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The table of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.word_vectors import WordVectors
    from ptmbench.models.objectives import hierarchical_softmax

    encoder = WordVectors(size, vocabulary.size)
    return Pretrainable(
        encoder=encoder,
        loss=hierarchical_softmax.HierarchicalCbow(encoder),
        batches=lambda corpus, batch, length: hierarchical_softmax.batches(corpus, vocabulary.size, batch, length),
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in lookup tables: the same, the words' and the inner nodes' vectors."""
    weights = (2 * vocabulary.size - 1) * size.width
    return weights, weights


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token: a lookup multiplies nothing."""
    return 0.0


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: means over the tokens of a block and beside it, whose shares have no
    gradient, and three times the scores of the nodes on its way."""
    turns = max(1, (vocabulary.size - 1).bit_length()) + 8  # down the tree
    blocks = -(-length // 32)
    block = -(-length // blocks)
    means = (block + 2 * 5) * blocks * block / length
    return 2 * 2 * size.width * means + 3 * 2 * size.width * turns
