"""Left-to-right Transformers, as configurations of `models.layers.transformers.CausalTransformer`."""

from ptmbench.models.architectures.encoders import SINUSOIDS, post_norm_stack
from ptmbench.models.card import Size
from ptmbench.models.layers.config import (
    NORMAL,
    AttentionConfig,
    BlockConfig,
    CausalConfig,
    EmbeddingsConfig,
    FeedForwardConfig,
    NormConfig,
    StackConfig,
    Start,
    TableConfig,
    WavesConfig,
)


def gpt(size: Size, vocabulary: int) -> CausalConfig:
    """GPT's network: learned positions, layer-norm after each residual sum and none on the embeddings, GELU in the tanh
    form of the authors' code, no segments (Radford et al., 2018, sections 3.1 and 4.1)."""
    return CausalConfig(
        embeddings=EmbeddingsConfig(
            rows=size.length,
            tokens=TableConfig(rows=vocabulary, width=size.width, start=NORMAL),
            positions=TableConfig(rows=size.length, width=size.width, start=NORMAL),
        ),
        stack=post_norm_stack(size, epsilon=1e-5, activation="gelu_tanh", start=NORMAL),
    )


def gpt2(size: Size, vocabulary: int) -> CausalConfig:
    """GPT-2's network: layer-norm at the input of each part and one more after the last layer, so that layers only add
    to the residual stream. The initial values of the kernels that write into it are divided by the root of their
    number, 2 L (Radford et al., 2019, section 2.3). The learned positions begin as sinusoids."""
    writers = Start(kind="random_normal", deviations=(0.02 * (2 * size.layers) ** -0.5,))
    return CausalConfig(
        embeddings=EmbeddingsConfig(
            rows=size.length,
            tokens=TableConfig(rows=vocabulary, width=size.width, start=NORMAL),
            positions=TableConfig(rows=size.length, width=size.width, start=SINUSOIDS),
        ),
        stack=_pre_norm_stack(size, epsilon=1e-5, activation="gelu_tanh", writers=writers),
        norm=NormConfig(width=size.width, epsilon=1e-5),
    )


def ctrl(size: Size, vocabulary: int) -> CausalConfig:
    """CTRL's network: token vectors scaled by the root of the width, fixed positions, layer-norm at the input of each
    part, ReLU (Keskar et al., 2019, section 3, and the authors' code)."""
    return CausalConfig(
        embeddings=EmbeddingsConfig(
            rows=size.length,
            tokens=TableConfig(rows=vocabulary, width=size.width, start=NORMAL),
            positions=WavesConfig(rows=size.length, width=size.width),
            scale=size.width**0.5,
        ),
        stack=_pre_norm_stack(size, epsilon=1e-6, activation="relu", writers=NORMAL),
        norm=NormConfig(width=size.width, epsilon=1e-6),
    )


def _pre_norm_stack(size: Size, *, epsilon: float, activation: str, writers: Start) -> StackConfig:
    D = size.width
    block = BlockConfig(
        attention=AttentionConfig(width=D, heads=size.heads, start_in=NORMAL, start=writers),
        feed_forward=FeedForwardConfig(
            width=D, inner=size.inner, activation=activation, start_in=NORMAL, start=writers
        ),
        norm=NormConfig(width=D, epsilon=epsilon),
        norm_first=True,
    )
    return StackConfig(block=block, layers=size.layers)
