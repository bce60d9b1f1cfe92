"""The encoder of MPNet, as a configuration of `models.layers.compensated.PositionCompensated`.

Source: Song et al. (2020), sections 2.2 and 2.3. Relative positions are learned scalars per distance as in T5, shared
by all layers and added to the scores. There are also absolute positions at the input, which begin as
`models.layers.core.sinusoids`. Epsilon is from the authors' code (fairseq). There are no segments and no pooler.
"""

from dataclasses import dataclass, replace

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import Size
from ptmbench.models.layers.config import DistancesConfig, EncoderConfig
from ptmbench.models.layers.heads import predicted


@dataclass(frozen=True, kw_only=True)
class CompensatedConfig(EncoderConfig):
    """An encoder with two more streams for pre-training, which predict the share ``rate`` of the tokens."""

    rate: float = 0.15

    def training_flops(self, length: int) -> float:
        """FLOPs of a training step for one row: its own vectors, and a content and a query vector for each prediction.

        In the last layer, row and content have keys and values only, and the queries alone are computed in full.
        """
        block, slots = self.stack.block, predicted(self.rate, length)
        keys = length + slots
        row, content = block.flops(length, length), block.flops(slots, keys)
        read = block.attention.memory_flops
        query = content - read(slots)  # queries use the keys and values of row and content
        earlier = self.stack.layers - 1
        return 3 * (earlier * (row + content) + read(keys) + self.stack.layers * query)


def mpnet(size: Size, vocabulary: int) -> CompensatedConfig:
    """MPNet's encoder: BERT's layers with learned scores of distances."""
    base = bert(size, vocabulary, pooler=False, epsilon=1e-5)
    return CompensatedConfig(
        embeddings=replace(base.embeddings, segments=None),
        distances=DistancesConfig(heads=size.heads, both_ways=True),
        stack=base.stack,
    )
