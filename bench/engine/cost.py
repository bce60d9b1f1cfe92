"""The cost of a piece of work: seconds by phase, peak memory, energy, and FLOPs by the models' formulas.

    with Meter() as meter:
        with phase("load"):
            ...
    meter.cost()    # {"seconds": {"load": ..., "other": ..., "total": ...}, "peak_memory_bytes": ..., "energy": ...}

Phases can be nested. The time of an inner phase is not counted in the outer one: a step that is traced during an
evaluation adds to "trace". So the phases of a meter always add up to its total. `phase` finds the innermost meter of
its thread, so functions do not have to pass a meter on.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import repeat
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from ptmbench.bench import environment
from ptmbench.bench.engine import energy
from ptmbench.models.channels import WIDTHS, media
from ptmbench.models.costs import Model

OTHER = "other"
"""The phase of the time outside all other phases."""

_innermost: ContextVar["Meter | None"] = ContextVar("meter", default=None)


class Meter:
    """Measures its ``with`` block. ``seconds`` is the wall time by phase. Each second counts in exactly one phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.earlier: Mapping[str, float] = {}
        """Seconds by phase that earlier processes spent on this work, up to the state from which it resumed."""
        self.peak_memory_bytes = 0
        self._phases = [OTHER]

    def __enter__(self) -> "Meter":
        environment.reset_peak_memory()
        self._energy = energy.Counter()
        self._token = _innermost.set(self)
        self._since = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turn()
        _innermost.reset(self._token)
        self.peak_memory_bytes = environment.peak_memory_bytes()
        self._joules = self._energy.stop()

    def spent(self) -> dict[str, float]:
        """Seconds by phase up to the last change of phase. Earlier processes are included."""
        both = {**self.earlier, **self.seconds}
        return {name: self.earlier.get(name, 0.0) + self.seconds.get(name, 0.0) for name in both}

    def cost(self) -> dict[str, Any]:
        """The measured part of a record's ``cost``, after the block has ended.

        - ``seconds``: {phase: s, "total": s}, of all processes
        - ``peak_memory_bytes``: of this process
        - ``energy``: as `energy.Counter.stop` returns it; None joules if the work was resumed
        """
        seconds = self.spent()
        energy = {"joules": None, "reason": "It was interrupted, and went on in another process."}
        return {
            "seconds": {name: round(value, 3) for name, value in {**seconds, "total": sum(seconds.values())}.items()},
            "peak_memory_bytes": self.peak_memory_bytes,
            "energy": energy if self.earlier and self._joules["joules"] is not None else self._joules,
        }

    def _turn(self) -> None:
        """Adds the time since the last call to the current phase."""
        now = time.perf_counter()
        self.seconds[self._phases[-1]] = self.seconds.get(self._phases[-1], 0.0) + now - self._since
        self._since = now

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self._turn()
        self._phases.append(name)
        try:
            yield
        finally:
            self._turn()
            self._phases.pop()


def spent() -> dict[str, float]:
    """`Meter.spent` of the innermost meter; {} without a meter."""
    meter = _innermost.get()
    return meter.spent() if meter else {}


