"""Writing: greedy decoding, beam search and sampling over any model that can `decode`.

A `Generator` writes texts for batches of sources as a `Writing` says; `beam` and `sampling` hold the two searches,
`writing` what both do at each place. The past is never moved when hypotheses branch (`models.pretrainable.Writer`). One
graph serves every batch and length. A step's products are too small for several threads to share, but rows are apart:
each thread writes for its own. An accelerator takes all rows at once.
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
    """Writes with ``network`` as ``writing`` says; padding and [CLS] are never written."""

    def __init__(self, network: Pretrainable, vocabulary: Vocabulary, writing: Writing):
        if network.decode is None:
            raise ValueError("This model has no decoder to write with: take one with `decode`, such as t5.")
        if writing.coverage and network.writer is None:
            raise NotApplicable(
                "no-coverage", "because this model reads all again for each token, without telling where it looks."
            )
        if writing.beam < 1 or writing.temperature <= 0 or not 0 < writing.top_p <= 1:
            raise ValueError("Writing takes a beam of 1 or more, a temperature above 0 and a top_p above 0, up to 1.")
        self.writer = network.writer or Rereader(network.decode)
        self.vocabulary, self.writing = vocabulary, writing
        self._traced: Any = None

    def __call__(
        self, tokens: np.ndarray, longest: int, seed: int = 0, channels: Mapping[str, np.ndarray] | None = None
    ) -> Written:
        """Texts of at most ``longest`` tokens for ``tokens`` int32 [B, T] and their ``channels``, the same in each
        call. ``seed`` draws samples: the same ones for the same source, whatever stands in the batch beside it."""
        given = {"tokens": np.asarray(tokens, np.int32), **(channels or {})}
        if self._traced is None:
            form = sampling.sample if self.writing.sample else beam.search
            function = partial(form, self.writer, self.vocabulary, self.writing)
            sources = {name: tf.TensorSpec([None] * array.ndim, array.dtype) for name, array in given.items()}
            specs = [sources, tf.TensorSpec([], tf.int32)]
            specs += [tf.TensorSpec([None, self.writing.beam, None], tf.float32)] * self.writing.sample
            self._traced = Traced(lambda: tf.function(function, autograph=False).get_concrete_function(*specs))
            return self._write(given, longest, seed)  # in one: TensorFlow also optimises the graph now
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
    """How many threads write at once."""
    return 1 if accelerated() else environment.threads()
