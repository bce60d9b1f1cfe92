"""PV-DM: one vector per text, a memory of what the context of a word lacks.

Le and Mikolov (2014). Distributed Representations of Sentences and Documents. ICML.
Taxonomy: non-contextual; lookup table; paragraph vectors; no extension.

CBOW with one more word in the bag: the document. The mean of the document's vector and of the vectors around a place
has to tell the word in this place from random ones. The document's vector need not repeat information from the
neighbours, so it mostly learns the topic. A new text gets its vector by a few steps of gradient descent with all else
frozen. The paper averages or concatenates, and prefers the latter; this is the mean.

    L = - ln s(u_w . h) - k E_{n ~ p} ln s(- u_n . h),        h = mean of d and of v_c over the words c around w

Nearest relative: `cbow`, without the document; `pv_dbow`, without the words.
"""

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import TablesModel
from ptmbench.models.layers.vector_heads import NoiseWordsConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="PV-DM",
    citation="Le and Mikolov (2014)",
    paper="Distributed Representations of Sentences and Documents",
    url="https://arxiv.org/abs/1405.4053",
    year=2014,
    representation=Representation.NON_CONTEXTUAL,
    architecture=Architecture.LOOKUP,
    objectives=("paragraph_vectors",),
    loss="L_DM-NS",
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
"""The rate of `cbow`, which has the same loss."""


def describe(size: Size, vocabulary: Vocabulary) -> TablesModel:
    """Returns the configuration of the network of ``size``."""
    head = NoiseWordsConfig(width=size.width)
    return TablesModel(encoder=word_vectors.paragraphs_in_context(size, vocabulary), heads=(head,))


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
