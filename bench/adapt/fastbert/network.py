"""FastBERT in TensorFlow: branches, the students' loss, and answers that leave the network early."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ptmbench.bench.adapt import exits, parts
from ptmbench.bench.adapt.fastbert import Own
from ptmbench.bench.adapt.fastbert.head import Logits
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.config import GLOROT, AttentionConfig, LinearConfig
from ptmbench.models.layers.core import Rows, built
from ptmbench.models.layers.embeddings import padding_bias
from ptmbench.models.layers.operations import shape


class Branch(keras.layers.Layer):
    """A classifier without its last layer: token vectors [B, T, D] to [B, W]. It takes the vector of the first token
    or, if ``last``, of the last token."""

    def __init__(self, width: int, narrow: int, heads: int, last: bool, name: str):
        super().__init__(name=name)
        self.last = last
        with keras.name_scope(name):
            self.narrow = built(LinearConfig(inputs=width, outputs=narrow, start=GLOROT), name="narrow")
            self.attention = built(AttentionConfig(width=narrow, heads=heads, start=GLOROT), name="attention")
            self.dense = built(LinearConfig(inputs=narrow, outputs=narrow, start=GLOROT), name="dense")
        self.built = True

    def call(self, x: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
        """``tokens`` int32 [B, T] show which places are padding."""
        count, length, width = shape(x)
        h = tf.tanh(self.narrow(tf.reshape(x, [-1, width])))  # [B * T, W]
        place = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1) - 1  # [B]
        taken = tf.range(count) * length + (tf.maximum(place, 0) if self.last else 0)
        seen = self.attention.read(h, Rows(count, length))
        h, _ = self.attention(tf.gather(h, taken), padding_bias(tokens), rows=Rows(count, 1), memory=seen)
        return tf.tanh(self.dense(h))


class Reading(parts.Reading):
    """A branch over every layer. Returns the vectors of the students as ``tokens`` [B, L - 1, W], and the teacher's as
    ``pooled`` [B, W].

    Raises `NotApplicable` for an encoder in which no text can leave early.
    """

    def __init__(self, encoder: Any, settings: Own):
        super().__init__(name="branches")
        parts.check_stepwise(encoder, "no exit fits between them")
        if encoder.depth < 2:
            raise NotApplicable("one-layer", "because a model of one layer has no earlier exit.")
        self.settings, self.width = settings, encoder.width
        sizes = (encoder.width, settings.branch_width(encoder.width), settings.branch_heads)
        made = [Branch(*sizes, last=encoder.causal, name=f"branch_{n}") for n in range(1, encoder.depth + 1)]
        self.students, self.teacher = made[:-1], made[-1]

    @property
    def branches(self) -> Sequence[Any]:
        return self.trainable_variables

    @property
    def glorot(self) -> Sequence[Any]:
        return [variable for variable in self.trainable_variables if len(variable.shape) == 2]

    def call(self, encoding: Any, batch: dict[str, Any]) -> Any:
        *lower, top = encoding.layers[1:]
        students = [branch(x, batch["tokens"]) for branch, x in zip(self.students, lower, strict=True)]
        return encoding._replace(tokens=tf.stack(students, axis=1), pooled=self.teacher(top, batch["tokens"]))

    def branch_flops(self, row: InputRow) -> float:
        """FLOPs of one branch over ``row``."""
        return self.settings.branch_flops(self.width, row.tokens)

    def flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of the teacher's branch."""
        return sum(map(self.branch_flops, rows))

    def second_flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of the students' branches."""
        return len(self.students) * self.flops(rows)


def distilled(logits: Logits, divergence: str) -> tf.Tensor:
    """The students' loss, as a mean over the rows. The teacher does not learn from it."""
    students = tf.nn.log_softmax(logits.students)  # [B, L - 1, C]
    teacher = tf.stop_gradient(tf.nn.log_softmax(logits.teacher))[:, None]  # [B, 1, C]
    if divergence == "student":
        terms = tf.exp(students) * (students - teacher)
    else:
        terms = tf.exp(teacher) * (teacher - students)
    return tf.reduce_mean(tf.reduce_sum(terms, axis=[1, 2]))


def uncertainty(logits: tf.Tensor, unused: tf.Tensor) -> tf.Tensor:
    """Equation 7, [B]: the entropy of the softmax of ``logits`` [B, C] as a share of the highest one that the N classes
    of the task can have. ``unused`` is 0 for these."""
    shares = tf.nn.log_softmax(logits)
    entropy = -tf.reduce_sum(tf.exp(shares) * shares, axis=-1)
    classes = tf.reduce_sum(tf.cast(tf.equal(unused, 0), tf.float32), axis=-1)
    return tf.math.divide_no_nan(entropy, tf.math.log(classes))


def exit_logits(adapted: Any, batch: dict[str, tf.Tensor], speed: tf.Tensor) -> tf.Tensor:
    """The logits of the first branch of each row whose `uncertainty` is below ``speed``, or else of the teacher,
    followed by the number of their layer: [B, C + 1]."""
    reading, head = adapted.reading, adapted.head
    branches = (*reading.students, reading.teacher)

    def read(index: int, x: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
        vector = branches[index](x, tokens)
        return head.teacher(vector) if index == len(branches) - 1 else head.students.one(index, vector)

    def stay(logits: tf.Tensor, unused: tf.Tensor, memory: Any) -> tuple[tf.Tensor, Any]:
        return uncertainty(logits, unused) >= speed, ()

    return exits.exit_logits(adapted, batch, read, stay)
