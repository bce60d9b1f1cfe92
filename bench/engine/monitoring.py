"""Logs of a pre-training for TensorBoard: scalars, and traces of the profiler.

`bench.runs.pretrain` writes them. The scalars are those of the course's curve, which is part of each training state. A
training that resumes writes the log again from its state. So no point is lost or doubled, whenever the process was
killed.

    DIR/NAME/steps       scalars by optimizer step; plugins/profile/ has the traces
    DIR/NAME/tokens      the same by tokens
    DIR/NAME/megaflops   the same by millions of training FLOPs; FLOPs themselves may be too many for 64 bits
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ptmbench.bench.errors import EnvironmentProblem, UsageError

if TYPE_CHECKING:
    from ptmbench.bench.engine.course import Course

SUFFIX = ".ptmbench"
"""Suffix of the event files. `Log.begin` removes older files with this suffix."""
STEPS = "steps"
_MEGA = 1e6
_SCALAR = 1
"""``DATA_CLASS_SCALAR`` of TensorFlow's summary.proto."""


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Options of the TensorBoard logs of pre-trainings."""

    tensorboard: Path | None = None
    """Folder of the logs of all pre-trainings; None for no logs."""
    trace: int | None = None
    """Number of steps that the profiler traces, after the first one of a process; None for no trace."""

    def __post_init__(self) -> None:
        if self.tensorboard is not None:
            object.__setattr__(self, "tensorboard", Path(self.tensorboard))
        if self.trace is not None and (type(self.trace) is not int or self.trace < 1):
            raise UsageError(f"trace is a whole number of steps from 1, not {self.trace!r}.")
        if self.trace and self.tensorboard is None:
            raise UsageError("--trace needs a folder to write to. Give one with --tensorboard.")

    def given(self) -> dict[str, Any]:
        """The options that are set, as JSON values, with an absolute path."""
        values = {"tensorboard": self.tensorboard and str(self.tensorboard.resolve()), "trace": self.trace}
        return {name: value for name, value in values.items() if value is not None}


class Log:
    """The log of one pre-training, called ``name``. It is a context manager in which the training runs.

    ``tokens`` and ``flops`` are those of one step. ``rate`` returns the learning rate of a step, counted from 0.
    Without a folder in ``options``, nothing is written.
    """

    def __init__(
        self, options: LogOptions, name: str, *, tokens: int, flops: float, rate: Callable[[int], float]
    ) -> None:
        self.folder = options.tensorboard and options.tensorboard / name
        self.trace = options.trace or 0
        self._scales = {STEPS: 1.0, "tokens": float(tokens), "megaflops": flops / _MEGA}
        self._rate, self._writers, self._tracing = rate, {}, False

    def begin(self, course: "Course") -> None:
        """Replaces an older log by the points of ``course`` so far."""
        if self.folder is None:
            return
        import tensorflow as tf

        for unit in self._scales:
            place = self.folder / unit
            try:
                place.mkdir(parents=True, exist_ok=True)
                for old in place.glob(f"events.out.tfevents.*{SUFFIX}"):
                    old.unlink()
            except OSError as error:
                raise EnvironmentProblem(
                    f"The log folder {place} cannot be written: {error.strerror}. Give another one with --tensorboard."
                ) from error
            self._writers[unit] = tf.summary.create_file_writer(str(place), filename_suffix=SUFFIX)
        for point in course.curve:
            self.add(point)

    def add(self, point: Mapping[str, float]) -> None:
        """Writes the scalars of ``point``, an element of a course's curve."""
        import tensorflow as tf

        # The metadata that `tf.summary.scalar` writes. That function is part of TensorBoard's package.
        scalar = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"}, data_class=_SCALAR)
        values = {name: value for name, value in point.items() if name != "step"}
        values["learning_rate"] = self._rate(point["step"] - 1)
        for unit, writer in self._writers.items():
            with writer.as_default(step=round(point["step"] * self._scales[unit])):
                for name, value in values.items():
                    tf.summary.write(name, tf.constant(value, tf.float32), metadata=scalar)
            writer.flush()

    def after(self, steps: int, settle: Callable[[], object]) -> None:
        """Starts or ends the trace after ``steps`` steps of this process. ``settle`` waits for the last step."""
        if not self.trace or steps not in (1, 1 + self.trace):
            return
        import tensorflow as tf

        settle()
        if steps == 1:
            tf.profiler.experimental.start(str(self.folder / STEPS))
            self._tracing = True
        else:
            self._end_trace()

    def __enter__(self) -> "Log":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_trace()
        for writer in self._writers.values():
            writer.close()

    def _end_trace(self) -> None:
        if self._tracing:
            import tensorflow as tf

            self._tracing = False
            tf.profiler.experimental.stop()
