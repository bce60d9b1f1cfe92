"""Recurrent layers: LSTM, GRU, QRNN, and stacks of them.

Tensors have the shape [T, B, C], so that a step is a slice. One product over all tokens before the loop computes the
inputs' part of the gates. Only the products with the state are inside the loop. Each direction has its own loop, so
that TensorFlow can run both directions at once. Processor time of a training step of one LSTM layer with projection
(both directions, B 32, T 128, P 128, C 640: 36 GFLOP; one thread), in seconds:

     1.02   this loop
     0.92   unrolled, but it takes 7 times as long to trace, and each trace has one length
     1.04   with a gradient written by hand
     1.77   both directions stacked in one loop (their arrays have to be transposed)
    10.6    with ``inputs[t]`` instead of an array of steps (its gradient adds up T arrays of zeros)
     3.0    ``keras.layers.LSTM`` for as many cells; it has no projection

A kernel that a loop uses is read once, before the loop (`Kernel.whole`): an extension at its seam runs once a call, and
LoRA is added once. If it is quantised to int8, it is stored in 8 bits and the loop computes in floating point. The
products before the loop compute in 8 bits, as in every `Linear`.

Sources: Hochreiter and Schmidhuber (1997); Gers et al. (2000); Sak et al. (2014), section 2; Zaremba et al. (2014),
section 3.1; Kiros et al. (2015), equations 1 to 8; Bradbury et al. (2017), sections 2 and 2.1.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from ptmbench.models.layers.core import NO_DROP, Drop, Layer, Linear, made_from
from ptmbench.models.layers.operations import dropout, shape
from ptmbench.models.layers.products import product
from ptmbench.models.layers.recurrent_config import (
    AwdStackConfig,
    BothWaysConfig,
    GatesConfig,
    GruConfig,
    InnerLstmConfig,
    KernelConfig,
    LstmConfig,
    QrnnConfig,
    RecurrentStackConfig,
)

State = tuple[tf.Tensor, tf.Tensor]
"""h [B, C], or [B, P] if it is projected, and c float32 [B, C] of an LSTM."""


def loop(
    step: Callable, arrays: Sequence[tf.Tensor], states: Any, width: int, dtype: tf.DType
) -> tuple[tf.Tensor, Any]:
    """Runs all steps. Returns their outputs [T, B, W], of ``dtype``, and the last states.

    ``step(states, *slices)`` returns the output [B, W] of a step and the states after it. ``slices`` are those of
    ``arrays`` [T, ...]. ``step`` must not read variables, because TensorFlow runs a loop that reads variables even if
    its results are not needed.
    """
    steps = shape(arrays[0])[0]
    readers = [tf.TensorArray(array.dtype, steps).unstack(array) for array in arrays]
    writer = tf.TensorArray(dtype, steps, element_shape=[arrays[0].shape[1], width])  # LiteRT needs static shapes

    def body(t: tf.Tensor, states: Any, outputs: tf.TensorArray) -> tuple:
        found, states = step(states, *(reader.read(t) for reader in readers))
        return t + 1, states, outputs.write(t, found)

    start = (0, states, writer)
    _, states, outputs = tf.while_loop(lambda t, *_: t < steps, body, start, maximum_iterations=steps)
    return outputs.stack(), states


def reset_at_beginnings(states: Any, begins: tf.Tensor) -> Any:
    """``states`` [B, C], set to zero in the rows where a text ``begins``, bool [B, 1]."""
    return tf.nest.map_structure(lambda state: tf.where(begins, tf.zeros_like(state), state), states)


def cell(z: tf.Tensor, c: tf.Tensor, clip: float = 0.0) -> State:
    """One step of an LSTM: from the sums ``z`` [B, 4 C] of the gates g, i, f, o and the cells ``c`` float32 [B, C] to
    (h, c)."""
    g, i, f, o = tf.split(tf.cast(z, tf.float32), 4, axis=-1)  # cells accumulate in float32
    c = clip_values(tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g), clip)
    return tf.cast(tf.sigmoid(o) * tf.tanh(c), z.dtype), c


def clip_values(x: tf.Tensor, clip: float) -> tf.Tensor:
    """``x`` clipped to -``clip`` ... ``clip``, or unchanged if ``clip`` is 0."""
    return tf.clip_by_value(x, -clip, clip) if clip else x


def repeated_biases(dims: tuple[int, ...], begins: Sequence[float], dtype: Any = None) -> tf.Tensor:
    """Initial biases [G * C]: each of the G numbers in ``begins``, C times."""
    return tf.repeat(tf.constant(begins, dtype or "float32"), dims[0] // len(begins))


def lstm_bias_initializer(dims: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
    """Initial biases of an LSTM's gates g, i, f, o: those of `LstmConfig`."""
    return repeated_biases(dims, (0.0, 0.0, 1.0, 0.0), dtype)


