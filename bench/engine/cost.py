"""What a piece of work cost: seconds by phase, peak memory, energy, and FLOPs by the models' formulas. No TensorFlow.

    with Meter() as meter:
        with phase("load"):
            ...
    meter.cost()    # {"seconds": {"load": ..., "other": ..., "total": ...}, "peak_memory_bytes": ..., "energy": ...}

Phases nest, and the time of an inner one is not counted in the outer one: a step that is traced in the middle of an
evaluation adds to "trace". So the phases of a meter always add up to its total. `phase` finds the meter by itself
(the innermost one of its thread), as spans find their trace: what is deep down need not be handed one.
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
"""The phase of what belongs to no phase."""

_innermost: ContextVar["Meter | None"] = ContextVar("meter", default=None)


class Meter:
    """Measures its ``with`` block. ``seconds`` are wall-clock, by phase, each second in exactly one of them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.earlier: Mapping[str, float] = {}
        """Seconds by phase that earlier processes spent on this piece of work, and which led to where it goes on."""
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
        """Seconds by phase, until the one under way began; earlier processes are included."""
        both = {**self.earlier, **self.seconds}
        return {name: self.earlier.get(name, 0.0) + self.seconds.get(name, 0.0) for name in both}

    def cost(self) -> dict[str, Any]:
        """The measured part of a record's ``cost``, after the block has ended.

        ``seconds`` {phase: s, "total": s}, of all processes; ``peak_memory_bytes`` of this one; ``energy`` as
        `energy.Counter.stop` gives it, which knows this process only.
        """
        seconds = self.spent()
        energy = {"joules": None, "reason": "It was interrupted, and went on in another process."}
        return {
            "seconds": {name: round(value, 3) for name, value in {**seconds, "total": sum(seconds.values())}.items()},
            "peak_memory_bytes": self.peak_memory_bytes,
            "energy": energy if self.earlier and self._joules["joules"] is not None else self._joules,
        }

    def _turn(self) -> None:
        """Give the time since the last turn to the phase under way."""
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
    """`Meter.spent` of the meter around; empty without one."""
    meter = _innermost.get()
    return meter.spent() if meter else {}


def together(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """What two pieces of work cost, as `Meter.cost` gives it: seconds and joules of both, and the higher peak of
    memory."""
    phases = dict.fromkeys((*first["seconds"], *second["seconds"]))
    seconds = {name: round(first["seconds"].get(name, 0.0) + second["seconds"].get(name, 0.0), 3) for name in phases}
    spent = [one["energy"] for one in (first, second)]
    unknown = [one for one in spent if one["joules"] is None]
    return {
        "seconds": {name: value for name, value in seconds.items() if name != "total"} | {"total": seconds["total"]},
        "peak_memory_bytes": max(first["peak_memory_bytes"], second["peak_memory_bytes"]),
        "energy": unknown[0] if unknown else {**spent[1], "joules": spent[0]["joules"] + spent[1]["joules"]},
    }


def earlier(seconds: Mapping[str, float]) -> None:
    """Tell the meter around what earlier processes spent, by phase, on what it measures."""
    meter = _innermost.get()
    if meter:
        meter.earlier = seconds


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Count the block's time under ``name`` in the meter around it; without a meter, just the block."""
    meter = _innermost.get()
    if meter is None:
        yield
    else:
        with meter._phase(name):
            yield


class Traced:
    """What ``trace()`` returns, to be called like it.

    Tracing counts as "trace", and the first call as "compile": TensorFlow optimises the graph then, compiles it where
    XLA is on, and takes one step.
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
    """What writes, and what that costs."""

    flops: Callable[[float, float], float]
    """Of one forward pass: tokens of the source, tokens that are written."""
    again: bool = False
    """Whether each token takes a pass of its own over those before it."""


def decoder_of(model: Model) -> Decoder | None:
    """The decoder of ``model`` itself; None where it does not write."""
    return Decoder(model.decode_flops, model.reads_again) if model.writes else None


def encoder_flops(model: Model, rows: Sequence[Any], name: str = "tokens") -> float:
    """FLOPs of one forward pass of the encoder of ``model`` over ``rows`` (`bench.adapt.heads.InputRow`), whose array
    ``name`` it reads.

    Counted over the rows' own tokens, as if each were computed at its own length: padding is overhead, no work. Heads
    are left out; on a pooled vector or one output per token they cost thousandths of the encoder.
    """
    lengths = np.concatenate([np.atleast_1d(np.count_nonzero(row.arrays[name], axis=-1)) for row in rows])
    sizes, counts = np.unique(lengths[lengths > 0], return_counts=True)
    each = [model.encoder_flops(int(n)) for n in sizes]
    return float(np.dot(each, counts)) + media_flops(model, rows, name)


def media_flops(model: Model, rows: Sequence[Any], name: str = "tokens") -> float:
    """FLOPs that the pictures and sounds of ``rows`` add to `encoder_flops`. Regions that are zeros, box and all, are
    padding."""
    found, suffix = Counter[tuple[int, str, int]](), name.removeprefix("tokens")
    for arrays in (row.arrays for row in rows):
        for width in (one for one in WIDTHS if one + suffix in arrays):
            present = np.any([arrays[one + suffix].any(axis=-1) for one in media(width)], axis=0)  # [R] or [C, R]
            lengths, counts = (np.count_nonzero(one, axis=-1) for one in (arrays[name], present))
            found.update(zip(np.ravel(lengths).tolist(), repeat(width), np.ravel(counts).tolist(), strict=False))
    return float(sum(times * model.media_flops(n, {width: count}) for (n, width, count), times in found.items() if n))


def embedding_flops(model: Model, rows: Sequence[Any], name: str = "tokens") -> float:
    """As `encoder_flops`, of the embeddings alone."""
    return float(model.embedding_flops(sum(np.count_nonzero(row.arrays[name]) for row in rows)))


def decoder_flops(decoder: Decoder, rows: Sequence[Any]) -> float:
    """FLOPs of one forward pass of ``decoder`` over ``rows`` with their whole targets, the vocabulary included."""
    lengths = [int(np.count_nonzero(row.arrays["targets"])) for row in rows]
    return sum(decoder.flops(row.tokens, n) for row, n in zip(rows, lengths, strict=True))


def writing_flops(decoder: Decoder, rows: Sequence[Any], written: Sequence[np.ndarray], hypotheses: int = 1) -> float:
    """FLOPs of writing ``written`` with so many ``hypotheses`` side by side, each as long as the one that was chosen.

    The source is read once, then a token of each hypothesis at a time: that is one token's share of a forward pass over
    as many targets. A decoder that reads ``again`` takes a whole pass for each token.
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
