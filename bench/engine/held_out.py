"""The loss of a pre-trained network on held-out text, by its own objective.

`bench.runs.pretrain` measures it after the last step of a pre-training that holds documents out. Rows, masks and noise
depend only on the corpus and the length of a row. So networks of one model that were trained with different batches are
measured on the same rows with the same masks.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ptmbench.bench.engine import objectives
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.corpus import Corpus

ROWS = 8
"""Rows of a batch. The loss depends on it for objectives that compare the rows of a batch with each other."""
SEED = 0
"""The seed of rows and masks."""


def measured(
    network: Pretrainable, corpus: Corpus, length: int, changed: Callable[[dict], dict] = lambda batch: batch
) -> dict[str, Any]:
    """Returns the scalars of the loss of ``network`` on ``corpus``, in rows of ``length`` tokens and without dropout.

    "loss" and the other scalars are means over all rows, as if these were one batch. "rows" is the number of rows.
    There are as many batches as the tokens of the corpus fill, and at least one. ``changed`` can change each batch
    before its loss is computed. For example, it can exchange rows.
    """
    network.encoder.dropout = 0.0
    loss = objectives.checked(network.loss)
    make = objectives.batches_of(network, corpus, ROWS, length)
    steps = range(max(1, corpus.tokens // (ROWS * length)))
    totals: dict[str, int] = {}
    for step in steps:
        for name, value in network.loss.totals(make(step, SEED)).items():
            totals[name] = totals.get(name, 0) + int(value)
    shared = {name: tf.constant(total, tf.int32) for name, total in totals.items()}
    compute = tf.function(loss, autograph=False)  # traced once: the shapes of batches never change
    sums: dict[str, float] = {}
    for step in steps:
        batch = {name: tf.constant(array) for name, array in changed(make(step, SEED)).items()}
        for name, value in compute(batch, tf.constant([SEED, step], tf.int32), shared).items():
            sums[name] = sums.get(name, 0.0) + float(value)
    return {**sums, "rows": len(steps) * ROWS}
