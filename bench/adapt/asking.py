"""The input of adaptations that train nothing: a network, and the examples that it answers."""

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
from ptmbench.bench.engine.graph import as_graph
from ptmbench.models.card import Size
from ptmbench.models.channels import CHANNELS
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task


@dataclass(frozen=True, kw_only=True)
class AnsweringInput:
    """The ``network`` of the model file ``module``, without dropout, and the examples to answer (``report``). Prompts
    may show some of ``train``, drawn from ``seed``."""

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
        """The description of the network, with its costs."""
        return Network(self.module, self.shape, self.tokenizer.vocabulary)

    def reading_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of the encoder for rows with these numbers of tokens."""
        return self.costs.reading_flops(Counter(lengths))

    def media_flops(self, rows: Sequence[Any]) -> float:
        """FLOPs of one pass of the encoder over the pictures and sounds in the ``arrays`` of ``rows``."""
        return media_flops(self.costs.model, rows)

    def embedding_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of the embeddings alone, for rows with these numbers of tokens."""
        return float(self.costs.embedding(sum(lengths)))

    def filling_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of scoring the vocabulary for one blank in each row. ``lengths`` are the numbers of tokens."""
        return self.costs.filling_flops(Counter(lengths))

    def scoring_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of the likelihoods of texts. ``lengths`` are the numbers of tokens, without the start symbol before
        each text."""
        return self.costs.scoring_flops(Counter(lengths))

    def gap_flops(self, lengths: Sequence[int]) -> float:
        """FLOPs of the likelihoods of hidden sentences, in rows with these numbers of tokens."""
        return self.costs.gap_flops(Counter(lengths))


def filled(texts: Sequence[Text], length: int) -> dict[str, np.ndarray]:
    """Makes a batch of ``texts`` without special tokens: ``tokens`` [B, T] and the other channels, padded with 0 to
    ``length`` tokens."""
    batch = stack(
        [InputRow({"tokens": np.array(text.ids, np.int32), **text.channels()}, 0) for text in texts], multiple=1
    )
    return {
        name: np.pad(array, ((0, 0), (0, length - array.shape[1]))) if CHANNELS[name].axes == "BT" else array
        for name, array in batch.items()
    }


def traced(function: Callable[[Mapping[str, tf.Tensor]], tf.Tensor]) -> Callable[[Mapping[str, Any]], np.ndarray]:
    """Returns ``function``, which takes a batch, as a function that is traced at its first call. The trace serves
    batches of any size with the same arrays."""
    found: list[Traced] = []

    def answered(batch: Mapping[str, Any]) -> np.ndarray:
        tensors = {name: tf.constant(array) for name, array in batch.items()}
        if not found:
            found.append(as_graph(function, tensors))
        return found[0](tensors).numpy()

    return answered
