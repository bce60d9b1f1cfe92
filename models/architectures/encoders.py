"""The bidirectional encoder of BERT and of its relatives, as configurations of `models.layers.transformers.Encoder`.

Source: Devlin et al. (2019), section 3; Vaswani et al. (2017), section 3.1; shapes and epsilon from the authors'
released configuration. Learned positions, layer-norm after each residual sum and on the embeddings.
"""

from dataclasses import replace

from ptmbench.models.card import Size
from ptmbench.models.layers.config import (
    BERT,
    AttentionConfig,
    BlockConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    LinearConfig,
    NormConfig,
    StackConfig,
    Start,
    TableConfig,
)

SINUSOIDS = Start(kind="sinusoids", deviations=())


def post_norm_stack(
    size: Size, *, epsilon: float = 1e-12, activation: str = "gelu", start: Start = BERT, shared: bool = False
) -> StackConfig:
    """``size.layers`` blocks with layer-norm after each residual sum. If ``shared``, one block is applied in all
    layers."""
    D = size.width
    block = BlockConfig(
        attention=AttentionConfig(width=D, heads=size.heads, start=start),
        feed_forward=FeedForwardConfig(width=D, inner=size.inner, activation=activation, start_in=start, start=start),
        norm=NormConfig(width=D, epsilon=epsilon),
    )
    return StackConfig(block=block, layers=size.layers, shared=shared)


def distilbert(size: Size, vocabulary: int) -> EncoderConfig:
    """BERT's encoder without segments and pooler (Sanh et al., 2019, section 3)."""
    plain = bert(size, vocabulary, pooler=False)
    return replace(plain, embeddings=replace(plain.embeddings, segments=None))


def xlm(size: Size, vocabulary: int, languages: int) -> EncoderConfig:
    """XLM's encoder: BERT's without segments and pooler, and a vector for each of ``languages``, added to each token's
    (Lample and Conneau, 2019, section 3.4). Row 0 is for text of an unknown language, which the authors do not have."""
    plain = distilbert(size, vocabulary)
    table = TableConfig(rows=languages + 1, width=plain.embeddings.norm.width)
    return replace(plain, embeddings=replace(plain.embeddings, channels=(("languages", table),)))


def bert(
    size: Size,
    vocabulary: int,
    *,
    segments: int = 2,
    pooler: bool = True,
    epsilon: float = 1e-12,
    activation: str = "gelu",
    shared: bool = False,
) -> EncoderConfig:
    """BERT's encoder. ``segments`` is the number of texts that are told apart; with 1, the batch's segments are not
    read.

    If ``size.embedding`` makes token vectors narrower than the layers, a product widens them, as in ELECTRA-small
    (Clark et al., 2020, section 3.3) and ALBERT (Lan et al., 2020, section 3.1).
    """
    D, E = size.width, size.embedding or size.width
    return EncoderConfig(
        embeddings=EmbeddingsConfig(
            rows=size.length,
            tokens=TableConfig(rows=vocabulary, width=E),
            positions=TableConfig(rows=size.length, width=E, start=SINUSOIDS),
            segments=TableConfig(rows=segments, width=E),
            norm=NormConfig(width=E, epsilon=epsilon),
        ),
        stack=post_norm_stack(size, epsilon=epsilon, activation=activation, shared=shared),
        widening=LinearConfig(inputs=E, outputs=D) if E != D else None,
        pooler=LinearConfig(inputs=D, outputs=D) if pooler else None,
    )