@made_from(KernelConfig)
class Kernel(Linear):
    """A product with a kernel [I, O], which `whole` returns, and a bias [O]."""

    SEAMS = ("kernel",)

    def build(self, input_shape: Any = None) -> None:
        self.bias_initializer = lambda dims, dtype=None: repeated_biases(dims, self.config.begins, dtype)
        super().build(input_shape)

    def whole(self) -> tf.Tensor:
        """The kernel [I, O] in the compute dtype of the layer: dequantised, with LoRA, and after extensions."""
        if not self.quantization_mode:
            return self.through("kernel", tf.convert_to_tensor(self.kernel))
        kernel = tf.cast(self._kernel, self.compute_dtype) / tf.cast(self.kernel_scale, self.compute_dtype)
        if self.lora_enabled:
            added = tf.matmul(tf.convert_to_tensor(self.lora_kernel_a), tf.convert_to_tensor(self.lora_kernel_b))
            kernel += tf.cast(self.lora_alpha / self.lora_rank * added, kernel.dtype)
        return kernel

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        """As `Linear.quantize`. Raises `ValueError` for modes other than "int8"."""
        if mode != "int8":
            raise ValueError(
                f"{type(self).__name__} '{self.path}' cannot be quantised to {mode}: recurrent layers read their "
                "kernels before they loop over tokens, and can read int8 only. Use quantize('int8')."
            )
        super().quantize(mode, type_check, config)


@made_from(GatesConfig)
class Gates(Kernel):
    """The inputs' part of a layer's gates, [N, I] to [N, G * C]."""

    SEAMS = Linear.SEAMS

    def dropped(self, x: tf.Tensor, drop: Drop) -> tf.Tensor:
        """The result for x [N, I] with dropout on the entries of the kernel."""
        x = product(self.through("input", x), drop(self.whole()))
        return self.through("output", x if self.bias is None else tf.nn.bias_add(x, self.bias))


class RecurrentLayer(Layer):
    """Base class of layers over [T, B, I]. Extensions at "sums" get the inputs' part of the gates, [T, B, G * C]."""

    SEAMS = ("sums",)

    def sums(self, x: tf.Tensor, drop: Drop = NO_DROP) -> tf.Tensor:
        """The part of the gates [T, B, G * C] that is computed from x [T, B, I]. ``drop`` applies to the entries of the
        kernel."""
        steps, rows, width = shape(x)
        flat = tf.reshape(x, [-1, width])
        sums = self.gates(flat) if drop.seed is None else self.gates.dropped(flat, drop)
        return self.through("sums", tf.reshape(sums, [steps, rows, sums.shape[-1]]))


@made_from(LstmConfig)
class Lstm(RecurrentLayer):
    """One direction of an LSTM layer, x [T, B, I] to h [T, B, C], from states of zero:

        [g i f o] = W x_t + U h_{t-1} + b         c_t = s(f) c_{t-1} + s(i) tanh(g)         h_t = s(o) tanh(c_t)

    With a projection R, h_t = R (s(o) tanh(c_t)) has the width P.
    """

    def turn(self) -> Callable[[tf.Tensor, tf.Tensor], State]:
        """Returns a function that computes h_t and c_t from z = W x_t + U h_{t-1} + b and c_{t-1}."""
        clip = self.config.clip
        if not self.config.projection:
            return lambda z, c: cell(z, c, clip)
        projection = self.projection.whole()

        def projected(z: tf.Tensor, c: tf.Tensor) -> State:
            h, c = cell(z, c, clip)
            return clip_values(tf.matmul(h, projection), clip), c

        return projected

    def begin(self, dims: list[Any], dtype: Any = None) -> State:
        """States of zero, [..., C] for ``dims`` [...]. The cells are float32."""
        config = self.config
        return tf.zeros([*dims, config.width], dtype or self.compute_dtype), tf.zeros([*dims, config.cells])

    def call(
        self, x: tf.Tensor, present: Any = None, fresh: Any = None, drop: Drop = NO_DROP
    ) -> tuple[tf.Tensor, State]:
        """h [T, B, C], and the last state.

        Where ``present`` bool [T, B, 1] is false, the state does not change. Where ``fresh`` bool [T, B, 1] is true,
        the state is set to zero before the step. ``drop`` applies to the entries of U, with one mask for all steps and
        rows.
        """
        sums = self.sums(x)
        recurrent, turn = drop(self.recurrent.whole()), self.turn()
        masks = [mask for mask in (present, fresh) if mask is not None]

        def step(state: State, z: tf.Tensor, *now: tf.Tensor) -> tuple[tf.Tensor, State]:
            if fresh is not None:
                state = reset_at_beginnings(state, now[-1])
            h, c = state
            h, c = turn(z + tf.matmul(h, recurrent), c)
            if present is not None:
                h, c = tf.where(now[0], h, state[0]), tf.where(now[0], c, state[1])
            return h, (h, c)

        return loop(step, [sums, *masks], self.begin([shape(x)[1]], sums.dtype), self.config.width, sums.dtype)

    def step(self, x: tf.Tensor, state: State) -> State:
        """The state after one more input x [N, I]."""
        h, c = state
        return self.turn()(self.gates(x) + tf.matmul(h, self.recurrent.whole()), c)


