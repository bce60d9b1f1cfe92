"""BERT's encoder with a caller-supplied attention mask and position ids, as configurations of `models.layers.masked`.

Source: Dong et al. (2019), section 2.2, equations 2 and 3: a mask M is added to the scores of BERT's layers, 0 where a
token is seen and minus infinity where not. UniLM's mask follows from the segments. The authors' released code has six,
two for each kind of mask that has two texts:

    0, 1  both texts see everything            2  each token sees itself and what stands before it
    4, 5  the source sees itself, the target   3  each token sees itself and what stands after it
          the source, itself and before it

Epsilon is 1e-5 in every norm, as in the authors' released code (microsoft/unilm, unilm-v1, `BertLayerNorm`), not BERT's
1e-12. UniLMv2 is Bao et al. (2020): its masks come from the objective alone, and its scores depend on distances.
"""

from dataclasses import dataclass

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.config import DistancesConfig, EncoderConfig
from ptmbench.models.layers.heads import predicted

FORWARD, BACKWARD, SOURCE, TARGET = 2, 3, 4, 5


@dataclass(frozen=True, kw_only=True)
class MaskedConfig(EncoderConfig):
    """An encoder with a caller-supplied attention mask. ``source`` and ``target`` are the segments of the source and of
    the text that is written. In pre-training the share ``repeated`` of the tokens is appended to the text twice."""

    source: int = SOURCE
    target: int = TARGET
    repeated: float = 0.0

    def training_flops(self, length: int) -> float:
        """FLOPs of a training step for one row of ``length``. Attention is counted over the whole square, as it is
        computed: masks save nothing."""
        return 3 * self.flops(length + 2 * predicted(self.repeated, length))


@dataclass(frozen=True, kw_only=True)
class MaskedModel(EncoderModel):
    """An encoder that also writes, by means of masks. Its first head predicts the words. Each token is predicted at a
    mask of its own, which later tokens do not see. So there is a `Pretrainable.decode`, but no
    `Pretrainable.writer`."""

    writes: bool = True
    reads_again: bool = True

    def decode_flops(self, length: float, targets: float) -> float:
        """FLOPs of `Pretrainable.decode` for one row: the source, ``targets`` - 1 written tokens, and a mask for each
        of ``targets``. Only the masks reach the vocabulary."""
        whole = length + 2 * targets - 1
        return self.encoder.stack.flops(whole, whole) + self.heads[0].predicted_flops(targets)


def unilm(size: Size, vocabulary: int) -> MaskedConfig:
    """UniLM's encoder: BERT's with six segments and another epsilon."""
    base = bert(size, vocabulary, segments=6, epsilon=1e-5)
    return MaskedConfig(embeddings=base.embeddings, stack=base.stack, pooler=base.pooler)


def unilm_v2(size: Size, vocabulary: int) -> MaskedConfig:
    """UniLMv2's encoder: BERT's without a pooler, with T5's scores of distances (Raffel et al., 2020, section 2.1)
    added to absolute positions, and BERT's two segments."""
    base = bert(size, vocabulary, pooler=False)
    distances = DistancesConfig(heads=size.heads, both_ways=True)
    return MaskedConfig(
        embeddings=base.embeddings, stack=base.stack, distances=distances, source=0, target=1, repeated=0.15
    )
