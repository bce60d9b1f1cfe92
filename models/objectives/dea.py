"""Denoising entity auto-encoder (dEA): predict the entity of each mention, among the entities of the row.

Zhang et al. (2019), section 3.4, equation 7; settings from the authors' code (thunlp/ERNIE, code/run_pretrain.py).

    L_dEA = - 1/|M| sum_{t in M} ln p(e_t | w_t),    p(e | w) = softmax over candidates e of <norm(gelu(W w + b)), e>

M are the first tokens of mentions. The network reads a wrong entity at 5 % of them and none at 15 %, and has to predict
the entities of all. Wrong entities are drawn from the same batch. One candidate is "no entity", a vector of zeros.

The candidates are the entities of the row, as in the paper. The authors' code takes those of all rows of a device; the
loss of a row would then depend on how a batch is split. Their loop over the tokens of a mention also aligns its third
and fifth token, unlike their comment and the paper. Here only the first token is aligned. They leave out rows with few
mentions (fewer than five in the code); here all rows are used.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.aggregators import FrozenTable
from ptmbench.models.layers.blocks import ACTIVATIONS
from ptmbench.models.layers.core import Layer, made_from
from ptmbench.models.layers.heads import EntitiesConfig
from ptmbench.models.layers.operations import HIDDEN
from ptmbench.models.objective import Batch, Part
from ptmbench.models.objectives.sampling import check_layers
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.pieces import CorpusUnfit

WRONG, WITHOUT = 0.05, 0.15
"""The shares of mentions at which the network reads a wrong entity, and none."""


def load_entity_vectors(table: FrozenTable, corpus: Corpus) -> None:
    """Sets ``table`` to the vectors of the entities in the annotations of ``corpus``.

    Raises `CorpusUnfit` unless the corpus has such vectors, in the shape of the table.
    """
    check_layers(corpus, ("entities",))
    found, wanted = corpus.vectors.get("entities"), tuple(table.table.shape)
    if found is None:
        raise CorpusUnfit(
            "This model learns from entities with vectors, and the corpus has none for its layer 'entities'. Name a "
            "folder of vectors in the sidecars: `ptmbench data annotate TEXT --lines FILE --vectors entities=FOLDER`."
        )
    if found.shape != wanted:
        raise CorpusUnfit(
            f"The corpus has {len(found) - 1} entities with vectors of width {found.shape[1]}, and the network is made "
            f"for {wanted[0] - 1} of width {wanted[1]}. Train the tokenizer on the annotated text."
        )
    table.table.assign(found)


def noise(batch: Batch, rng: np.random.Generator, *, wrong: float = WRONG, without: float = WITHOUT) -> Batch:
    """Returns ``batch`` with ``entities`` [B, T] corrupted, and ``entity_candidates`` and ``entity_labels``
    int32 [B, T].

    A candidate has its entity's number, in the column where the row first mentions the entity; other columns have 0. A
    label is the column of the correct candidate, at the first token of a mention; other tokens have 0.
    """
    entities = batch["entities"]
    candidates, labels, changed = np.zeros_like(entities), np.zeros_like(entities), entities.copy()
    rows, columns = np.nonzero(entities > 0)
    numbers = entities[rows, columns]  # [M]
    pairs = rows * (int(numbers.max(initial=0)) + 1) + numbers
    _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    candidates[rows[first], columns[first]] = numbers[first]
    labels[rows, columns] = columns[first][which]
    known, place = np.unique(numbers, return_inverse=True)
    other = rng.integers(0, max(1, len(known) - 1), len(numbers))
    other = known[(other + (other >= place)) % max(1, len(known))] if len(known) else numbers
    draw = rng.random(len(numbers))
    read = np.where(draw < wrong, other, np.where(draw < wrong + without, 0, numbers))
    changed[rows, columns] = read
    # The other tokens of a mention copy its first one, unless the text is cut inside the mention.
    before = np.pad(entities[:, :-1], [(0, 0), (1, 0)])
    begins = ~((entities < 0) & (np.abs(before) == -entities))
    run = np.maximum.accumulate(np.where(begins, np.arange(entities.shape[1]), 0), axis=1)
    led = (entities < 0) & (np.take_along_axis(entities, run, axis=1) > 0)
    changed = np.where(led, -np.take_along_axis(changed, run, axis=1), changed)
    return batch | {"entities": changed, "entity_candidates": candidates, "entity_labels": labels}


@made_from(EntitiesConfig)
class DenoisingEntities(Part, Layer):
    """The head: a product, an activation and layer-norm, then a product with the candidates' vectors, which come from
    the frozen table of the encoder, ``owner``."""

    reports = ("dea_loss", "dea_accuracy")
    OTHERS = ("owner",)

    def __init__(self, config: EntitiesConfig, owner: keras.layers.Layer, name: str = "dea", **kwargs: Any):
        super().__init__(config, name=name, **kwargs)
        self.owner = owner

    def logits(self, tokens: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
        """Scores float32 [B, T, T] of the ``candidates`` [B, T] for each of the ``tokens`` [B, T, D]. Column 0, [CLS],
        means no entity; columns without a candidate are masked."""
        flat = ACTIVATIONS[self.config.activation](self.transform(tf.reshape(tokens, [-1, tokens.shape[-1]])))
        x = self.norm(flat)  # [B * T, E]
        vectors = tf.cast(self.owner.entities(candidates), x.dtype)  # [B, T, E]
        scores = tf.matmul(tf.reshape(x, tf.shape(vectors)), vectors, transpose_b=True)  # [B, T, T]
        given = (candidates > 0) | (tf.range(tf.shape(candidates)[1]) == 0)
        return tf.cast(scores, tf.float32) + tf.where(given, 0.0, HIDDEN)[:, None, :]

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"mentions": tf.math.count_nonzero(batch["entity_labels"], dtype=tf.int32)}

    def call(self, encoding: Any, batch: dict[str, Any], totals: dict[str, Any]) -> dict[str, Any]:
        logits, labels = self.logits(encoding.tokens, batch["entity_candidates"]), batch["entity_labels"]
        weights = tf.cast(labels > 0, tf.float32)  # [B, T]
        total = tf.cast(tf.maximum(totals["mentions"], 1), tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # [B, T]
        hit = tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), labels), tf.float32)
        return {
            "dea_loss": tf.reduce_sum(nll * weights) / total,
            "dea_accuracy": tf.reduce_sum(hit * weights) / total,
        }