def add_costs(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Adds two costs of `Meter.cost`: returns the sums of seconds and joules, and the higher peak memory."""
    phases = dict.fromkeys((*first["seconds"], *second["seconds"]))
    seconds = {name: round(first["seconds"].get(name, 0.0) + second["seconds"].get(name, 0.0), 3) for name in phases}
    spent = [one["energy"] for one in (first, second)]
    unknown = [one for one in spent if one["joules"] is None]
    return {
        "seconds": {name: value for name, value in seconds.items() if name != "total"} | {"total": seconds["total"]},
        "peak_memory_bytes": max(first["peak_memory_bytes"], second["peak_memory_bytes"]),
        "energy": unknown[0] if unknown else {**spent[1], "joules": spent[0]["joules"] + spent[1]["joules"]},
    }


def set_earlier_seconds(seconds: Mapping[str, float]) -> None:
    """Sets `Meter.earlier` of the innermost meter to the ``seconds`` by phase of earlier processes."""
    meter = _innermost.get()
    if meter:
        meter.earlier = seconds


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Counts the time of the block as the phase ``name`` of the innermost meter, if there is one."""
    meter = _innermost.get()
    if meter is None:
        yield
    else:
        with meter._phase(name):
            yield


class Traced:
    """The function that ``trace()`` returns, with its overhead counted in phases.

    Tracing is the phase "trace". The first call is the phase "compile": TensorFlow then optimises the graph, compiles
    it if XLA is on, and takes one step.
    """

    def __init__(self, trace: Callable[[], Callable]):
        with phase("trace"):
            self.function = trace()
        self._called = False

    def __call__(self, *arguments: Any) -> Any:
        if self._called:
            return self.function(*arguments)
        self._called = True
        with phase("compile"):
            return self.function(*arguments)


class Decoder(NamedTuple):
    """The FLOPs of a model that generates text."""

    flops: Callable[[float, float], float]
    """Maps (tokens of the source, generated tokens) to the FLOPs of one forward pass."""
    again: bool = False
    """Whether each new token takes a whole pass over all tokens before it."""


def decoder_of(model: Model) -> Decoder | None:
    """The `Decoder` of ``model``; None if the model does not generate text."""
    return Decoder(model.decode_flops, model.reads_again) if model.writes else None


def encoder_flops(model: Model, rows: Sequence[Any], name: str = "tokens") -> float:
    """FLOPs of one forward pass of the encoder of ``model`` over the arrays ``name`` of ``rows``
    (`bench.adapt.heads.InputRow`), with pictures and sounds.

    Each row counts at its own length, because padding is overhead and not work. Heads are left out: on a pooled vector
    or one output per token, they cost thousandths of the encoder.
    """
    lengths = np.concatenate([np.atleast_1d(np.count_nonzero(row.arrays[name], axis=-1)) for row in rows])
    sizes, counts = np.unique(lengths[lengths > 0], return_counts=True)
    each = [model.encoder_flops(int(n)) for n in sizes]
    return float(np.dot(each, counts)) + media_flops(model, rows, name)


def media_flops(model: Model, rows: Sequence[Any], name: str = "tokens") -> float:
    """FLOPs that the pictures and sounds of ``rows`` add to `encoder_flops`. Regions whose features and box are all
    zeros are padding."""
    found, suffix = Counter[tuple[int, str, int]](), name.removeprefix("tokens")
    for arrays in (row.arrays for row in rows):
        for width in (one for one in WIDTHS if one + suffix in arrays):
            present = np.any([arrays[one + suffix].any(axis=-1) for one in media(width)], axis=0)  # [R] or [C, R]
            lengths, counts = (np.count_nonzero(one, axis=-1) for one in (arrays[name], present))
            found.update(zip(np.ravel(lengths).tolist(), repeat(width), np.ravel(counts).tolist(), strict=False))
    return float(sum(times * model.media_flops(n, {width: count}) for (n, width, count), times in found.items() if n))


def embedding_flops(model: Model, rows: Sequence[Any], name: str = "tokens") -> float:
    """As `encoder_flops`, for the embeddings only."""
    return float(model.embedding_flops(sum(np.count_nonzero(row.arrays[name]) for row in rows)))


def decoder_flops(decoder: Decoder, rows: Sequence[Any]) -> float:
    """FLOPs of one forward pass of ``decoder`` over ``rows`` and their whole targets, with the output layer."""
    lengths = [int(np.count_nonzero(row.arrays["targets"])) for row in rows]
    return sum(decoder.flops(row.tokens, n) for row, n in zip(rows, lengths, strict=True))


def writing_flops(decoder: Decoder, rows: Sequence[Any], written: Sequence[np.ndarray], hypotheses: int = 1) -> float:
    """FLOPs of generating ``written`` with ``hypotheses`` parallel hypotheses, each as long as the chosen one.

    The source is encoded once. Then token n of a hypothesis costs 1 / n of the decoder's FLOPs in a forward pass over n
    targets. A decoder that reads ``again`` takes a whole pass for each token.
    """
    return sum(
        _writing(decoder, row.tokens, int(np.count_nonzero(ids)), hypotheses)
        for row, ids in zip(rows, written, strict=True)
    )


def _writing(decoder: Decoder, source: int, length: int, hypotheses: int) -> float:
    passes = [decoder.flops(source, n) for n in range(1, length + 1)]
    if decoder.again:
        return hypotheses * sum(passes)
    start = decoder.flops(source, 0)
    return start + hypotheses * sum((whole - start) / n for n, whole in enumerate(passes, start=1))
