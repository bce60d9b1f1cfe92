"""CBOW with hierarchical softmax: the default of the first release of word2vec.

Mikolov, Chen, Corrado and Dean (2013). Efficient Estimation of Word Representations in Vector Space. ICLR workshop.
Taxonomy: non-contextual; lookup table; CBOW; no extension.

From the mean of the vectors around a word, the model predicts the path to this word in a Huffman tree of the
vocabulary: left or right at each inner node. With one prediction per word and about log2 V products for each, it is the
cheapest of word2vec's methods that need no noise.

    L = - sum over inner nodes n on the way to w of  ln s(+- u_n . h),        h = mean of v_c over the words c around w

Nearest relative: `cbow`, which has the same means and negative sampling.
"""

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.vector_heads import MeansTreeConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="CBOW (HS)",
    citation="Mikolov et al. (2013)",
    paper="Efficient Estimation of Word Representations in Vector Space",
    url="https://arxiv.org/abs/1301.3781",
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

SIZES = word_vectors.SIZES

LEARNING_RATE = 1e-2
"""The rate of `cbow` and `word2vec_hs`, which it combines."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    head = MeansTreeConfig(width=size.width, words=vocabulary.size)
    return EncoderModel(encoder=word_vectors.words(size, vocabulary.size), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.vectors import built
    from ptmbench.models.objectives import hierarchical_softmax

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = hierarchical_softmax.HierarchicalCbow.over(encoder, described.heads[0])
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=hierarchical_softmax.batches.of(vocabulary.size),
    )
