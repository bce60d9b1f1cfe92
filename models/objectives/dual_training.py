"""Dual training: a teacher learns the word pieces of a student with a smaller vocabulary, and the student's weights
stay near a projection of the teacher's. Zhao et al. (2019), "Extreme Language Model Compression with Optimal Subwords
and Shared Projections", arXiv:1909.11687v1.

    L = L_MLM(student) + L_MLM(teacher) + epsilon L_p
    L_p = sum_theta || U theta_t V - theta_s ||^2        (down)
    L_p = sum_theta || U theta_s V - theta_t ||^2        (up)

The student reads text split by its own vocabulary. The teacher reads the same text, in which each word is split by the
student's vocabulary with the probability p_DT, and otherwise by the teacher's (`models.text.mixed_words`). It predicts
a hidden piece among those of the vocabulary that split the word, so there are two softmax layers. theta are the weights
of embeddings and layers. Of the token vectors, only those of the student's pieces count, which the teacher has learnt
at its own width. U and V are learnt and shared by all layers. After pre-training they are discarded, as is the teacher.

Sources: the abstracts of both versions of the paper, and three readers' notes on the first one. The notes describe the
mixture by words for the teacher only, the two softmax layers, the projection of all weights of the layers up or down
with a squared loss, equal depths, and the three summands. The paper itself could not be read. Our own choices are:
p_DT = 0.5; epsilon; one U and one V for each width (the paper shares matrices in a way that we do not know); projected
embeddings; single pieces, hidden on both sides independently; no dropout in the teacher; and the initial vectors of the
student's pieces in the teacher: those of its own pieces with the same spelling, or else random.
"""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.layers.operations import HIDDEN
from ptmbench.models.layers.projections import Projections, WeightMatrix, weights_of
from ptmbench.models.objective import Batch, Batches, sampled
from ptmbench.models.objectives import mlm, sampling
from ptmbench.models.objectives._joint import Joint
from ptmbench.models.objectives.distillation import masked_lm
from ptmbench.models.objectives.mlm import MaskedLm
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.mixed_words import MixedWords, Union
from ptmbench.models.text.tokenizers import Vocabulary

SHARE = 0.5
"""p_DT: the share of words that the teacher reads in the student's pieces."""
EPSILON = 0.1
"""The weight of the projection loss."""
_OWN = "mixed_"
"""Prefix of the teacher's arrays in a batch."""


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int, share: float | None = None) -> Batches:
    """Returns a function from (step, seed) to full sentences with hidden pieces as in `models.objectives.mlm`, and the
    teacher's arrays ``mixed_tokens`` [B, T], ``mixed_positions``, ``mixed_labels`` and ``mixed_weights`` [B, M]. The
    ids of the latter are those of a `Union`."""
    union = Union(vocabulary.teacher or vocabulary, vocabulary)
    texts = sampling.FullSentences(corpus, vocabulary, length)
    mix = MixedWords(union, SHARE if share is None else share)

    def make(step: int, seed: int) -> Batch:
        rows, rng = texts(step, batch, seed)[0], sampling.generator(seed, step)
        mixed = mlm.noise({"tokens": mix(rows["tokens"], rng)}, rng, union.vocabulary)
        return mlm.noise(rows, rng, vocabulary) | {
            _OWN + name.removeprefix("masked_"): array for name, array in mixed.items()
        }

    return make


