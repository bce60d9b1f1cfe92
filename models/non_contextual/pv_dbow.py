"""PV-DBOW: one vector per text, learned by predicting the text's words from it.

Le and Mikolov (2014). Distributed Representations of Sentences and Documents. ICML.
Taxonomy: non-contextual; lookup table; paragraph vectors; no extension.

A document gets a vector as a word does. From this vector alone, the words of the document have to be told from random
words, whatever their positions: it compresses a bag of words to a few numbers. Each word has one vector, in the output
layer. A new text gets its vector by a few steps of gradient descent with all else frozen, so this network has to train
to encode a text.

    L = - ln s(u_w . d) - k E_{n ~ p} ln s(- u_n . d)        for each word w of a text d, noise words n

Nearest relative: word2vec's skip-gram (`word2vec`), which predicts from the word in the middle, not from the text.
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
"""The rate of `word2vec`, which has the same loss."""


def describe(size: Size, vocabulary: Vocabulary) -> TablesModel:
    """Returns the configuration of the network of ``size``."""
    return TablesModel(encoder=word_vectors.paragraphs(size, vocabulary), heads=(NoiseWordsConfig(width=size.width),))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
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
