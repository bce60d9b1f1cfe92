"""Text generation: greedy decoding, beam search and sampling with any model that has `decode`.

A `Generator` writes texts for batches of sources with the settings of a `Writing`. `beam` and `sampling` have the two
searches, `writing` the code that they share. Cached keys and values stay in place when hypotheses branch
(`models.pretrainable.Writer`). One graph serves all batches and lengths. On a processor, each thread decodes some of
the rows, because the matrix products of a step are too small for several threads. An accelerator decodes all rows at
once.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench import environment
from ptmbench.bench.engine.cost import Traced
from ptmbench.bench.engine.generate import beam, sampling
from ptmbench.bench.engine.generate.writing import Rereader, Writing, Written
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.products import accelerated
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

__all__ = ["Generator", "Writing", "Written"]


class Generator:
    """Generates text with ``network`` and the settings ``writing``. Padding and [CLS] are never generated."""

    def __init__(self, network: Pretrainable, vocabulary: Vocabulary, writing: Writing):
        if network.decode is None:
            raise ValueError("This model has no decoder to generate text with. Use a model with `decode`, such as t5.")
        if writing.coverage and network.writer is None:
            raise NotApplicable("no-coverage", "because this model gives no attention weights while it generates.")
        if writing.beam < 1 or writing.temperature <= 0 or not 0 < writing.top_p <= 1:
            raise ValueError(
                "Generation takes a beam of 1 or more, a temperature above 0 and a top_p above 0, up to 1."
            )
        self.writer = network.writer or Rereader(network.decode)
        self.vocabulary, self.writing = vocabulary, writing
        self._traced: Any = None

    def __call__(
        self, tokens: np.ndarray, longest: int, seed: int = 0, channels: Mapping[str, np.ndarray] | None = None
    ) -> Written:
        """Generates texts of at most ``longest`` tokens for ``tokens`` int32 [B, T] and their ``channels``, which have
        the same names in each call. Samples depend on ``seed`` and the source, not on the other rows of the batch."""
        given = {"tokens": np.asarray(tokens, np.int32), **(channels or {})}
        if self._traced is None:
            form = sampling.sample if self.writing.sample else beam.search
            function = partial(form, self.writer, self.vocabulary, self.writing)
            sources = {name: tf.TensorSpec([None] * array.ndim, array.dtype) for name, array in given.items()}
            specs = [sources, tf.TensorSpec([], tf.int32)]
            specs += [tf.TensorSpec([None, self.writing.beam, None], tf.float32)] * self.writing.sample
            self._traced = Traced(lambda: tf.function(function, autograph=False).get_concrete_function(*specs))
            return self._write(given, longest, seed)  # in one thread: TensorFlow also optimises the graph in this call
        places = np.array_split(np.arange(len(tokens)), min(_writers(), len(tokens)))
        parts = [{name: array[own] for name, array in given.items()} for own in places]
        with ThreadPoolExecutor(len(parts)) as pool:
            written = list(pool.map(partial(self._write, longest=longest, seed=seed), parts))
        most = max(part.ids.shape[2] for part in written)
        ids = [np.pad(part.ids, [(0, 0), (0, 0), (0, most - part.ids.shape[2])]) for part in written]
        return Written(np.concatenate(ids), np.concatenate([part.scores for part in written]))

    def _write(self, given: Mapping[str, np.ndarray], longest: int, seed: int) -> Written:
        arguments = [{name: tf.convert_to_tensor(array) for name, array in given.items()}, tf.constant(longest)]
        if self.writing.sample:
            arguments.append(tf.constant(sampling.draws(given["tokens"], self.writing.beam, longest, seed)))
        return Written(*(part.numpy() for part in self._traced(*arguments)))


def _writers() -> int:
    """Number of threads that decode at the same time."""
    return 1 if accelerated() else environment.threads()
