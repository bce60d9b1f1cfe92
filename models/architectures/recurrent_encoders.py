"""Recurrent networks that read in both directions: for ELMo, context2vec and Flair.

Sources: Peters et al. (2018), section 3.4, after Jozefowicz et al. (2016), with the cell of Sak et al. (2014), section
2, without peepholes; Akbik et al. (2018), sections 2.1 and 2.2. The layers are in `models.layers.recurrent` and
`models.layers.spelling`, the networks in `models.layers.recurrent_networks`.
"""

from ptmbench.models.card import Size
from ptmbench.models.layers.config import Config, Start, TableConfig
from ptmbench.models.layers.recurrent_config import (
    BidirectionalConfig,
    LstmConfig,
    RecurrentStackConfig,
    SpelledConfig,
    StringConfig,
)
from ptmbench.models.text.tokenizers import Vocabulary

CLIP = 3.0
"""Bound of ELMo's cells and projections, in the authors' code."""


def elmo(size: Size, vocabulary: int) -> BidirectionalConfig:
    """L layers in each direction, of F cells that are projected to D / 2 numbers. From the second one on, a layer adds
    its input to its output. Words are looked up in a table [V, D / 2] that both directions share; the paper computes
    their vectors from letters (`elmo_cnn`)."""
    return _elmo(size, _table(size, vocabulary, 1.0), 0.0)


def elmo_cnn(size: Size, vocabulary: Vocabulary, filters: tuple[tuple[int, int], ...]) -> BidirectionalConfig:
    """ELMo's full network: words are read letter by letter, and cells and projections are clipped at `CLIP`.
    ``filters`` are pairs of a window and a number of filters."""
    words = SpelledConfig(
        width=_half(size),
        words=vocabulary.size,
        first=vocabulary.first,
        filters=filters,
        pieces=vocabulary.pieces or (),
    )
    return _elmo(size, words, CLIP)


def flair(size: Size, vocabulary: Vocabulary) -> StringConfig:
    """L layers of D / 2 cells in each direction over characters, read where words begin and end.

    Tokens are characters with `--tokenizer character`, and "▁" precedes each word. "▁" belongs to the word's tokens but
    is not its first character. With pieces instead of characters, the first and the last piece are read in the same
    way.
    """
    cells = _half(size)
    return StringConfig(
        embeddings=_table(size, vocabulary.size, 4.0),
        stack=RecurrentStackConfig(layers=(LstmConfig(inputs=cells, cells=cells),) * size.layers),
        length=size.length,
        first=vocabulary.first,
        unknown=vocabulary.unk,
        pieces=vocabulary.pieces or (),
    )


def _elmo(size: Size, words: Config, clip: float) -> BidirectionalConfig:
    state = _half(size)
    layer = LstmConfig(inputs=state, cells=size.inner, projection=state, clip=clip)
    stack = RecurrentStackConfig(layers=(layer,) * size.layers, residual=True, ended=False)
    return BidirectionalConfig(embeddings=words, stack=stack, length=size.length)


def _table(size: Size, vocabulary: int, scale: float) -> TableConfig:
    """``scale`` 4 lets vectors move the gates (see `models.architectures.recurrent_decoders`)."""
    width = _half(size)
    start = Start(kind="random_normal", deviations=(scale * width**-0.5,))
    return TableConfig(rows=vocabulary, width=width, start=start)


def _half(size: Size) -> int:
    if size.width % 2:
        raise ValueError(f"A bidirectional LSTM needs an even width, not {size.width}: each direction has half of it.")
    return size.width // 2
