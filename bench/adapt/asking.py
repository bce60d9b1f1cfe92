"""What an adaptation that learns nothing works with: a network as it is, and what it is asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.engine.cost import embedding_flops_per_token
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The ``network`` of the file ``module``, without dropout, and the examples to answer, ``report``. Prompts may show
    some of ``train``, drawn from ``seed``."""

    network: Any
    module: Any
    shape: Size
    tokenizer: Tokenizer
    task: Task
    settings: Settings
    train: Sequence[Example]
    report: Sequence[Example]
    seed: int

    @property
    def title(self) -> str:
        return self.module.CARD.title

    def reading_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of the encoder for rows of so many tokens."""
        return sum(n * self.module.encoder_flops_per_token(self.shape, n) for n in lengths)

    def embedding_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of their embeddings alone."""
        return sum(lengths) * embedding_flops_per_token(self.module, self.shape)

    def scoring_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of asking how probable texts of so many tokens are, a start symbol before each."""
        vocabulary = self.tokenizer.vocabulary
        whole = [len(vocabulary.template.start) + n for n in lengths]
        return sum(n * self.module.likelihood_flops_per_token(self.shape, vocabulary, n) for n in whole)
