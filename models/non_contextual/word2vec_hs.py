"""word2vec with hierarchical softmax: skip-gram with a probability for each word.

Mikolov, Chen, Corrado and Dean (2013). Efficient Estimation of Word Representations in Vector Space. ICLR workshop.
Taxonomy: non-contextual; lookup table; skip-gram; no extension.

Words are the leaves of a Huffman tree. From a word, the path to its neighbour turns left or right at each inner node,
with a probability from the node's vector. Frequent words have short paths. Unlike negative sampling this is a true
distribution over the vocabulary, and rare words share what is learned at the nodes above them.

    L = - sum over inner nodes n on the way to c of  ln s(+- u_n . v_w)        for a word w and its neighbour c

Nearest relative: `word2vec`, which has the same pairs of words and negative sampling.
"""

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.vector_heads import TreeConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="word2vec (HS)",
    citation="Mikolov et al. (2013)",
    paper="Efficient Estimation of Word Representations in Vector Space",
    url="https://arxiv.org/abs/1301.3781",
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

SIZES = word_vectors.SIZES

LEARNING_RATE = 1e-2
"""With `tiny`, after 200 steps of 1024 tokens of wikitext-2, the loss is 7.27; with 1e-3 7.58."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    head = TreeConfig(width=size.width, words=vocabulary.size)
    return EncoderModel(encoder=word_vectors.words(size, vocabulary.size), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.vectors import built
    from ptmbench.models.objectives import hierarchical_softmax

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = hierarchical_softmax.HierarchicalSkipGram.over(encoder, described.heads[0])
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=hierarchical_softmax.batches.of(vocabulary.size),
    )
