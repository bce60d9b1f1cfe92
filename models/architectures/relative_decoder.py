"""The left-to-right Transformer of Transformer-XL, as a configuration of `models.layers.relative_causal`.

Source: Dai et al. (2019), section 3. What the paper leaves open is as in the authors' code: scores divided by the root
of the head's width, embeddings multiplied by the root of the width, ReLU, layer-norm after each residual sum. With
queries q and keys k of a layer, and R the fixed waves of a distance, the score of key j for query i is

    (q_i + u) . k_j + (q_i + v) . (W_R R_{i-j})

u and v are the same in every layer (section 3.3). Keys and values are computed from [memory; text], queries from the
text.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ptmbench.models.card import Size
from ptmbench.models.layers.config import NORMAL, CausalConfig, EmbeddingsConfig, Shape, TableConfig
from ptmbench.models.layers.relative_config import relative_stack


@dataclass(frozen=True, kw_only=True)
class RelativeCausalConfig(CausalConfig):
    """A left-to-right network with a memory as long as the row. All layers share the biases u and v of the scores."""

    def weights(self) -> Mapping[str, Shape]:
        attention = self.stack.block.attention
        one = (attention.heads, 1, attention.width // attention.heads)
        return {"content_bias": one, "position_bias": one}

    def training_flops(self, length: int) -> float:
        """FLOPs of a training step for one row: three times the forward pass, and once that of the memory without its
        last layer. The memory is as long as the row.

        Products with the memory have no gradient for their input: their backward pass is once the forward, not twice.
        """
        block, layers = self.stack.block, self.stack.layers
        read = block.attention.memory_flops(length)
        return layers * (3 * block.flops(length, 2 * length) + 2 * read) + (layers - 1) * block.flops(length, length)


def transformer_xl(size: Size, vocabulary: int) -> RelativeCausalConfig:
    """Transformer-XL's network: relative positions only, token vectors scaled by the root of the width, ReLU."""
    tokens = TableConfig(rows=vocabulary, width=size.width, start=NORMAL)
    return RelativeCausalConfig(
        embeddings=EmbeddingsConfig(rows=size.length, tokens=tokens, scale=size.width**0.5),
        stack=relative_stack(size, epsilon=1e-5, activation="relu"),
    )