class DualTraining(Joint):
    """The ``loss`` of a student that reads ``union.student``: MLM by ``head`` and, with a ``teacher``, the teacher's
    MLM and the distance of projected weights.

    ``teacher`` has an encoder and a head of the teacher's shape over the union of both vocabularies, which start from
    the teacher's weights (see `copy_teacher_weights`), and the projections. All three are trained and are `scaffold`.
    Without a teacher the layer only holds the student's weights, for adaptations; calling it raises `ValueError`.
    """

    scaffold = ("teacher/", "teacher_mlm/", "projections/")

    def __init__(
        self,
        encoder: keras.layers.Layer,
        head: MaskedLm,
        union: Union,
        teacher: tuple[keras.layers.Layer, MaskedLm, Projections] | None,
        *,
        epsilon: float | None = None,
        up: bool = False,
    ):
        super().__init__(encoder, [head])
        self.union, self.up, self.taught = union, up, teacher is not None
        self.epsilon = EPSILON if epsilon is None else epsilon
        if teacher is not None:
            self._tracker.unlock()
            self.mixed_encoder, self.mixed_head, self.projections = teacher
            self._tracker.lock()

    @property
    def reports(self) -> tuple[str, ...]:
        return (*super().reports, "teacher_loss", "teacher_accuracy", "projection_loss")

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        mixed = tf.math.count_nonzero(batch["mixed_weights"], dtype=tf.int32)
        return super().totals(batch) | {"mixed": mixed}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        if not self.taught:
            raise ValueError("The loss of distillation needs a teacher, and the network was built without one.")
        (head,), totals = self.heads, totals or self.totals(batch)
        parts = head(self.encoder(batch, seed=seed), batch, totals)
        mixed = {f"masked_{name}": batch[_OWN + name] for name in ("positions", "labels", "weights")}
        given = self.mixed_encoder({"tokens": batch["mixed_tokens"]}).tokens
        logits = self.one_softmax(self.mixed_head.logits(given, mixed["masked_positions"]), mixed["masked_labels"])
        other = self.mixed_head.score(logits, mixed, {"masked": totals["mixed"]})
        parts |= {"teacher_loss": other["mlm_loss"], "teacher_accuracy": other["mlm_accuracy"]}
        # The distance is the same for all rows, so each part of a batch adds its share of it.
        share = tf.cast(tf.math.count_nonzero(batch["mixed_weights"], dtype=tf.int32), tf.float32) / tf.cast(
            tf.maximum(totals["mixed"], 1), tf.float32
        )
        parts["projection_loss"] = share * self.distance()
        loss = parts["mlm_loss"] + parts["teacher_loss"] + self.epsilon * parts["projection_loss"]
        return {"loss": loss, **parts}

    def one_softmax(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Returns the logits [B * M, V'] of the union with all pieces masked, except the special tokens and the pieces
        of the vocabulary that each of ``labels`` [B, M] belongs to."""
        number, first = tf.range(self.union.size), self.union.teacher.first
        theirs = number < self.union.teacher.size
        student = tf.reshape(labels, [-1, 1]) >= self.union.teacher.size  # [B * M, 1]
        allowed = (number < first) | (theirs != student)  # [B * M, V']
        return tf.where(allowed, logits, HIDDEN)

    def distance(self) -> tf.Tensor:
        """L_p []."""
        ours, theirs = weights_of(self.encoder), weights_of(self.mixed_encoder)
        table, union = theirs["embeddings/tokens/table"], self.union
        pieces = tf.concat([table.value[: union.student.first], table.value[union.teacher.size :]], axis=0)
        theirs["embeddings/tokens/table"] = WeightMatrix(pieces, table.rows, table.columns)
        pair = (ours, theirs) if self.up else (theirs, ours)
        return tf.add_n([value for _, value in self.projections.distances(*pair)])


def copy_teacher_weights(encoder: keras.layers.Layer, head: MaskedLm, union: Union, teacher: Pretrainable) -> None:
    """Copies the weights of ``teacher`` to ``encoder`` and ``head``, whose ids are those of ``union``. The student's
    pieces start with the vectors and biases of the teacher's pieces with the same spelling; other pieces keep their
    values."""
    theirs, pairs = masked_lm(teacher), union.pairs()
    known = {variable.path.partition("/")[2]: variable for variable in teacher.encoder.variables}
    for variable in encoder.variables:
        path = variable.path.partition("/")[2]
        if path != "embeddings/tokens/table":
            variable.assign(known[path])
    for name, _ in head.config.parts():
        for variable, given in zip(getattr(head, name).variables, getattr(theirs, name).variables, strict=True):
            variable.assign(given)
    for variable, given in (
        (encoder.token_embedding, teacher.encoder.token_embedding),
        (head.output_bias, theirs.output_bias),
    ):
        array = variable.numpy()
        array[: union.teacher.size] = given.numpy()
        array[pairs[:, 1]] = array[pairs[:, 0]]
        variable.assign(array)
