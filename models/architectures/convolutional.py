"""An encoder of plain convolutions, as a configuration of `models.layers.convolution`.

Source: Chia, Witteveen and Andrews (2019), whose student of a Transformer is a convolutional network without attention
and recurrence. With h_t^0 the vector of token t, zeros beyond the ends of the row and at padding, and 2 w + 1 tokens in
a window:

    h_t^l = ReLU(F^l [h_{t-w}^{l-1}; ...; h_t^{l-1}; ...; h_{t+w}^{l-1}] + b^l)        l = 1 ... L
    pooled = ReLU(P [max_t h_t^1; ...; max_t h_t^L] + c)

Each layer has weights of its own. There are no residual sums, norms or positions: a filter has separate weights for
each place of its window, and a token of the last layer depends on L w tokens on either side.

Three things follow public reimplementations and were not checked in the paper: the window of 5 tokens, ReLU, and the
dense layer over the pooled values of all layers. The reimplementations disagree on whether the mean or the maximum is
pooled; the maximum is our choice. It is also our choice that all layers are as wide as the token vectors, so that one
size gives both. Token vectors are multiplied by sqrt(D) as in Vaswani et al. (2017), because their table is the output
layer of masked words too.
"""

from ptmbench.models.card import Size
from ptmbench.models.layers.config import EmbeddingsConfig, Start, TableConfig
from ptmbench.models.layers.convolution_config import ConvolutionalConfig, ConvolutionConfig

WINDOW = 5
"""Tokens that a filter reads."""


def convolutional(size: Size, vocabulary: int) -> ConvolutionalConfig:
    """The encoder of ``size``, whose ``heads`` and ``inner`` are not used."""
    D = size.width
    start = Start(kind="random_normal", deviations=(D**-0.5,))
    return ConvolutionalConfig(
        embeddings=EmbeddingsConfig(
            rows=size.length, tokens=TableConfig(rows=vocabulary, width=D, start=start), scale=D**0.5
        ),
        convolution=ConvolutionConfig(width=D, window=WINDOW),
        layers=size.layers,
    )
