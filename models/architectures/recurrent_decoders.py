"""Recurrent networks that read from left to right: for LM-LSTM and SA-LSTM, ULMFiT, MultiFiT and Skip-Thought.

Sources: Zaremba et al. (2014), section 3.1; Merity, Keskar and Socher (2018); Bradbury, Merity, Xiong and Socher
(2017); Kiros et al. (2015). The layers are in `models.layers.recurrent`, the networks in
`models.layers.recurrent_networks`.
"""

from collections.abc import Callable

from ptmbench.models.card import Size
from ptmbench.models.layers.config import Start, TableConfig
from ptmbench.models.layers.recurrent_config import (
    AwdConfig,
    AwdStackConfig,
    GruConfig,
    LeftToRightConfig,
    LstmConfig,
    QrnnConfig,
    RecurrentStackConfig,
    SentenceGruConfig,
)
from ptmbench.models.text.tokenizers import Vocabulary


def lstm(size: Size, vocabulary: int) -> LeftToRightConfig:
    """L layers of D cells over token vectors of width D (Zaremba et al., 2014)."""
    layers = (LstmConfig(inputs=size.width, cells=size.width),) * size.layers
    return LeftToRightConfig(
        tokens=_tokens(size, vocabulary), stack=RecurrentStackConfig(layers=layers), length=size.length
    )


def awd_lstm(size: Size, vocabulary: int) -> AwdConfig:
    """L layers with dropout nearly everywhere. The inner layers have F cells and the last one D, so that the table of
    token vectors is the output layer too (Merity et al., 2018, section 4.5)."""
    return _awd(size, vocabulary, lambda index, inputs, cells: LstmConfig(inputs=inputs, cells=cells))


def qrnn(size: Size, vocabulary: int) -> AwdConfig:
    """`awd_lstm` with quasi-recurrent layers. The first one also reads the token before (Bradbury et al., 2017)."""

    def layer(index: int, inputs: int, cells: int) -> QrnnConfig:
        return QrnnConfig(inputs=inputs, cells=cells, window=1 if index else 2)

    return _awd(size, vocabulary, layer)


def gru(size: Size, vocabulary: Vocabulary) -> SentenceGruConfig:
    """One layer of D units over token vectors of width D (Kiros et al., 2015, section 2.1)."""
    return SentenceGruConfig(
        tokens=_tokens(size, vocabulary.size),
        gru=GruConfig(inputs=size.width, cells=size.width),
        length=size.length,
        first=vocabulary.first,
        unknown=vocabulary.unk,
    )


def _awd(size: Size, vocabulary: int, layer: Callable) -> AwdConfig:
    cells = [size.inner] * (size.layers - 1) + [size.width]
    inputs = [size.width, *cells[:-1]]
    layers = tuple(layer(index, *pair) for index, pair in enumerate(zip(inputs, cells, strict=True)))
    return AwdConfig(tokens=_tokens(size, vocabulary), stack=AwdStackConfig(layers=layers), length=size.length)


def _tokens(size: Size, vocabulary: int) -> TableConfig:
    """Vectors large enough to move the gates. At D 32, a language of short sentences that count upwards has a loss of
    1.0 after 120 steps, and of 2.1 with a quarter of the deviation."""
    start = Start(kind="random_normal", deviations=(4 * size.width**-0.5,))
    return TableConfig(rows=vocabulary, width=size.width, start=start)
