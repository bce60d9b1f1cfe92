"""Tables of vectors of words and whole texts: representations without context.

Sources: Mikolov et al. (2013), section 3; Pennington et al. (2014), section 4.2; Bojanowski et al. (2017), section 3.2;
Le and Mikolov (2014). The survey's first axis begins with them. They are encoders like the others, so every head and
adaptation can use them. Their layers are in `models.layers.vectors`.
"""

from dataclasses import replace

from ptmbench.models.card import Size
from ptmbench.models.layers.vectors_config import (
    ParagraphsConfig,
    ParagraphsInContextConfig,
    SubwordVectorsConfig,
    SummedVectorsConfig,
    WordVectorsConfig,
    table,
)
from ptmbench.models.text.tokenizers import Vocabulary

SIZES = {
    "tiny": Size(layers=0, width=128, length=4096),
    "mini": Size(layers=0, width=256, length=4096),
    "small": Size(layers=0, width=512, length=4096),
    "base": Size(layers=0, width=1000, length=4096),
}
"""Sizes of models that have tables of words alone."""
WINDOW_SIZES = {name: replace(size, inner=size.width) for name, size in SIZES.items()}
"""Sizes of models with a hidden layer over the words of a window."""
PARAGRAPH_SIZES = {
    name: replace(SIZES[name], layers=1, inner=texts)
    for name, texts in (("tiny", 20_000), ("mini", 50_000), ("small", 200_000), ("base", 2_000_000))
}
"""Sizes of models with vectors of texts. Up to ``inner`` texts have a vector of their own; more share them."""


def words(size: Size, vocabulary: int) -> WordVectorsConfig:
    """One table of word vectors."""
    return WordVectorsConfig(tokens=table(vocabulary, size.width), length=size.length)


def sums(size: Size, vocabulary: int) -> SummedVectorsConfig:
    """Two tables, for centre words and for context words."""
    both = table(vocabulary, size.width)
    return SummedVectorsConfig(tokens=both, contexts=both, length=size.length)


def subwords(size: Size, vocabulary: Vocabulary) -> SubwordVectorsConfig:
    """A table of words and one of F vectors that their n-grams share."""
    return SubwordVectorsConfig(
        tokens=table(vocabulary.size, size.width),
        ngrams=table(size.inner, size.width),
        length=size.length,
        first=vocabulary.first,
        pieces=vocabulary.pieces or (),
    )


def paragraphs(size: Size, vocabulary: Vocabulary) -> ParagraphsConfig:
    """DBOW: a text's vector predicts its words by itself. Each training text has a row of a table. If there are more
    than F texts, they share rows."""
    return ParagraphsConfig(**_texts(size, vocabulary))


def paragraphs_in_context(size: Size, vocabulary: Vocabulary) -> ParagraphsInContextConfig:
    """DM: a text's vector predicts a word together with the words around it."""
    return ParagraphsInContextConfig(**_texts(size, vocabulary), tokens=table(vocabulary.size, size.width))


def _texts(size: Size, vocabulary: Vocabulary) -> dict:
    return {
        "documents": table(size.inner, size.width),
        "answers": table(vocabulary.size, size.width),
        "length": size.length,
        "first": vocabulary.first,
        "unknown": vocabulary.unk,
    }
