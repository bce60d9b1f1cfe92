"""Work on pieces of text, by as many processes as there are cores. No TensorFlow.

A job takes a piece and gives small things back (what is large it writes). Results come in the order of the pieces, and
memory holds as many pieces as there are processes, and two more: with two processes 290 MB here and 300 to 360 MB in
each of them, be it 100 MB of text or 250.
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
    """Processor cores that this process may use, which a container makes fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(job: Callable[..., Any], arguments: Iterable[tuple], processes: int) -> Iterator[Any]:
    """``job(*these)`` for ``these`` in ``arguments``, in order; a lone one is not worth a process of its own."""
    arguments = iter(arguments)
    first = list(islice(arguments, 2))
    if processes == 1 or len(first) < 2:
        yield from (job(*these) for chain in (first, arguments) for these in chain)
        return
    pending: deque = deque()
    # Not by forking: threads of this process (of TensorFlow, say) would leave their locks behind.
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
                "fewer --processes need less memory."
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    """A worker uses one core, leaves Ctrl-C to its parent, and does not outlive it."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)
