"""fastText: word vectors that depend on the spelling of words.

Bojanowski, Grave, Joulin and Mikolov (2017). Enriching Word Vectors with Subword Information. TACL.
Taxonomy: non-contextual; lookup table of words and character n-grams; skip-gram; no extension.

For word2vec, "writes", "writer" and "writing" have nothing in common. Here a word is the mean of its own vector and the
vectors of its n-grams of 3 to 6 characters, with < and > at its ends. So related words learn from each other, above all
in languages with many word forms. The n-grams share a fixed number of vectors by a hash. Neighbours and noise words
have plain vectors.

    L = - ln s(u_c . v_w) - k E_{n ~ p} ln s(- u_n . v_w),        v_w = mean over g in {w} and n-grams of w of z_g

Nearest relative: `word2vec`, the same loss on a table without n-grams.
"""

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.vector_heads import NegativeSamplingConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="fastText",
    citation="Bojanowski et al. (2017)",
    paper="Enriching Word Vectors with Subword Information",
    url="https://arxiv.org/abs/1607.04606",
    year=2017,
    representation=Representation.NON_CONTEXTUAL,
    architecture=Architecture.LOOKUP,
    objectives=("skipgram",),
    loss="L_SGNS",
    tokenizer="word",
    corpus="Wikipedia in nine languages",
    parameters="300 per word, and 2 million n-grams",
    reference="the authors' fasttext: n-grams, vectors; gensim's FastText: steps; its equations, written out in NumPy",
    optimizer="SGD",
    licence="CC BY-SA 3.0",
)

# ``inner`` is the number of vectors that the n-grams share; the paper has two million.
SIZES = {
    "tiny": Size(layers=0, width=128, inner=20_000, length=4096),
    "mini": Size(layers=0, width=256, inner=50_000, length=4096),
    "small": Size(layers=0, width=512, inner=200_000, length=4096),
    "base": Size(layers=0, width=1000, inner=2_000_000, length=4096),
}

LEARNING_RATE = 1e-2
"""The rate of `word2vec`, which has the same loss."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    head = NegativeSamplingConfig(width=size.width, words=vocabulary.size)
    return EncoderModel(encoder=word_vectors.subwords(size, vocabulary), heads=(head,))


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
