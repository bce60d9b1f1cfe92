"""The cost of a row, collected from its records. Costs come from any version of the harness, so any of them may be
missing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ptmbench.leaderboard.records.layout import is_number
from ptmbench.leaderboard.records.record import Record
from ptmbench.leaderboard.scores.grid import Row
from ptmbench.leaderboard.stats import mean_of

_MIB = 2**20
COSTS = ["parameters", "embedding parameters", "pre-training tokens", "pre-training FLOPs", "pre-training seconds"]
COSTS += ["FLOPs per cell", "seconds per cell", "seconds of all cells", "peak memory MiB", "disk MiB"]
COSTS += ["compressed MiB", "bits per weight", "zero weights", "latency seconds", "device"]


def cost_of(row: Row, records: Sequence[Record] | None = None) -> dict[str, Any]:
    """Returns the cost columns of one row, or of some of its ``records``; None for costs that no record has."""
    records = row.records if records is None else records
    costs = [record.cost for record in records]
    made = [record.pretraining for record in records if record.pretraining]
    # many cells share one pre-training: it counts once per weights, and the mean over weights is shown
    unique = list({str(one.get("weights_sha256")) + str(one.get("seed")): one for one in made}.values())
    seconds = _numbers([one["seconds"] for one in costs if isinstance(one.get("seconds"), dict)], "total")
    sizes = [_most(costs, name) for name in ("peak_memory_bytes", "disk_bytes", "disk_bytes_compressed")]
    values = (
        _most(costs, "parameters"),
        _most(costs, "parameters_embedding"),
        *(_mean(_numbers(map(spent_on, unique), name)) for name in ("tokens", "flops", "seconds")),
        _mean(_numbers(costs, "flops")),
        _mean(seconds),
        sum(seconds) or None,
        *(None if size is None else size / _MIB for size in sizes),
        *(_mean(_numbers(costs, name)) for name in ("bits_per_weight", "zero_weights")),
        _mean(_numbers(costs, "latency_seconds")),
        ", ".join(sorted({record.device for record in records if record.device})),
    )
    return dict(zip(COSTS, values, strict=True))


def spent_on(pretraining: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the part of a pre-training with its costs, including earlier pre-trainings that it needed."""
    return pretraining.get("including") or pretraining


def budget_words(made: Mapping[str, Any]) -> str:
    """Returns the requested budget of a pre-training: "1e13 FLOPs"; "" if its record does not state it."""
    for unit, amount in (made.get("budget") or {}).items():
        if not is_number(amount):
            return f"{amount} {unit}"
        short = f"{amount:,}" if isinstance(amount, int) else f"{amount:.6g}".replace("e+0", "e").replace("e+", "e")
        return f"{short} {'FLOPs' if unit == 'flops' else unit}"
    return ""


def tuning_of(pretraining: Mapping[str, Any]) -> str:
    """Returns "tuned with 10 trials" or "untuned"; "" for a published pre-training, whose tuning is not known. If
    trials were compared on tasks instead of by the loss, the tasks are named: "tuned with 10 trials on sst2"."""
    if not is_number(pretraining.get("steps")):
        return ""
    tuning = pretraining.get("tuning") or {}
    probe = tuning.get("probe")
    probed = f" on {', '.join(map(str, probe))}" if isinstance(probe, list) and probe else ""
    return f"tuned with {tuning.get('trials')} trials{probed}" if tuning else "untuned"


def adaptation_tuning_of(adaptation: Mapping[str, Any]) -> str:
    """Returns "adaptation tuned with 10 trials" or "adaptation untuned"."""
    tuning = adaptation.get("tuning") or {}
    return f"adaptation tuned with {tuning.get('trials')} trials" if tuning else "adaptation untuned"


def _numbers(parts: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    return [value for part in parts if is_number(value := part.get(name))]


def _most(parts: Iterable[Mapping[str, Any]], name: str) -> float | None:
    return max(_numbers(parts, name), default=None)


def _mean(values: Sequence[float]) -> float | None:
    return mean_of(values) if values else None
