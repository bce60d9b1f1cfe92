"""A training step on JAX's runtime, in the place of `bench.engine.step.TrainStep`."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ptmbench.bench.engine.cost import phase
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.errors import EnvironmentProblem


class PjrtStep:
    """``step(batch, seed, rate)``, computed by PJRT on the first device that JAX sees.

    The first call lowers and compiles ``step``. From then on, weights and optimizer are on that device, and the
    variables of TensorFlow are out of date until `settle`. Training states have the form of those of ``step``, so a
    training can change its runtime when it resumes. Scores differ in the last digits, because each runtime adds numbers
    in its own order.
    """

    def __init__(self, step: TrainStep, weights: Sequence[Any]):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # workers share a GPU's memory
        try:
            import jax  # noqa: F401
        except ImportError as error:
            raise EnvironmentProblem(
                "--runtime pjrt needs JAX. Install it with `pip install 'ptmbench[jax]'`, or leave the option out."
            ) from error
        self._step, self._weights, self._program = step, list(weights), None

    def __call__(self, batch: Mapping[str, np.ndarray], seed: tuple[int, int], rate: float) -> dict[str, Any]:
        if self._program is None:
            self._begin(batch)
        return self._program(batch, seed, rate)

    @property
    def device(self) -> str:
        """The description of the device for a manifest, after the first step."""
        from ptmbench.bench.engine.portable.driver import device_of

        return device_of(self._program.device)

    def settle(self) -> None:
        """Copies the state on the device to the variables of TensorFlow."""
        if self._program is None:
            return
        arrays = self._program.state()
        for variable in self._weights:
            variable.assign(arrays[f"weights/{variable.path}"])
        self._step.restore({name.partition("/")[2]: array for name, array in arrays.items() if name[:3] == "opt"})

    def state(self) -> dict[str, np.ndarray]:
        """As `TrainStep.state`, after the last step."""
        self.settle()
        return self._step.state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """As `TrainStep.restore`."""
        self._step.restore(state)
        self._program = None

    def _begin(self, batch: Mapping[str, np.ndarray]) -> None:
        from ptmbench.bench.engine.portable.driver import Program
        from ptmbench.bench.engine.portable.program import lowered

        with phase("trace"):
            found = lowered(self._step, self._weights, batch)
        with phase("compile"):
            self._program = Program(found.text, found.about)
        self._program.begin(found.state)
