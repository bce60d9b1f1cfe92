"""What an adaptation that learns nothing works with: a network as it is, and what it is asked."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt.channels import Text
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.engine.cost import Traced, media_flops
from ptmbench.models.card import Size
from ptmbench.models.channels import CHANNELS
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
    def reads(self) -> tuple[str, ...]:
        """The channels that the network reads."""
        return self.module.CARD.reads

    @property
    def costs(self) -> Network:
        """What the network is made of, and what it costs."""
        return Network(self.module, self.shape, self.tokenizer.vocabulary)

    def reading_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of the encoder for rows of so many tokens."""
        return self.costs.reading_flops(Counter(lengths))

    def media_flops(self, rows: Sequence[Any]) -> float:
        """FLOPs of one pass of the encoder over the pictures and sounds in the ``arrays`` of ``rows``."""
        return media_flops(self.costs.model, rows)

    def embedding_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of their embeddings alone."""
        return float(self.costs.embedding(sum(lengths)))

    def filling_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of asking what fits into a blank of rows of so many tokens, once for each row."""
        return self.costs.filling_flops(Counter(lengths))

    def scoring_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of asking how probable texts of so many tokens are, a start symbol before each."""
        return self.costs.scoring_flops(Counter(lengths))

    def gap_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of asking how probable hidden sentences are, in rows of so many tokens."""
        return self.costs.gap_flops(Counter(lengths))


def filled(texts: Sequence[Text], length: int) -> dict[str, np.ndarray]:
    """A batch of ``texts`` without special tokens: ``tokens`` [B, T] and the other channels, filled up with 0 to
    ``length`` tokens."""
    batch = stack(
        [InputRow({"tokens": np.array(text.ids, np.int32), **text.channels()}, 0) for text in texts], multiple=1
    )
    return {
        name: np.pad(array, ((0, 0), (0, length - array.shape[1]))) if CHANNELS[name].axes == "BT" else array
        for name, array in batch.items()
    }


def traced(function: Callable[[Mapping[str, tf.Tensor]], tf.Tensor]) -> Callable[[Mapping[str, Any]], np.ndarray]:
    """``function`` of a batch, traced at the first call for all batches of the same arrays, however large."""
    found: list[Traced] = []

    def answered(batch: Mapping[str, Any]) -> np.ndarray:
        if not found:
            spec = {name: tf.TensorSpec([None] * np.ndim(array), array.dtype) for name, array in batch.items()}
            found.append(Traced(lambda: tf.function(function, autograph=False).get_concrete_function(spec)))
        return found[0]({name: tf.constant(array) for name, array in batch.items()}).numpy()

    return answered
