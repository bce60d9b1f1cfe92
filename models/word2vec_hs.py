"""word2vec with hierarchical softmax: skip-gram that gives words a probability.

Mikolov, Chen, Corrado and Dean (2013). Efficient Estimation of Word Representations in Vector Space. ICLR workshop.
Taxonomy: non-contextual; lookup table; skip-gram; no extension.

Words are the leaves of a Huffman tree. From a word, its neighbour is found by turning left or right at each inner node,
whose vector says with what probability; frequent neighbours are a few turns away. Unlike negative sampling this is a
true distribution over the vocabulary, and rare words share what is learned at the nodes above them.

    L = - sum over inner nodes n on the way to c of  ln s(+- u_n . v_w)        for a word w and its neighbour c

Nearest relative: `models.word2vec`, the same pairs of words told from noise.
"""

from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

CARD = Card(
    title="word2vec (HS)",
    citation="Mikolov et al. (2013)",
    year=2013,
    representation=Representation.NON_CONTEXTUAL,
    architecture=Architecture.LOOKUP,
    objectives=("hierarchical_softmax",),
    loss="L_SG-HS",
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
"""With `tiny`, after 200 steps of 1024 tokens of wikitext-2, the loss is 7.27; with 1e-3 7.58."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The table of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.word_vectors import WordVectors
    from ptmbench.models.objectives import hierarchical_softmax

    encoder = WordVectors(size, vocabulary.size)
    return Pretrainable(
        encoder=encoder,
        loss=hierarchical_softmax.HierarchicalSkipGram(encoder),
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
    """FLOPs of a training step per input token: three times the scores of its way's nodes with ten neighbours."""
    turns = max(1, (vocabulary.size - 1).bit_length()) + 8  # down the tree
    return 3 * 2 * size.width * turns * 10
