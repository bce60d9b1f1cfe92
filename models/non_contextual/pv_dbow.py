"""PV-DBOW: one vector per text, learned by predicting the text's words from it.

Le and Mikolov (2014). Distributed Representations of Sentences and Documents. ICML.
Taxonomy: non-contextual; lookup table; paragraph vectors; no extension.

A document gets a vector in the way a word does. Its vector alone has to tell the words that the document has from words
drawn at random, wherever they stand: a bag of words, squeezed through a few numbers. Words keep one vector each, as
answers. A text that was not there in training gets its vector by a few steps of gradient descent with all else frozen,
which makes this the one network here that learns while it reads.

    L = - ln s(u_w . d) - k E_{n ~ p} ln s(- u_n . d)        for each word w of a text d, noise words n

Nearest relative: word2vec's skip-gram (`word2vec`), with the text in the place of the word in the middle.
"""

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import TablesModel
from ptmbench.models.layers.vector_heads import NoiseWordsConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="PV-DBOW",
    citation="Le and Mikolov (2014)",
    paper="Distributed Representations of Sentences and Documents",
    url="https://arxiv.org/abs/1405.4053",
    year=2014,
    representation=Representation.NON_CONTEXTUAL,
    architecture=Architecture.LOOKUP,
    objectives=("paragraph_vectors",),
    loss="L_DBOW-NS",
    tokenizer="word",
    corpus="the task's own texts (for IMDb 75,000 reviews)",
    parameters="400 per word and text",
    reference="gensim's Doc2Vec: steps and noise; its equations, written out in NumPy",
    optimizer="SGD",
    reported=(
        Reported(
            task="imdb",
            metric="accuracy",
            value=92.58,
            source="Le and Mikolov (2014), table 2, both kinds of vectors together",
        ),
    ),
)

SIZES = word_vectors.PARAGRAPH_SIZES

LEARNING_RATE = 1e-2
"""That of `word2vec`, whose loss it has."""


def describe(size: Size, vocabulary: Vocabulary) -> TablesModel:
    """What the network of ``size`` is made of."""
    return TablesModel(encoder=word_vectors.paragraphs(size, vocabulary), heads=(NoiseWordsConfig(width=size.width),))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.layers.vectors import built
    from ptmbench.models.objectives import paragraph_vectors

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = paragraph_vectors.ParagraphVectors.over(encoder, described.heads[0])
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=paragraph_vectors.batches.of(size.inner),
    )
