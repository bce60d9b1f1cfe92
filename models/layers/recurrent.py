"""Recurrent layers: LSTM, GRU, QRNN, and stacks of them.

Vectors travel as [T, B, C], so that a step is a slice. What a layer's input gives to its gates is one product over all
tokens before the loop; inside remain the products with the state. One loop per direction, so that TensorFlow can run
both directions at once. Processor time of a training step of one LSTM layer with projection (both directions, B 32,
T 128, P 128, C 640: 36 GFLOP; one thread): 1.02 s. In comparison, unrolled it takes 0.92 s, but 7 times as long to
trace and one length per trace; with a gradient written by hand 1.04 s; with both directions stacked in one loop 1.77 s
(their arrays have to be transposed); with ``inputs[t]`` instead of an array of steps 10.6 s (its gradient adds up T
arrays of zeros); ``keras.layers.LSTM``, which has no projection, 3.0 s for as many cells.

A kernel that a loop uses is read once, before the loop (`Kernel.whole`): an extension at its seam runs once a call, and
LoRA is added once. Quantised to int8, such a kernel is stored in 8 bits and computes in floating point; the products
before the loop compute in 8 bits, as in every `Linear`.

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
"""h [B, C], or [B, P] where it is projected, and c float32 [B, C] of an LSTM."""


def loop(
    step: Callable, arrays: Sequence[tf.Tensor], states: Any, width: int, dtype: tf.DType
) -> tuple[tf.Tensor, Any]:
    """The outputs [T, B, W] of all steps, of ``dtype``, and the last states.

    ``step(states, *slices)`` gives a step's output [B, W] and the states after it; ``slices`` are those of ``arrays``
    [T, ...]. It must not read variables: a loop that does is run even if nothing needs what it computes.
    """
    steps = shape(arrays[0])[0]
    readers = [tf.TensorArray(array.dtype, steps).unstack(array) for array in arrays]
    writer = tf.TensorArray(dtype, steps, element_shape=[None, width])

    def body(t: tf.Tensor, states: Any, outputs: tf.TensorArray) -> tuple:
        found, states = step(states, *(reader.read(t) for reader in readers))
        return t + 1, states, outputs.write(t, found)

    start = (0, states, writer)
    _, states, outputs = tf.while_loop(lambda t, *_: t < steps, body, start, maximum_iterations=steps)
    return outputs.stack(), states


def kept(states: Any, begins: tf.Tensor) -> Any:
    """``states`` [B, C], zero in the rows where a text ``begins``, bool [B, 1]."""
    return tf.nest.map_structure(lambda state: tf.where(begins, tf.zeros_like(state), state), states)


def cell(z: tf.Tensor, c: tf.Tensor, clip: float = 0.0) -> State:
    """One step of an LSTM: the sums ``z`` [B, 4 C] of the gates g, i, f, o and the cells ``c`` float32 [B, C] to
    (h, c)."""
    g, i, f, o = tf.split(tf.cast(z, tf.float32), 4, axis=-1)  # the cell adds up in float32
    c = held(tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g), clip)
    return tf.cast(tf.sigmoid(o) * tf.tanh(c), z.dtype), c


def held(x: tf.Tensor, clip: float) -> tf.Tensor:
    """``x`` within ``clip`` of 0, or as it is where ``clip`` is 0."""
    return tf.clip_by_value(x, -clip, clip) if clip else x


def begun(dims: tuple[int, ...], begins: Sequence[float], dtype: Any = None) -> tf.Tensor:
    """Initial biases [G * C]: C times each of the G numbers in ``begins``."""
    return tf.repeat(tf.constant(begins, dtype or "float32"), dims[0] // len(begins))


def remember(dims: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
    """Initial biases of an LSTM's gates g, i, f, o: those of `LstmConfig`."""
    return begun(dims, (0.0, 0.0, 1.0, 0.0), dtype)


