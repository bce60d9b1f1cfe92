"""MobileBERT's encoder and its teacher's, as configurations of `models.layers.bottleneck`.

Source: Sun et al. (2020), and the configurations of the authors' code (google-research/google-research,
`mobilebert/config` at 38e51d7 and `mobilebert/modeling.py` at 0c1bbe5). The settings here are theirs:

    model            inside  reads     feed-forward layers  norm          activation  file
    MobileBERT       D / 4   "shared"  4                    "no_norm"     "relu"      L-24_H-128_B-512_A-4_F-4_OPT
    MobileBERT-tiny  D / 4   "narrow"  2                    "no_norm"     "relu"      L-24_H-128_B-512_A-4_F-2_tiny_OPT
    IB-BERT          2 D     "wide"    1                    "layer_norm"  "gelu"      L-24_H-1024_B-512_A-4

Neither MobileBERT has a pooler: the first token's vector is the pooled one.

The products into and inside of a block begin with Glorot's deviations, not with the authors' 0.02. Nothing normalises
the vectors there: in a network of width 32, 0.02 leaves queries and keys gradients of 1e-13 at first. The authors'
network imitates the teacher's layers, one after the other. MobileBERT-mini (B 16, T 32, rate 5e-4) after 300 steps,
three seeds: loss 7.00, 7.36 and 7.27, and with 0.02 everywhere 7.14, 7.50 and 7.31.
"""

from ptmbench.models.architectures.encoders import SINUSOIDS
from ptmbench.models.card import Size
from ptmbench.models.layers.bottleneck_config import (
    BottleneckBlockConfig,
    NoNormConfig,
    SplitAttentionConfig,
    TrigramEmbeddingsConfig,
    TrigramEncoderConfig,
)
from ptmbench.models.layers.config import (
    BERT,
    GLOROT,
    FeedForwardConfig,
    LinearConfig,
    NormConfig,
    StackConfig,
    TableConfig,
)

NORMS = {"no_norm": NoNormConfig, "layer_norm": NormConfig}


def bottleneck(
    size: Size,
    vocabulary: int,
    *,
    inside: int,
    reads: str = "shared",
    feed_forwards: int = 4,
    norm: str = "no_norm",
    activation: str = "relu",
    pooler: bool = False,
) -> TrigramEncoderConfig:
    """An encoder of ``size`` over token vectors of ``size.embedding`` dimensions. Inside, its blocks are ``inside``
    dimensions wide and have ``size.heads`` heads. The table above has the settings of the models."""
    D, E, C = size.width, size.embedding, inside
    inputs = {"shared": (C, D), "narrow": (C, C), "wide": (D, D)}[reads]
    attention = SplitAttentionConfig(
        width=C, heads=size.heads, query_inputs=inputs[0], value_inputs=inputs[1], start=GLOROT
    )
    block = BottleneckBlockConfig(
        attention=attention,
        feed_forward=FeedForwardConfig(width=C, inner=size.inner, activation=activation, start_in=GLOROT, start=GLOROT),
        norm=NORMS[norm](width=D),
        width=D,
        start=GLOROT,
        start_exit=BERT,
        inner_norm=NORMS[norm](width=C),
        feed_forwards=feed_forwards,
        reads=reads,
    )
    return TrigramEncoderConfig(
        embeddings=TrigramEmbeddingsConfig(
            rows=size.length,
            tokens=TableConfig(rows=vocabulary, width=E),
            positions=TableConfig(rows=size.length, width=D, start=SINUSOIDS),
            segments=TableConfig(rows=2, width=D),
            trigrams=LinearConfig(inputs=3 * E, outputs=D, start=GLOROT),
            norm=NORMS[norm](width=D),
        ),
        stack=StackConfig(block=block, layers=size.layers),
        pooler=LinearConfig(inputs=D, outputs=D) if pooler else None,
    )
