"""Tables of vectors of words and whole texts: representations that know no context.

Sources: Mikolov et al. (2013), section 3; Pennington et al. (2014), section 4.2; Bojanowski et al. (2017), section 3.2;
Le and Mikolov (2014). The survey's first axis begins with them; they are encoders like the others, so that every head
and adaptation serves them too. Their layers are in `models.layers.vectors`.
"""

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


def words(size: Size, vocabulary: int) -> WordVectorsConfig:
    """One table."""
    return WordVectorsConfig(tokens=table(vocabulary, size.width), length=size.length)


def sums(size: Size, vocabulary: int) -> SummedVectorsConfig:
    """Two tables, for words in the middle and around it."""
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
    """DBOW: a text's vector predicts its words by itself. Texts that are trained on have a row of a table each; from F
    texts on, rows are shared."""
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