@made_from(KernelConfig)
class Kernel(Linear):
    """A product with a kernel [I, O], which `whole` gives, and a bias [O]."""

    SEAMS = ("kernel",)

    def build(self, input_shape: Any = None) -> None:
        self.bias_initializer = lambda dims, dtype=None: begun(dims, self.config.begins, dtype)
        super().build(input_shape)

    def whole(self) -> tf.Tensor:
        """The kernel [I, O] of the dtype that the layer computes in: with LoRA, after int8, and after extensions."""
        if not self.quantization_mode:
            return self.through("kernel", tf.convert_to_tensor(self.kernel))
        kernel = tf.cast(self._kernel, self.compute_dtype) / tf.cast(self.kernel_scale, self.compute_dtype)
        if self.lora_enabled:
            added = tf.matmul(tf.convert_to_tensor(self.lora_kernel_a), tf.convert_to_tensor(self.lora_kernel_b))
            kernel += tf.cast(self.lora_alpha / self.lora_rank * added, kernel.dtype)
        return kernel

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        """As `Linear`. Raises `ValueError` for another mode than "int8"."""
        if mode != "int8":
            raise ValueError(
                f"{type(self).__name__} '{self.path}' cannot be quantised to {mode}: recurrent layers read their "
                "kernels before they loop over tokens, and can read int8 only. Use quantize('int8')."
            )
        super().quantize(mode, type_check, config)


@made_from(GatesConfig)
class Gates(Kernel):
    """What the inputs of a layer give to its gates, [N, I] to [N, G * C]."""

    SEAMS = Linear.SEAMS

    def dropped(self, x: tf.Tensor, drop: Drop) -> tf.Tensor:
        """The same with dropout on the entries of the kernel."""
        x = product(self.through("input", x), drop(self.whole()))
        return self.through("output", x if self.bias is None else tf.nn.bias_add(x, self.bias))


class RecurrentLayer(Layer):
    """Base of layers over [T, B, I]. Extensions at "sums" get what the input gives to the gates, [T, B, G * C]."""

    SEAMS = ("sums",)

    def sums(self, x: tf.Tensor, drop: Drop = NO_DROP) -> tf.Tensor:
        """What x [T, B, I] gives to the gates, [T, B, G * C]; ``drop`` falls on the entries of the kernel."""
        steps, rows, width = shape(x)
        flat = tf.reshape(x, [-1, width])
        sums = self.gates(flat) if drop.seed is None else self.gates.dropped(flat, drop)
        return self.through("sums", tf.reshape(sums, [steps, rows, sums.shape[-1]]))


