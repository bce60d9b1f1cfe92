"""Two measures that show why a pre-trained network scores low. They need text and no task.

`bench.runs.diagnose` reports them next to the loss. Neither says which of two sound networks is better.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.engine import held_out, objectives
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.template import Template

TOKENS = 8192
"""Largest number of token vectors for the effective rank: ten times the width of a base model."""


def effective_rank(vectors: np.ndarray) -> float:
    """The effective rank of ``vectors`` [N, D] around their mean: the exponential of the entropy of their singular
    values, each divided by their sum.

    It is D if the vectors vary equally in all directions, 1 if they lie on a line, and 0 if all are equal.
    Roy and Vetterli (2007). Garrido et al. (2023, "RankMe") measure pre-trained encoders by it.
    """
    centred = np.asarray(vectors, np.float64)
    sizes = np.linalg.svd(centred - centred.mean(axis=0), compute_uv=False)
    if not sizes.any():
        return 0.0
    shares = sizes[sizes > 0] / sizes.sum()
    return float(np.exp(-np.sum(shares * np.log(shares))))


def token_vectors(network: Pretrainable, corpus: Corpus, length: int, template: Template) -> np.ndarray:
    """The encoder's last hidden states for the first tokens of ``corpus``, at most `TOKENS`: float32 [N, D].

    The encoder reads rows of ``length`` tokens. The special tokens of ``template`` are left out of the result.
    """
    network.encoder.dropout = 0.0
    room = length - template.added(1)
    count = max(1, min(TOKENS, corpus.tokens) // room)
    places = np.arange(count * room) % corpus.tokens
    rows = [template.lay([text])[0] for text in corpus.ids.take(places).reshape(count, room)]
    tokens, begin = np.array(rows, np.int32), len(template.front)
    encode = tf.function(lambda batch: network.encoder(batch).tokens, autograph=False)
    found = [
        encode({"tokens": tf.constant(part), "segments": tf.zeros_like(part)}).numpy()[:, begin : begin + room]
        for part in np.array_split(tokens, max(1, count // held_out.ROWS))
    ]
    return np.concatenate(found).reshape(count * room, -1)


def source_gain(network: Pretrainable, corpus: Corpus, length: int, reads: Sequence[str], loss: float) -> float | None:
    """How much the loss of an encoder-decoder rises if each row gets the source of another row, in nats. None for a
    network without a decoder that reads a source.

    A decoder that ignores its source has a gain of 0, and its encoder learns nothing from the loss. ``reads`` are the
    channels of the encoder. ``loss`` is the loss that `held_out.measured` returns for the other arguments.
    """
    make = objectives.batches_of(network, corpus, held_out.ROWS, length)
    if network.writer is None or "targets" not in make(0, held_out.SEED):
        return None

    def exchanged(batch: dict[str, Any]) -> dict[str, Any]:
        return batch | {name: np.roll(batch[name], 1, axis=0) for name in reads if name in batch}

    return held_out.measured(network, corpus, length, exchanged)["loss"] - loss
