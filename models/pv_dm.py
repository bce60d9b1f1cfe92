"""PV-DM: one vector per text, a memory of what the words around a word do not tell.

Le and Mikolov (2014). Distributed Representations of Sentences and Documents. ICML.
Taxonomy: non-contextual; lookup table; paragraph vectors; no extension.

CBOW with one more word in the bag: the document. The mean of its vector and of those of the words around a place has to
tell the word in this place from random ones. What the neighbours know by themselves the document's vector need not say,
so that the topic is left to it. A text that was not there in training gets its vector by a few steps of gradient
descent with all else frozen. The paper averages or concatenates, and prefers the latter; this is the mean.

    L = - ln s(u_w . h) - k E_{n ~ p} ln s(- u_n . h),        h = mean of d and of v_c over the words c around w

Nearest relative: `models.cbow`, without the document; `models.pv_dbow`, without the words.
"""

from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

CARD = Card(
    title="PV-DM",
    citation="Le and Mikolov (2014)",
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

# ``inner`` is the number of texts that have a vector of their own; more share them.
SIZES = {
    "tiny": Size(layers=1, width=128, inner=20_000, length=4096),
    "mini": Size(layers=1, width=256, inner=50_000, length=4096),
    "small": Size(layers=1, width=512, inner=200_000, length=4096),
    "base": Size(layers=1, width=1000, inner=2_000_000, length=4096),
}

LEARNING_RATE = 1e-2
"""That of `models.cbow`, whose loss it has."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The tables of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.paragraph_vectors import DmVectors
    from ptmbench.models.objectives import paragraph_vectors

    encoder = DmVectors(size, vocabulary)
    return Pretrainable(
        encoder=encoder,
        loss=paragraph_vectors.ParagraphVectors(encoder),
        batches=lambda corpus, batch, length: paragraph_vectors.batches(corpus, size.inner, batch, length),
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in lookup tables: the texts' vectors, the
    words' as neighbours and as answers, and the noise."""
    tables = (size.inner + 2 * vocabulary.size) * size.width
    return tables + vocabulary.size, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token: the neighbours' scores with the token and 64 noise words once, and
    10 steps, each with the text's scores of the row's tokens and of the noise, and with the way back."""
    return 2 * size.width * 65 + 10 * 2 * 2 * size.width * (1 + 64 / length)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the scores with the row's noise words."""
    noise = 64  # words per row
    return 3 * 2 * size.width * noise