@made_from(LstmConfig)
class Lstm(RecurrentLayer):
    """One direction of an LSTM layer, x [T, B, I] to h [T, B, C], from states of zero:

        [g i f o] = W x_t + U h_{t-1} + b         c_t = s(f) c_{t-1} + s(i) tanh(g)         h_t = s(o) tanh(c_t)

    With a projection R, h_t = R (s(o) tanh(c_t)) is of width P.
    """

    def turn(self) -> Callable[[tf.Tensor, tf.Tensor], State]:
        """A function of z = W x_t + U h_{t-1} + b and c_{t-1} that gives h_t and c_t."""
        clip = self.config.clip
        if not self.config.projection:
            return lambda z, c: cell(z, c, clip)
        projection = self.projection.whole()

        def projected(z: tf.Tensor, c: tf.Tensor) -> State:
            h, c = cell(z, c, clip)
            return held(tf.matmul(h, projection), clip), c

        return projected

    def begin(self, dims: list[Any], dtype: Any = None) -> State:
        """States of zero, [..., C] for ``dims`` [...]; the cells are float32."""
        config = self.config
        return tf.zeros([*dims, config.width], dtype or self.compute_dtype), tf.zeros([*dims, config.cells])

    def call(
        self, x: tf.Tensor, present: Any = None, fresh: Any = None, drop: Drop = NO_DROP
    ) -> tuple[tf.Tensor, State]:
        """h [T, B, C], and the last state.

        Where ``present`` bool [T, B, 1] is false, the state stays what it was. Before a step that is ``fresh`` bool
        [T, B, 1] it is zero. ``drop`` falls on the entries of U, the same ones in all steps and rows.
        """
        sums = self.sums(x)
        recurrent, turn = drop(self.recurrent.whole()), self.turn()
        masks = [mask for mask in (present, fresh) if mask is not None]

        def step(state: State, z: tf.Tensor, *now: tf.Tensor) -> tuple[tf.Tensor, State]:
            if fresh is not None:
                state = kept(state, now[-1])
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

    without c unless it is ``conditioned``.
    """

    def call(self, x: tf.Tensor, fresh: tf.Tensor, present: tf.Tensor, condition: Any = None) -> tf.Tensor:
        """States [T, B, C], with a ``condition`` [T, B, C] for each step where there is one. Before a step that is
        ``fresh`` bool [T, B, 1] the state is zero; after one that is not ``present`` bool [T, B, 1] it is what it
        was."""
        sums = self.sums(x)
        if self.config.conditioned:
            flat = tf.reshape(condition, [-1, self.config.cells])
            sums += tf.reshape(self.condition(flat), tf.shape(sums))
        return states_of_gru(sums, self.recurrent.whole(), self.candidate.whole(), fresh, present)


def states_of_gru(
    sums: tf.Tensor, recurrent: tf.Tensor, candidate: tf.Tensor, fresh: tf.Tensor, present: tf.Tensor
) -> tf.Tensor:
    """The states h [T, B, C] of a GRU, from ``sums`` [T, B, 3 C], which inputs give to r, z and the candidate;
    ``recurrent`` [C, 2 C] are U_r and U_z, ``candidate`` [C, C] is U. ``fresh`` and ``present`` are as for `Gru`."""
    width = candidate.shape[0]

    def step(h: tf.Tensor, x: tf.Tensor, begins: tf.Tensor, here: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        old = kept(h, begins)  # [B, C]; the state adds up in float32
        gates = x[:, : 2 * width] + tf.matmul(tf.cast(old, x.dtype), recurrent)
        r, z = tf.split(tf.sigmoid(tf.cast(gates, tf.float32)), 2, axis=1)
        new = x[:, 2 * width :] + tf.matmul(tf.cast(r * old, x.dtype), candidate)
        new = (1.0 - z) * old + z * tf.tanh(tf.cast(new, tf.float32))
        h = tf.where(here, new, h)
        return tf.cast(h, x.dtype), h

    return loop(step, [sums, fresh, present], tf.zeros([shape(sums)[1], width]), width, sums.dtype)[0]


@made_from(QrnnConfig)
class Qrnn(RecurrentLayer):
    """A quasi-recurrent layer over x [T, B, I]; ahead of the first token stand zeros:

        [z f o] = W [x_{t-1}; x_t] + b          c_t = s(f) c_{t-1} + (1 - s(f)) tanh(z)          h_t = s(o) c_t

    No product waits for the step before: there is one over the whole row, and the loop multiplies element by element.
    """

    def call(self, x: tf.Tensor, drop: Drop = NO_DROP) -> tf.Tensor:
        """h [T, B, C]. ``drop`` falls on the entries of W."""
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
        """``lengths`` int32 [B] say where the padding at the right end begins. Where rows may hold several texts, no
        state goes from one into another: the first token of each is marked in ``begins`` bool [T, B]."""
        fresh = last = None
        if begins is not None:
            ends = tf.roll(begins, -1, axis=0)  # going back, a text begins behind the first token of the next one
            fresh, last = begins[:, :, None], turned(ends, lengths)[:, :, None]
        ahead, _ = self.forward_lstm(x, fresh=fresh)
        back, _ = self.backward_lstm(turned(x, lengths), fresh=last)
        return tf.concat([ahead, turned(back, lengths)], axis=2)


def turned(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """x [T, B, ...], each row reversed up to its own length, so that padding never reaches a real token."""
    return tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1)


@made_from(RecurrentStackConfig)
class RecurrentStack(Layer):
    """Layers one after the other. Extensions at "between" get what each layer gives, [T, B, C], and ``index``, the
    number of the layer from 0.

    Dropout falls on what goes up, never on what goes on in time (Zaremba et al., 2014, section 3.2).
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
        """The L + 1 tensors [T, B, C]: ``x``, then each layer; and the layers' last states where they tell them.
        ``masks`` are what the layers take besides their input."""
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
    """The same with the dropout of AWD-LSTM. An LSTM drops of its recurrent kernel, a QRNN of its only one."""

    def call(
        self, x: tf.Tensor, hidden: Drop = NO_DROP, weights: Drop = NO_DROP, **masks: Any
    ) -> tuple[list[tf.Tensor], list[Any]]:
        """As `RecurrentStack`. ``hidden`` falls between the layers, ``weights`` on the entries of kernels."""
        layers, states = [x], []
        for index, layer in enumerate(self.members):
            read = locked(layers[-1], hidden.at(index), axis=0) if index else layers[-1]
            found = layer(read, drop=weights.at(index), **masks)
            new, state = found if isinstance(found, tuple) else (found, None)
            layers.append(self.through("between", new, index=index))
            states.append(state)
        return layers, states


def locked(x: tf.Tensor, drop: Drop, axis: int) -> tf.Tensor:
    """Dropout with one mask for all steps, which are the ``axis`` of ``x`` ("variational": Gal and Ghahramani,
    2016)."""
    if drop.seed is None:
        return x
    dims = shape(x)
    dims[axis] = 1
    return x * dropout(tf.ones(dims, x.dtype), drop.rate, drop.seed, drop.place)