@made_from(InnerLstmConfig)
class InnerLstm(Lstm):
    """An LSTM layer inside the loop of another layer, which computes its sums."""

    SEAMS = ()


@made_from(GruConfig)
class Gru(RecurrentLayer):
    """A GRU over x [T, B, I], from a state of zero:

        r = s(W_r x_t + U_r h_{t-1} + C_r c)                z = s(W_z x_t + U_z h_{t-1} + C_z c)
        h_t = (1 - z) h_{t-1} + z tanh(W x_t + U (r h_{t-1}) + C c)

    Without ``conditioned`` there is no c.
    """

    def call(self, x: tf.Tensor, fresh: tf.Tensor, present: tf.Tensor, condition: Any = None) -> tf.Tensor:
        """States [T, B, C], with a ``condition`` [T, B, C] for each step if the layer is ``conditioned``. Where
        ``fresh`` bool [T, B, 1] is true, the state is set to zero before the step. Where ``present`` bool [T, B, 1] is
        false, the step leaves the state as it was."""
        sums = self.sums(x)
        if self.config.conditioned:
            flat = tf.reshape(condition, [-1, self.config.cells])
            sums += tf.reshape(self.condition(flat), tf.shape(sums))
        return states_of_gru(sums, self.recurrent.whole(), self.candidate.whole(), fresh, present)


