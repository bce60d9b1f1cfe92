"""The hierarchical Transformer of HIBERT, as configurations of `models.layers.hierarchical`.

Source: Zhang et al. (2019), sections 3.1 (encoders) and 3.2 (decoder). One encoder reads the words of each sentence,
another one the sentences of a document, and a decoder writes sentences. What the paper leaves open is taken from
Vaswani et al. (2017): layer-norm after each residual sum, ReLU, no bias in the output layer. Positions are learned,
beginning as sinusoids.
"""

from dataclasses import dataclass

from ptmbench.models.architectures.encoders import SINUSOIDS, post_norm_stack
from ptmbench.models.card import Size
from ptmbench.models.layers.config import Config, EmbeddingsConfig, StackConfig, Start, TableConfig

SENTENCES = 32
"""The most sentences that the second encoder reads; further ones share the last place. (Section 4.2 reads 30.)"""


def places(length: int) -> int:
    """The number of places for sentences in rows of ``length`` tokens: as many as fit with a word and a mark each, and
    at most `SENTENCES`. A row's result does not depend on its padding."""
    return min(SENTENCES, length // 2 + 1)


@dataclass(frozen=True, kw_only=True)
class HierarchicalConfig(Config):
    """An encoder of ``words`` and one of ``sentences``. Each sentence ends with the id ``separator``."""

    embeddings: EmbeddingsConfig
    sentence_positions: TableConfig
    words: StackConfig
    sentences: StackConfig
    separator: int

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of one row of ``tokens``. Attention among words is counted over the whole square, as it is computed:
        the mask saves nothing."""
        sentences = places(int(tokens))
        return self.words.flops(tokens, tokens) + self.sentences.flops(sentences, sentences)


@dataclass(frozen=True, kw_only=True)
class HierarchicalDecoderConfig(Config):
    """A decoder without cross-attention. It gets the vector of the sentence that it writes."""

    stack: StackConfig

    def decoding_flops(self, targets: float, memory: float, vocabulary: int) -> float:
        """FLOPs of one row of ``targets``, with their logits."""
        return self.stack.flops(targets, targets) + 2 * targets * self.stack.block.norm.width * vocabulary


def hibert(size: Size, vocabulary: int, separator: int) -> tuple[HierarchicalConfig, HierarchicalDecoderConfig]:
    """HIBERT's network: L layers of each kind. The initial sentence positions are as large as the vectors that they are
    added to, which come from a layer-norm."""
    D, stack = size.width, post_norm_stack(size, epsilon=1e-5, activation="relu")
    waves = Start(kind="sinusoids", deviations=(0.5**0.5,))
    encoder = HierarchicalConfig(
        embeddings=EmbeddingsConfig(
            rows=size.length,
            tokens=TableConfig(rows=vocabulary, width=D),
            positions=TableConfig(rows=size.length, width=D, start=SINUSOIDS),
        ),
        sentence_positions=TableConfig(rows=places(size.length), width=D, start=waves),
        words=stack,
        sentences=stack,
        separator=separator,
    )
    return encoder, HierarchicalDecoderConfig(stack=stack)
