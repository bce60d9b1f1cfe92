"""word2vec: one vector per word, learned from the words around it.

Mikolov, Sutskever, Chen, Corrado and Dean (2013). Distributed Representations of Words and Phrases and their
Compositionality. NeurIPS.
Taxonomy: non-contextual; lookup table; skip-gram; no extension.

A word is known by the company it keeps. Skip-gram predicts from each word the words near it. Instead of a softmax over
the vocabulary, it only has to tell them from a few random words. There is no network: the result is a table with one
vector for all meanings of a word and all sentences. It is the baseline that contextual models have to beat.

    L = - ln s(u_c . v_w) - k E_{n ~ p} ln s(- u_n . v_w)        for a word w, its neighbour c, noise words n

Nearest relative: BERT's MLM (`bert`), which also relates a word to its context, but to all of it at once, in order,
and with a deep network that is kept.
"""

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.vector_heads import NegativeSamplingConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="word2vec",
    citation="Mikolov et al. (2013)",
    paper="Distributed Representations of Words and Phrases and their Compositionality",
    url="https://arxiv.org/abs/1310.4546",
    aliases=("Skip-Gram",),
    year=2013,
    representation=Representation.NON_CONTEXTUAL,
    architecture=Architecture.LOOKUP,
    objectives=("skipgram",),
    loss="L_SGNS",
    tokenizer="word",
    corpus="News articles (about one billion words)",
    parameters="300 per word; 692,000 words",
    reference="gensim's Word2Vec: steps, what is dropped and drawn; its equations, written out in NumPy",
    optimizer="SGD",
    licence="Apache-2.0",
)

SIZES = word_vectors.SIZES

LEARNING_RATE = 1e-2
"""After 400 steps on wikitext-2 and novels the loss is 2.50, with 3e-3 2.60, with 1e-3 2.85."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    head = NegativeSamplingConfig(width=size.width, words=vocabulary.size)
    return EncoderModel(encoder=word_vectors.words(size, vocabulary.size), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.vectors import built
    from ptmbench.models.objectives import skipgram

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = skipgram.SkipGram.over(encoder, described.heads[0])
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=skipgram.batches.of(),
    )
