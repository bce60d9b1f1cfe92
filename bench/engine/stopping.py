"""Stops a training on SIGINT or SIGTERM, and checks that a training did all of its steps.

Ctrl-C and SIGTERM take effect at the end of a step, so that the training state on disk is complete. If a step
includes a long measurement, they take effect after its next value. Then, and after a power cut, the work since the
last save is lost. Every training loop calls `check_finished` after its last step, because only a loop that did all of
its steps may report a result.
"""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SAVE_SECONDS = 120.0
"""Default time between two saves of a training, in seconds."""


class Unfinished(RuntimeError):
    """A training loop ended before its last step, although no signal asked for that."""


def check_finished(done: int, steps: int | None) -> None:
    """Raises `Unfinished` unless all of ``steps`` are ``done``, for whatever reason the loop ended."""
    if done != steps:
        planned = "an unknown number of" if steps is None else steps
        raise Unfinished(
            f"The training ended after {done} of {planned} steps, so its result is not kept. "
            "The same command resumes from the last training state."
        )


def ignored(number: int) -> bool:
    """Whether this process ignores the signal ``number``. Shells without job control start ``command &`` with SIGINT
    ignored, and nohup ignores SIGHUP. Such signals stay ignored."""
    return signal.getsignal(number) is signal.SIG_IGN


class Stop:
    """A context manager that holds back the first SIGINT or SIGTERM. A second one takes effect at once.

    Signals that the process ignores stay ignored. If the block ends without an error, the signal that was held back is
    raised again. If its handler raises no exception, KeyboardInterrupt or SystemExit is raised. A training outside the
    main thread gets no signals, so none is held back there.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in (signal.SIGINT, signal.SIGTERM) if not ignored(number)]
            self._before = {number: signal.signal(number, self._hold) for number in heard}
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._release()
        if error is None and self.signal is not None:
            signal.raise_signal(self.signal)
            raise KeyboardInterrupt if self.signal == signal.SIGINT else SystemExit(128 + self.signal)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._release()

    def _release(self) -> None:
        for number, handler in self._before.items():
            # None stands for a handler that was not installed from Python, and that Python cannot restore.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}
