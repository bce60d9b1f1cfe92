"""What may stop a training, and how much work that loses.

Ctrl-C and SIGTERM wait for the end of a step, so that the training state on disk is complete. After a power cut the
work since the last save is lost. Every training loop calls `check_finished` behind its last step: only a loop that did
all of its steps may report a result.
"""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SAVE_SECONDS = 120.0
"""How long a training goes on between two saves, unless it is told otherwise."""


class Unfinished(RuntimeError):
    """A training loop ended before its last step, although no signal asked for that."""


def check_finished(done: int, steps: int | None) -> None:
    """`Unfinished` unless all of ``steps`` are ``done``, whatever made the loop end."""
    if done != steps:
        planned = "an unknown number of" if steps is None else steps
        raise Unfinished(
            f"The training ended after {done} of {planned} steps, so its result is not kept. "
            "The same command resumes from the last training state."
        )


def ignored(number: int) -> bool:
    """Whether this process was told to ignore the signal ``number``: shells without job control start ``command &``
    with SIGINT ignored, as nohup does with SIGHUP. What is ignored stays ignored."""
    return signal.getsignal(number) is signal.SIG_IGN


class Stop:
    """Context manager: holds the first SIGINT or SIGTERM back; the second one goes through at once.

    Signals that the process ignores stay ignored. A signal that was held back goes through when the block ends, and
    the block then ends with an exception: KeyboardInterrupt or SystemExit where the handler raises none. A training
    outside the main thread gets no signals, so none is held back there.
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
            # None is a handler that was not installed from Python; Python cannot put it back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}
