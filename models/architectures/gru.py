"""GRU that reads from left to right, and the one that writes under a condition. Kiros et al. (2015), equations 1 to 8.

    r = s(W_r x_t + U_r h_{t-1} + C_r c)                z = s(W_z x_t + U_z h_{t-1} + C_z c)
    h_t = (1 - z) h_{t-1} + z tanh(W x_t + U (r h_{t-1}) + C c)

without c in the encoder; c is the vector of another sentence in a decoder. There are no biases in the paper. What does
not depend on h_{t-1} is one product over all steps, before the loop.
"""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.architectures.parts import check_length, dropout, shape
from ptmbench.models.architectures.products import product
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.tokenizers import Vocabulary


def recur(inputs: tf.Tensor, gates: tf.Tensor, candidate: tf.Tensor, fresh: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
    """The states h [B, T, D] of a GRU, from ``inputs`` [B, T, 3 D], the sums for r, z and the candidate.

    ``gates`` [D, 2 D] are U_r and U_z, ``candidate`` [D, D] is U. Before a step that is ``fresh`` bool [B, T] the state
    is zero; after one that is not ``present`` bool [B, T] it is what it was.
    """
    rows, steps, _ = shape(inputs)
    # A loop that reads variables is run, whoever needs it.
    gates, candidate = map(tf.convert_to_tensor, (gates, candidate))
    width = candidate.shape[0]
    readers = [
        tf.TensorArray(value.dtype, steps).unstack(tf.transpose(value, [1, 0, 2]))
        for value in (inputs, fresh[:, :, None], present[:, :, None])
    ]
    writer = tf.TensorArray(inputs.dtype, steps, element_shape=[None, width])

    def step(t: tf.Tensor, h: tf.Tensor, outputs: tf.TensorArray) -> tuple:
        x, begins, here = (reader.read(t) for reader in readers)
        old = tf.where(begins, tf.zeros_like(h), h)  # [B, D]; the state adds up in float32
        sums = x[:, : 2 * width] + tf.matmul(tf.cast(old, x.dtype), gates)
        r, z = tf.split(tf.sigmoid(tf.cast(sums, tf.float32)), 2, axis=1)
        sums = x[:, 2 * width :] + tf.matmul(tf.cast(r * old, x.dtype), candidate)
        new = (1.0 - z) * old + z * tf.tanh(tf.cast(sums, tf.float32))
        h = tf.where(here, new, h)
        return t + 1, h, outputs.write(t, tf.cast(h, x.dtype))

    start = (0, tf.zeros([rows, width]), writer)
    _, _, outputs = tf.while_loop(lambda t, *_: t < steps, step, start, maximum_iterations=steps)
    return tf.transpose(outputs.stack(), [1, 0, 2])


class Gru:
    """The weights of one GRU of width D over inputs of width D, which are ``owner``'s; with ``conditioned`` there is
    a C for the vector c."""

    def __init__(self, owner: keras.layers.Layer, width: int, conditioned: bool, name: str):
        self.kernel = owner.add_weight((width, 3 * width), "glorot_uniform", name=f"{name}_kernel")
        self.gates = owner.add_weight((width, 2 * width), "orthogonal", name=f"{name}_gates")
        self.candidate = owner.add_weight((width, width), "orthogonal", name=f"{name}_candidate")
        self.condition = None
        if conditioned:
            self.condition = owner.add_weight((width, 3 * width), "glorot_uniform", name=f"{name}_condition")

    def __call__(self, x: tf.Tensor, fresh: tf.Tensor, present: tf.Tensor, condition: Any = None) -> tf.Tensor:
        """States [B, T, D] over ``x`` [B, T, D], with a ``condition`` [B, T, D] for each step where there is one; see
        `recur`."""
        rows, steps, width = shape(x)
        inputs = product(tf.reshape(x, [-1, width]), self.kernel)
        if self.condition is not None:
            inputs += tf.matmul(tf.reshape(condition, [-1, width]), self.condition)
        inputs = tf.reshape(inputs, [rows, steps, 3 * width])
        return recur(inputs, self.gates.value, self.candidate.value, fresh, present)


class LeftGru(keras.layers.Layer):
    """One layer of D units over embeddings of width D: batch to `Encoding`. ``pooled`` is the last state.

    Marks are no words: the state passes over them, and over padding. ``length`` bounds the memory that an `Encoding`
    takes. ``dropout`` falls on embeddings.
    """

    causal = True
    recurrent = True
    depth = 1

    def __init__(self, size: Size, vocabulary: Vocabulary, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.length, self.dropout = size.width, size.length, 0.1
        self.first, self.unknown = vocabulary.first, vocabulary.unk
        start = keras.initializers.RandomNormal(stddev=4 * size.width**-0.5)  # as `models.architectures.left_lstm`
        self.token_embedding = self.add_weight((vocabulary.size, size.width), start, name="tokens")
        self.gru = Gru(self, size.width, False, "gru")
        self.built = True

    def embed(self, tokens: tf.Tensor, seed: Any, salt: int) -> tf.Tensor:
        return dropout(tf.gather(self.token_embedding.value, tokens), self.dropout, seed, salt)

    def states(self, tokens: tf.Tensor, fresh: tf.Tensor, seed: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Embeddings and states, [B, T, D] each; the state begins anew where ``fresh`` bool [B, T] says so."""
        words = self.embed(tokens, seed, 0)
        return words, self.gru(words, fresh, (tokens >= self.first) | (tokens == self.unknown))

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = tf.convert_to_tensor(batch["tokens"])
        check_length(shape(tokens)[1], self.length, "encoder")
        words, states = self.states(tokens, tf.zeros_like(tokens, tf.bool), seed)
        return Encoding(tokens=states, pooled=states[:, -1], layers=(words, states))