def states_of_gru(
    sums: tf.Tensor, recurrent: tf.Tensor, candidate: tf.Tensor, fresh: tf.Tensor, present: tf.Tensor
) -> tf.Tensor:
    """The states h [T, B, C] of a GRU. ``sums`` [T, B, 3 C] are the inputs' part of r, z and the candidate.
    ``recurrent`` [C, 2 C] has U_r and U_z, and ``candidate`` [C, C] is U. For ``fresh`` and ``present`` see `Gru`."""
    width = candidate.shape[0]

    def step(h: tf.Tensor, x: tf.Tensor, begins: tf.Tensor, here: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        old = reset_at_beginnings(h, begins)  # [B, C]; the state accumulates in float32
        gates = x[:, : 2 * width] + tf.matmul(tf.cast(old, x.dtype), recurrent)
        r, z = tf.split(tf.sigmoid(tf.cast(gates, tf.float32)), 2, axis=1)
        new = x[:, 2 * width :] + tf.matmul(tf.cast(r * old, x.dtype), candidate)
        new = (1.0 - z) * old + z * tf.tanh(tf.cast(new, tf.float32))
        h = tf.where(here, new, h)
        return tf.cast(h, x.dtype), h

    return loop(step, [sums, fresh, present], tf.zeros([shape(sums)[1], width]), width, sums.dtype)[0]


@made_from(QrnnConfig)
class Qrnn(RecurrentLayer):
    """A quasi-recurrent layer over x [T, B, I], with zeros before the first token:

        [z f o] = W [x_{t-1}; x_t] + b          c_t = s(f) c_{t-1} + (1 - s(f)) tanh(z)          h_t = s(o) c_t

    No product depends on the step before. There is one product over the whole row, and the loop multiplies element by
    element.
    """

    def call(self, x: tf.Tensor, drop: Drop = NO_DROP) -> tf.Tensor:
        """h [T, B, C]. ``drop`` applies to the entries of W."""
        steps = shape(x)[0]
        seen = [tf.pad(x, [[back, 0], [0, 0], [0, 0]])[:steps] for back in range(self.config.window - 1, 0, -1)]
        sums = tf.cast(self.sums(tf.concat([*seen, x], axis=2), drop), tf.float32)
        z, f, o = tf.split(sums, 3, axis=2)
        return tf.cast(tf.sigmoid(o) * pool(tf.tanh(z), tf.sigmoid(f)), x.dtype)


def pool(z: tf.Tensor, forget: tf.Tensor) -> tf.Tensor:
    """c_t = f_t c_{t-1} + (1 - f_t) z_t over [T, B, C], from zeros."""

    def step(c: tf.Tensor, now: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        return now[0] + now[1] * c

    return tf.scan(step, ((1.0 - forget) * z, forget), tf.zeros_like(z[0]))


@made_from(BothWaysConfig)
class BothWays(Layer):
    """An LSTM layer in each direction over x [T, B, I], to [forward; backward], [T, B, 2 C]."""

    def call(self, x: tf.Tensor, lengths: tf.Tensor, begins: Any = None) -> tf.Tensor:
        """``lengths`` int32 [B] are the numbers of tokens before the padding at the right end. If rows may hold several
        texts, ``begins`` bool [T, B] marks the first token of each, and no state goes from one text into another."""
        fresh = last = None
        if begins is not None:
            ends = tf.roll(begins, -1, axis=0)  # backwards, a text begins at its last token
            last = reverse_rows(tf.cast(ends, tf.int32), lengths) > 0  # LiteRT reverses no truth values
            fresh, last = begins[:, :, None], last[:, :, None]
        ahead, _ = self.forward_lstm(x, fresh=fresh)
        back, _ = self.backward_lstm(reverse_rows(x, lengths), fresh=last)
        return tf.concat([ahead, reverse_rows(back, lengths)], axis=2)


def reverse_rows(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """x [T, B, ...], each row reversed up to its own length, so that padding never reaches a real token."""
    return tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1)


@made_from(RecurrentStackConfig)
class RecurrentStack(Layer):
    """Layers one after the other. Extensions at "between" get the output of each layer, [T, B, C], and its number
    ``index`` from 0.

    Dropout applies between layers, never between steps (Zaremba et al., 2014, section 3.2).
    """

    SEAMS = ("between",)

    def __init__(self, config: RecurrentStackConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.members = [getattr(self, name) for name, _ in config.parts()]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def call(self, x: tf.Tensor, drop: Drop = NO_DROP, **masks: Any) -> tuple[list[tf.Tensor], list[Any]]:
        """The L + 1 tensors [T, B, C] (``x``, then each layer), and the layers' last states, or None for layers that do
        not return them. ``masks`` are further arguments of the layers."""
        layers, states = [x], []
        for index, layer in enumerate(self.members):
            found = layer(drop(layers[-1], index), **masks)
            new, state = found if isinstance(found, tuple) else (found, None)
            if self.config.residual and index:
                new = new + layers[-1]
            layers.append(self.through("between", new, index=index))
            states.append(state)
        if self.config.ended:
            layers[-1] = drop(layers[-1], len(self.members))
        return layers, states


@made_from(AwdStackConfig)
class AwdStack(RecurrentStack):
    """`RecurrentStack` with the dropout of AWD-LSTM. It applies to the recurrent kernel of an LSTM, and to the only
    kernel of a QRNN."""

    def call(
        self, x: tf.Tensor, hidden: Drop = NO_DROP, weights: Drop = NO_DROP, **masks: Any
    ) -> tuple[list[tf.Tensor], list[Any]]:
        """As `RecurrentStack`. ``hidden`` applies between the layers, and ``weights`` to the entries of kernels."""
        layers, states = [x], []
        for index, layer in enumerate(self.members):
            read = locked_dropout(layers[-1], hidden.at(index), axis=0) if index else layers[-1]
            found = layer(read, drop=weights.at(index), **masks)
            new, state = found if isinstance(found, tuple) else (found, None)
            layers.append(self.through("between", new, index=index))
            states.append(state)
        return layers, states


def locked_dropout(x: tf.Tensor, drop: Drop, axis: int) -> tf.Tensor:
    """Dropout with one mask for all steps, which are the ``axis`` of ``x`` ("variational": Gal and Ghahramani,
    2016)."""
    if drop.seed is None:
        return x
    dims = shape(x)
    dims[axis] = 1
    return x * dropout(tf.ones(dims, x.dtype), drop.rate, drop.seed, drop.place)
