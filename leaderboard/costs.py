"""What a row spent, gathered from its records: costs come from any version of the harness, so nothing is relied on."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from leaderboard.grid import Row

_MIB = 2**20
_LARGEST = 2**63
COSTS = ["parameters", "embedding parameters", "pre-training tokens", "pre-training FLOPs", "pre-training seconds"]
COSTS += ["FLOPs per cell", "seconds per cell", "seconds of all cells", "peak memory MiB", "disk MiB"]
COSTS += ["latency seconds", "device"]


def cost_of(row: Row) -> dict[str, Any]:
    """The cost columns of one row; None where no record says."""
    costs = [record.cost for record in row.records]
    made = [record.pretraining for record in row.records if record.pretraining]
    # one pre-training serves many cells: it is counted once per weights, and shown as the mean over them
    unique = list({str(one.get("weights_sha256")) + str(one.get("seed")): one for one in made}.values())
    seconds = [_get(one, "seconds", "total") for one in costs]
    peak = _most(_get(one, "peak_memory_bytes") for one in costs)
    disk = _most(_get(one, "disk_bytes") for one in costs)
    values = (
        _most(_get(one, "parameters") for one in costs),
        _most(_get(one, "parameters_embedding") for one in costs),
        *(_mean(_get(one, name) for one in unique) for name in ("tokens", "flops", "seconds")),
        _mean(_get(one, "flops") for one in costs),
        _mean(seconds),
        sum(value for value in seconds if value is not None) or None,
        None if peak is None else peak / _MIB,
        None if disk is None else disk / _MIB,
        _mean(_get(one, "latency_seconds") for one in costs),
        ", ".join(sorted({record.device for record in row.records if record.device})),
    )
    return dict(zip(COSTS, values, strict=True))


def is_number(value: Any) -> bool:
    """Whether ``value`` is a number to reckon with: finite, no truth value, and not too large for a float."""
    return (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < _LARGEST)


def _get(part: Mapping[str, Any], *path: str) -> float | None:
    """The number at ``path``, or None: costs come from any version of the harness."""
    value: Any = part
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if is_number(value) else None


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
