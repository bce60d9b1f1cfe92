"""Lowers a training step to StableHLO, with names for its arguments and results."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.engine.portable.driver import CONSTANT
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.errors import EnvironmentProblem, UsageError

_UPDATE = re.compile(r"parameter_number = (\d+) : i64}, output_index = array<i64: (\d+)>")
"""Part of the module's attribute ``input_output_alias``: the number of an argument and of its updated result."""

_BITS = re.compile(r'dense<"0x([0-9A-F]+)"> : tensor<((?:\d+x)+)i1>')
"""A constant of booleans. Depending on its version, MLIR packs them in bytes or in bits."""

_COPY = re.compile(r"mhlo\.copy (%\w+) : (tensor<[^>]*>)")
"""A copy. It is an operation of XLA, not of StableHLO. PJRT accepts it for processors and refuses it for GPUs."""

_OPERATION = re.compile(r'^\s*(?:[%\w:, ]+ = )?"?([a-z]+\.[a-z_]+)', re.MULTILINE)
"""The name of an operation at the beginning of its line, with its dialect."""


@dataclass(frozen=True)
class Lowered:
    """A training step outside TensorFlow."""

    text: str
    """The module, StableHLO. It computes the same on every device."""
    inputs: tuple[str, ...]
    """Names of the arguments in order: "batch/NAME", "seed", and the names of arrays in the state."""
    outputs: tuple[str, ...]
    """Names of the results in order: "scalar/NAME", and the names of arrays in the state."""
    rate: str
    """Name of the learning rate in the state."""
    state: dict[str, np.ndarray]
    """The current state: "weights/PATH", "optimizer/NUMBER" as in `TrainStep.state`, and "constant/NUMBER" for what the
    step reads but does not change, such as the weights of a teacher."""

    @property
    def about(self) -> dict[str, Any]:
        """The names that `bench.engine.portable.driver.Program` needs."""
        return {"inputs": self.inputs, "outputs": self.outputs, "rate": self.rate}


def lowered(step: TrainStep, weights: Sequence[Any], batch: Mapping[str, np.ndarray]) -> Lowered:
    """Lowers ``step`` for batches with the shapes of ``batch``. ``weights`` are the variables of the network.

    Raises `UsageError` for a step with several replicas, several parts, or sparse gradients. Raises
    `EnvironmentProblem` for a step with operations outside StableHLO.
    """
    if step.strategy is not None or step.accumulate > 1 or step.sparse:
        raise UsageError(
            "The portable step needs one device, no gradient accumulation and dense gradients. Use "
            "--strategy one, accumulate=1, and the optimizer adamw or lamb."
        )
    example = ({name: tf.constant(array) for name, array in batch.items()}, tf.constant((0, 0), tf.int32))
    function = tf.function(step._whole, jit_compile=True, autograph=False)
    concrete = function.get_concrete_function(*tf.nest.map_structure(tf.TensorSpec.from_tensor, example))
    text = function.experimental_get_compiler_ir(*example)(stage="stablehlo")
    text = _BITS.sub(_spelled, _COPY.sub(r"stablehlo.reshape \1 : (\2) -> \2", text))
    if names := foreign(text):
        raise EnvironmentProblem(
            f"The training step has operations outside StableHLO, which some devices refuse: {', '.join(names)}. "
            "Train it with --runtime tensorflow, without --carry."
        )
    names, state = _captured(concrete.captured_inputs, step, weights)
    inputs = (*(f"batch/{name}" for name in sorted(batch)), "seed", *names)
    updates = {int(output): inputs[int(argument)] for argument, output in _UPDATE.findall(text)}
    scalars = [f"scalar/{name}" for name in sorted(concrete.structured_outputs)]
    count = len(updates) + len(scalars)
    arguments = len(re.findall(r"%arg\d+: ", re.search(r"@main\(.*", text)[0]))
    if sorted({*range(count)} - {*updates}) != [*range(len(scalars))] or arguments != len(inputs):
        raise RuntimeError(f"The lowered step has other arguments and results than {', '.join(inputs + (*scalars,))}.")
    if constant := next((name for name in updates.values() if name.startswith(CONSTANT)), None):
        raise RuntimeError(f"The step changes {constant}, which is neither a weight nor the optimizer's.")
    outputs = (*scalars, *(updates[index] for index in range(len(scalars), count)))
    return Lowered(text, inputs, outputs, names[_rate(concrete.captured_inputs, step)], state)


def foreign(text: str) -> list[str]:
    """The operations of the module ``text`` that do not belong to StableHLO, such as "mhlo.copy"."""
    _, _, body = text.partition("\n")  # the first line is the module with its attributes
    return sorted(name for name in set(_OPERATION.findall(body)) if not name.startswith(("stablehlo.", "func.")))


def _spelled(constant: re.Match) -> str:
    """A constant of booleans in words, which every version of MLIR reads."""
    content, shape = bytes.fromhex(constant[1]), [int(size) for size in constant[2].split("x")[:-1]]
    count, raw = math.prod(shape), np.frombuffer(content, np.uint8)
    bits = raw if len(raw) == count else np.unpackbits(raw, count=count, bitorder="little")
    return f"dense<{json.dumps(bits.astype(bool).reshape(shape).tolist())}> : tensor<{constant[2]}i1>"


def _rate(captured: Sequence[tf.Tensor], step: TrainStep) -> int:
    """The index of the learning rate among the ``captured`` tensors."""
    handle = step.optimizer._learning_rate.value.handle
    return next(index for index, tensor in enumerate(captured) if tensor is handle)


def _captured(
    captured: Sequence[tf.Tensor], step: TrainStep, weights: Sequence[Any]
) -> tuple[list[str], dict[str, np.ndarray]]:
    """Names of the ``captured`` tensors in order, and the state: these arrays and all others of the training."""
    own = {f"optimizer/{number:05d}": variable for number, variable in enumerate(step.optimizer.variables)}
    own |= {f"weights/{variable.path}": variable for variable in weights}
    by_handle = {id(variable.value.handle): name for name, variable in own.items()}
    state = {name: variable.numpy() for name, variable in own.items()}
    names = []
    for number, tensor in enumerate(captured):
        name = by_handle.get(id(tensor))
        if name is None:
            name = f"{CONSTANT}{number:05d}"
            state[name] = _value(tensor)
        names.append(name)
    return names, state


def _value(tensor: tf.Tensor) -> np.ndarray:
    """The value of a captured tensor or of the variable that it is the handle of."""
    if tensor.dtype != tf.resource:
        return tensor.numpy()
    dtype = tensor._handle_data.shape_and_type[0].dtype
    return tf.raw_ops.ReadVariableOp(resource=tensor, dtype=dtype).numpy()
