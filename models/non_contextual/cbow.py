"""CBOW: one vector per word, learned from the mean of the words around it.

Mikolov, Chen, Corrado and Dean (2013). Efficient Estimation of Word Representations in Vector Space. ICLR workshop.
Taxonomy: non-contextual; lookup table; CBOW; no extension.

The other half of word2vec. The mean of the vectors in a window, without their order, has to tell the word in the middle
from a few random ones. A word is predicted once, not once per neighbour. This is faster by the size of the window, and
smoother, so that frequent words profit more than rare ones.

    L = - ln s(u_w . h) - k E_{n ~ p} ln s(- u_n . h),        h = mean of v_c over the words c around w

Nearest relative: word2vec's skip-gram (`word2vec`), the same two tables, in which a word predicts its neighbours.
"""

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.vector_heads import MeansConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_4 = "Pennington et al. (2014), table 4, 50 per word, as features of a CRF"

CARD = Card(
    title="CBOW",
    citation="Mikolov et al. (2013)",
    paper="Efficient Estimation of Word Representations in Vector Space",
    url="https://arxiv.org/abs/1301.3781",
    aliases=("CBOW-NS",),
    year=2013,
    representation=Representation.NON_CONTEXTUAL,
    architecture=Architecture.LOOKUP,
    objectives=("cbow",),
    loss="L_CBOW-NS",
    tokenizer="word",
    corpus="Google News (6 billion words)",
    parameters="300 per word; vocabulary of one million",
    reference="gensim's Word2Vec: steps, what is dropped and drawn; its equations, written out in NumPy",
    optimizer="SGD",
    reported=(Reported(task="conll2003", metric="f1", value=88.2, source=_TABLE_4),),
)

SIZES = word_vectors.SIZES

LEARNING_RATE = 1e-2
"""With `tiny`, after 100 steps of 4096 tokens of wikitext-2, the loss is 2.77; with 1e-3 4.09."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    head = MeansConfig(width=size.width, words=vocabulary.size)
    return EncoderModel(encoder=word_vectors.words(size, vocabulary.size), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.vectors import built
    from ptmbench.models.objectives import cbow

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = cbow.Cbow.over(encoder, described.heads[0])
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=cbow.batches.of(),
    )
