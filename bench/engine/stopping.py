"""What may stop a training, and what it may cost.

Ctrl-C and SIGTERM wait for the end of a step, so that what is saved is whole; a power cut loses what is not.
"""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SAVE_SECONDS = 120.0
"""How long a training goes on between two saves, unless it is told otherwise."""


class Stop:
    """Context manager: holds the first SIGINT or SIGTERM back; the second one goes through at once.

    Where a training runs outside the main thread, signals are not its own, and none is held back.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hold) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._release()
        if error is None and self.signal is not None:
            signal.raise_signal(self.signal)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._release()

    def _release(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
