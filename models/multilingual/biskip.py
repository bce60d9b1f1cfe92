"""BiSkip: word vectors of two languages in one space, learned from texts and their translations.

Luong, Pham and Manning (2015). Bilingual Word Representations with Monolingual Quality in Mind. Workshop on Vector
Space Modeling for NLP.
Taxonomy: non-contextual; lookup table; skip-gram in two languages and between them; multilingual.

Skip-gram learns the vector of a word from its neighbours. With a translation, a word has neighbours in both languages:
the words around it, and the words around its place in the other text. So a word and its translation predict the same
neighbours and get similar vectors, while words of one language keep the distances that skip-gram gives them.

    L = L_SGNS(1, 1) + L_SGNS(2, 2) + L_SGNS(1, 2) + L_SGNS(2, 1)        from the words of one text to those of another

In contrast to the paper, both languages share a vocabulary, so words with the same spelling have one vector.
Nearest relative: word2vec (`word2vec`), which is the first two terms.
"""

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.vector_heads import BiSkipConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="BiSkip",
    citation="Luong et al. (2015)",
    paper="Bilingual Word Representations with Monolingual Quality in Mind",
    url="https://stanford.edu/~lmthang/bivec/",
    year=2015,
    representation=Representation.NON_CONTEXTUAL,
    architecture=Architecture.LOOKUP,
    objectives=("biskip",),
    extensions=("multilingual",),
    loss="L_SGNS within and between two languages",
    tokenizer="word",
    corpus="Europarl v7, German and English",
    parameters="40, 128, 256 or 512 per word",
    reference="none to install: its equations, written out in NumPy",
)

SIZES = {
    "tiny": Size(layers=0, width=128, length=4096),
    "mini": Size(layers=0, width=256, length=4096),
    "small": Size(layers=0, width=512, length=4096),
    "base": Size(layers=0, width=1000, length=4096),
}

LEARNING_RATE = 1e-2
"""As for skip-gram (`word2vec`)."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    head = BiSkipConfig(width=size.width, words=vocabulary.size)
    return EncoderModel(encoder=word_vectors.words(size, vocabulary.size), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.vectors import built
    from ptmbench.models.objectives import biskip

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = biskip.BiSkip.over(encoder, described.heads[0])
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=biskip.batches.of(vocabulary),
    )
