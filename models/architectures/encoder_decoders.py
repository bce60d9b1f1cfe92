"""Encoder-decoder Transformers, as configurations of `models.layers.transformers.Encoder` and ``Decoder``."""

from dataclasses import replace

from ptmbench.models.architectures.encoders import SINUSOIDS
from ptmbench.models.card import Size
from ptmbench.models.layers.config import (
    NORMAL,
    AttentionConfig,
    BlockConfig,
    DecoderConfig,
    DistancesConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    NormConfig,
    OutputConfig,
    StackConfig,
    Start,
    TableConfig,
    WavesConfig,
)
from ptmbench.models.layers.fused_config import FusedBlockConfig, FusedDecoderConfig, FusedEncoderConfig
from ptmbench.models.layers.stream_config import StreamAttentionConfig, StreamDecoderConfig

Pair = tuple[EncoderConfig, DecoderConfig]


def bart(size: Size, vocabulary: int) -> Pair:
    """BART's network: layer-norm after each residual sum and on the embeddings, learned positions, GELU, one table of
    token vectors for both inputs and the output layer, which has no bias.

    Source: Lewis et al. (2020), section 2.1; Vaswani et al. (2017), section 3; norms of the embeddings from the
    authors' code. The learned positions begin as sinusoids.
    """
    D, norm = size.width, NormConfig(width=size.width, epsilon=1e-5)
    positions = TableConfig(rows=size.length, width=D, start=SINUSOIDS)

    def stack(memory: int) -> StackConfig:
        block = BlockConfig(
            attention=AttentionConfig(width=D, heads=size.heads, start=NORMAL),
            cross=AttentionConfig(width=D, heads=size.heads, memory=memory, start=NORMAL) if memory else None,
            feed_forward=FeedForwardConfig(width=D, inner=size.inner, start_in=NORMAL, start=NORMAL),
            norm=norm,
        )
        return StackConfig(block=block, layers=size.layers)

    tokens = TableConfig(rows=vocabulary, width=D, start=NORMAL)
    encoder = EncoderConfig(
        embeddings=EmbeddingsConfig(rows=size.length, tokens=tokens, positions=positions, norm=norm),
        stack=stack(0),
        pooled="mean",
    )
    inputs = EmbeddingsConfig(rows=size.length, positions=positions, norm=norm)
    return encoder, DecoderConfig(embeddings=inputs, stack=stack(D))


def prophetnet(size: Size, vocabulary: int, *, streams: int = 2) -> Pair:
    """ProphetNet's network: BART's encoder, and a decoder with ``streams`` predicting streams, whose self-attention has
    relative positions (`models.layers.streams`).

    Source: Qi et al. (2020), section 2.3, and the authors' code.
    """
    encoder, base = bart(size, vocabulary)
    attention = StreamAttentionConfig(width=size.width, heads=size.heads, start=NORMAL)
    stack = replace(base.stack, block=replace(base.stack.block, attention=attention))
    table = TableConfig(rows=streams, width=size.width, start=NORMAL)
    return encoder, StreamDecoderConfig(embeddings=base.embeddings, stack=stack, streams=table)


def fused(size: Size, vocabulary: int, *, memory: int, drop_net: float = 1.0) -> Pair:
    """BERT-fused translation: BART's network, in which every block also attends to vectors of width ``memory``. Another
    encoder computes these from the source (`models.layers.fused`).

    Source: Zhu et al. (2020), section 4. ``drop_net`` is its p.
    """
    encoder, decoder = bart(size, vocabulary)
    other = AttentionConfig(width=size.width, heads=size.heads, memory=memory, start=NORMAL)

    def stack(base: StackConfig) -> StackConfig:
        return replace(base, block=FusedBlockConfig(**vars(base.block), other=other, drop_net=drop_net))

    return (
        FusedEncoderConfig(embeddings=encoder.embeddings, stack=stack(encoder.stack), pooled=encoder.pooled),
        FusedDecoderConfig(embeddings=decoder.embeddings, stack=stack(decoder.stack)),
    )


