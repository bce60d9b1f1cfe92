"""BERT whose upper layers also read the vectors of entities, as configurations.

Source: Zhang et al. (2019), section 3, and the authors' code (thunlp/ERNIE, code/knowledge_bert/modeling.py). The lower
half, the T-encoder, is BERT. Each layer of the upper half, the K-encoder, computes for tokens w and entities e

    w~ = norm(w + attention(w))        e~ = norm(e + attention(e))                      equation 3
    h  = gelu(W_t w~ + W_e e~ + b)     without W_e e~ where no entity begins            equations 4 and 6
    w' = norm(w~ + W_x h + b_x)        e' = norm(e~ + W_y h + b_y)                      equation 5

Where paper and code differ, this follows the code. In the paper, equation 5 has an activation and no residual sum. In
the code, [CLS] is among the entities, with a vector of zeros. In two places this differs from the code. The code gives
W_e its own bias, which is added to b at every token; here there is one bias. The code's last layer computes entities
that nothing reads, and leaves them untrained; here it computes none. The code's layer types also allow fusion without
attention over entities, which the paper does not have.
"""

from dataclasses import replace

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import Size
from ptmbench.models.layers.config import AttentionConfig, NormConfig
from ptmbench.models.layers.entities import (
    AggregatorConfig,
    AggregatorsConfig,
    EntityEncoderConfig,
    FrozenTableConfig,
    FusionConfig,
)

WIDTH = 100
"""E if no vectors are known: the width of the authors' vectors (section 4.1)."""
HEADS = 4
"""Heads of the attention over entities (section 4.1), or the next smaller number that divides E."""


def fused_entities(size: Size, vocabulary: int, entities: int, width: int = WIDTH) -> EntityEncoderConfig:
    """Half of ``size.layers``, rounded down but at least one, read ``entities`` entities with vectors of ``width``."""
    upper = max(1, size.layers // 2)
    lower = bert(replace(size, layers=size.layers - upper), vocabulary)
    block, heads = lower.stack.block, max(number for number in range(1, HEADS + 1) if width % number == 0)
    aggregator = AggregatorConfig(
        attention=block.attention,
        norm=block.norm,
        entity_attention=AttentionConfig(width=width, heads=heads),
        entity_norm=NormConfig(width=width, epsilon=block.norm.epsilon),
        fusion=FusionConfig(width=size.width, entities=width, inner=size.inner),
    )
    return EntityEncoderConfig(
        embeddings=lower.embeddings,
        stack=lower.stack,
        pooler=lower.pooler,
        entities=FrozenTableConfig(rows=entities + 1, width=width),
        aggregators=AggregatorsConfig(aggregator=aggregator, layers=upper),
    )
