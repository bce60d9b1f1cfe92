"""What an adaptation that learns nothing works with: a network as it is, and what it is asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.card import Size
from ptmbench.models.costs import Model
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

    @property
    def model(self) -> Model:
        """What the network is made of, and what it costs."""
        return self.module.describe(self.shape, self.tokenizer.vocabulary)

    def reading_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of the encoder for rows of so many tokens."""
        model = self.model
        flops = {length: model.encoder_flops(length) for length in set(lengths)}
        return sum(flops[length] for length in lengths)

    def embedding_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of their embeddings alone."""
        return float(self.model.embedding_flops(sum(lengths)))

    def filling_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of asking what fits into a blank of rows of so many tokens, once for each row."""
        model, output = self.model, 2 * self.shape.width * self.tokenizer.vocabulary.size
        flops = {length: model.fill_flops(length) for length in set(lengths)}
        return float(sum(flops[length] + output for length in lengths))

    def scoring_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of asking how probable texts of so many tokens are, a start symbol before each."""
        model, start = self.model, len(self.tokenizer.vocabulary.template.start)
        flops = {length: model.likelihood_flops(start + length) for length in set(lengths)}
        return float(sum(flops[length] for length in lengths))