def pegasus(size: Size, vocabulary: int) -> Pair:
    """PEGASUS's network: layer-norm before each part and at the end, fixed positions, ReLU. Token vectors are scaled by
    the root of the width, and one table serves both inputs and the output layer, which has no bias.

    Source: Zhang, Zhao et al. (2020), section 6.2 and figure 1; Vaswani et al. (2017), section 3; the authors' code.
    The initial deviation of a kernel is one over the root of its fan-in, which is possible because the inputs are
    normalised.
    """
    D, F, norm = size.width, size.inner, NormConfig(width=size.width, epsilon=1e-5)
    near, far = _normal(D**-0.5), _normal(F**-0.5)
    positions = WavesConfig(rows=size.length, width=D)

    def stack(memory: int) -> StackConfig:
        block = BlockConfig(
            attention=AttentionConfig(width=D, heads=size.heads, start=near),
            cross=AttentionConfig(width=D, heads=size.heads, memory=memory, start=near) if memory else None,
            feed_forward=FeedForwardConfig(width=D, inner=F, activation="relu", start_in=near, start=far),
            norm=norm,
            norm_first=True,
        )
        return StackConfig(block=block, layers=size.layers)

    tokens = TableConfig(rows=vocabulary, width=D, start=near)
    encoder = EncoderConfig(
        embeddings=EmbeddingsConfig(rows=size.length, tokens=tokens, positions=positions, scale=D**0.5),
        stack=stack(0),
        norm=norm,
        pooled="mean",
    )
    inputs = EmbeddingsConfig(rows=size.length, positions=positions, scale=D**0.5)
    return encoder, DecoderConfig(embeddings=inputs, stack=stack(D), norm=norm)


def t5(size: Size, vocabulary: int, *, gated: bool = False) -> Pair:
    """T5's network: root-mean-square norm before each part and at the end, no biases, and learned scores of distances
    that all layers share. Attention scores are not divided by the root of a head's width, because the initial queries
    are smaller by that factor. Logits are computed from the scaled stream and the token vectors.

    With ``gated``, T5 1.1's network: gated feed-forward layers (Shazeer, 2020, equation 6) and a separate output layer.

    Source: Raffel et al. (2020), section 2.1; initial values and the scaled output layer follow the authors' code (Mesh
    TensorFlow), T5 1.1 the authors' notes on their released checkpoints.
    """
    D, F, K = size.width, size.inner, size.width // size.heads
    near, norm = D**-0.5, NormConfig(width=D, epsilon=1e-6, centred=False)

    def attention(memory: int) -> AttentionConfig:
        start_in = _normal((D * K) ** -0.5, near, near)
        return AttentionConfig(
            width=D,
            heads=size.heads,
            memory=memory,
            bias=False,
            scaled=False,
            start_in=start_in,
            start=_normal(near),
        )

    def stack(memory: int) -> StackConfig:
        block = BlockConfig(
            attention=attention(0),
            cross=attention(memory) if memory else None,
            feed_forward=FeedForwardConfig(
                width=D,
                inner=F,
                activation="gelu_tanh" if gated else "relu",
                gated=gated,
                bias=False,
                inner_dropout=True,
                start_in=_normal(near),
                start=_normal(F**-0.5),
            ),
            norm=norm,
            norm_first=True,
        )
        return StackConfig(block=block, layers=size.layers)

    encoder = EncoderConfig(
        embeddings=EmbeddingsConfig(rows=size.length, tokens=TableConfig(rows=vocabulary, width=D, start=_normal(1.0))),
        distances=DistancesConfig(heads=size.heads, both_ways=True, start=_normal(near)),
        stack=stack(0),
        norm=norm,
        norm_dropout=True,
        pooled="mean",
    )
    decoder = DecoderConfig(
        embeddings=EmbeddingsConfig(rows=size.length),
        distances=DistancesConfig(heads=size.heads, both_ways=False, start=_normal(near)),
        stack=stack(D),
        norm=norm,
        norm_dropout=True,
        logits=OutputConfig(rows=vocabulary, width=D, start=_normal(near)) if gated else None,
        logits_scale=1.0 if gated else near,
    )
    return encoder, decoder


def _normal(*deviations: float) -> Start:
    return Start(kind="random_normal", deviations=deviations)
