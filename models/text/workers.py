"""Processes pieces of text in several processes.

A job takes a piece and returns a small result; it writes large results to disk. Results come in the order of the
pieces. Memory holds two more pieces than there are processes: with two processes 290 MB in the parent and 300 to 360 MB
in each of them, for 100 MB of text as for 250 MB.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any

from ptmbench.models.text.pieces import CorpusError


def cores() -> int:
    """Returns the number of CPU cores that this process may use. In a container it may have fewer than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_processes(job: Callable[..., Any], arguments: Iterable[tuple], processes: int) -> Iterator[Any]:
    """Yields ``job(*these)`` for ``these`` in ``arguments``, in order.

    A single job runs in this process. Raises `CorpusError` if a worker process dies.
    """
    arguments = iter(arguments)
    first = list(islice(arguments, 2))
    if processes == 1 or len(first) < 2:
        yield from (job(*these) for chain in (first, arguments) for these in chain)
        return
    pending: deque = deque()
    # Not "fork": a forked process would inherit locks that threads of this process hold, such as TensorFlow's.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_begin) as pool:
        try:
            for chain in (first, arguments):
                for these in chain:
                    pending.append(pool.submit(job, *these))
                    if len(pending) > processes + 1:
                        yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise CorpusError(
                "A tokenising process ended, perhaps because memory ran out. Run the same command again to resume; "
                'fewer --processes need less memory. A script needs `if __name__ == "__main__":` around its calls.'
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    """Initialises a worker: it uses one core, ignores Ctrl-C, and ends with its parent."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)
