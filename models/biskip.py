"""BiSkip: word vectors of two languages in one space, learned from texts beside their translations.

Luong, Pham and Manning (2015). Bilingual Word Representations with Monolingual Quality in Mind. Workshop on Vector
Space Modeling for NLP.
Taxonomy: non-contextual; lookup table; skip-gram in two languages and between them; multilingual.

Skip-gram knows a word by the company it keeps. In a text that stands beside its translation a word keeps company in
both languages: the words around it, and those around the place that it has in the other text. So a word and its
translation predict the same neighbours, and come to lie side by side, while words of one language keep the distances
that skip-gram gives them.

    L = L_SGNS(1, 1) + L_SGNS(2, 2) + L_SGNS(1, 2) + L_SGNS(2, 1)        from the words of one text to those of another

Differs from the paper in that both languages are one vocabulary: what is spelled alike has one vector.
Nearest relative: word2vec (`models.word2vec`), which is the first two terms.
"""

from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

CARD = Card(
    title="BiSkip",
    citation="Luong et al. (2015)",
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

PAIRS = True
"""Learns from texts beside their translations."""

SIZES = {
    "tiny": Size(layers=0, width=128, length=4096),
    "mini": Size(layers=0, width=256, length=4096),
    "small": Size(layers=0, width=512, length=4096),
    "base": Size(layers=0, width=1000, length=4096),
}

LEARNING_RATE = 1e-2
"""As for skip-gram (`models.word2vec`)."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The table of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.word_vectors import WordVectors
    from ptmbench.models.objectives import biskip

    encoder = WordVectors(size, vocabulary.size)
    return Pretrainable(
        encoder=encoder,
        loss=biskip.BiSkip(encoder),
        batches=lambda corpus, batch, length: biskip.batches(corpus, vocabulary, batch, length),
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in lookup tables: the same, the words' and the contexts' vectors."""
    return 2 * vocabulary.size * size.width, 2 * vocabulary.size * size.width


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token: a lookup multiplies nothing."""
    return 0.0


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the scores with the tokens of its block and those beside
    it, and with the row's noise words of both languages."""
    noise = 2 * 64  # words per row
    blocks = -(-length // 32)
    block = -(-length // blocks)
    near = (block + 2 * min(20, block)) * blocks * block / length
    return 3 * 2 * size.width * (near + noise)
