"""Makes batches in advance, so that a step does not wait for its input."""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any


def prefetch(make: Callable[[int], Any], first: int, ahead: int = 4) -> Iterator[Any]:
    """Yields ``make(first)``, ``make(first + 1)``, ... A thread makes up to ``ahead`` items in advance. Its exceptions
    are raised here."""
    made: queue.Queue = queue.Queue(maxsize=ahead)
    stop = threading.Event()

    def work() -> None:
        step = first
        while not stop.is_set():
            try:
                item = (make(step), None)
            except BaseException as error:  # raised again in the reader's thread
                item = (None, error)
            while not stop.is_set():
                try:
                    made.put(item, timeout=0.2)
                    break
                except queue.Full:
                    continue
            if item[1] is not None:
                return
            step += 1

    threading.Thread(target=work, daemon=True).start()
    try:
        while True:
            item, error = made.get()
            if error is not None:
                raise error
            yield item
    finally:
        stop.set()
