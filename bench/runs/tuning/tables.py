"""A tuning as tables: what it will cost, what it found, and all trials as a pandas DataFrame. No TensorFlow."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptmbench.bench.console import duration
from ptmbench.bench.runs import estimate as estimates
from ptmbench.bench.runs.tuning import tuned
from ptmbench.bench.runs.tuning.halving import Rung
from ptmbench.bench.runs.tuning.tuned import Tuned

if TYPE_CHECKING:
    import pandas as pd

    from ptmbench.bench.runs.tuning.tune import Search

COLUMNS = ("model", "size", "rung", "trial", *tuned.TUNED, "budget", "status", "loss", "flops", "winner")


def estimate(searches: Sequence["Search"], ladder: Sequence[Rung]) -> str:
    """The rungs of each model as tab-separated lines, each with its cost estimate, and a total as the last line."""
    rate = estimates.flops_per_second() * estimates.EFFICIENCY
    lines, total, time = ["model\tsize\trung\ttrials\tbudget of each\tFLOPs\ttime"], 0.0, 0.0
    for search in searches:
        for number, rung in enumerate(ladder, 1):
            one = search.trial(0, rung.share).pretraining
            tokens, flops, seconds = estimates.pretraining_cost(one, rate)
            measuring = search.held_out * flops / tokens / 3  # a forward pass over the held-out tokens
            flops, seconds = rung.trials * (flops + measuring), rung.trials * (seconds + measuring / rate)
            total, time = total + flops, time + seconds
            lines.append(
                f"{one.model}\t{one.size}\t{number}\t{rung.trials}\t{one.budget.flag()}\t{flops:.2g}\t"
                f"{duration(seconds)}"
            )
    return "\n".join([*lines, f"total\t\t\t\t\t{total:.3g}\tabout {duration(time)} of one core"])


def result(body: Mapping[str, Any]) -> str:
    """What was found, as tab-separated lines, and the cost of all of it as the last line."""
    lines = ["model\tsize\ttrials\tlearning rate\tbatch\twarm-up\tloss with own recipe\tloss tuned\tFLOPs"]
    for one in body["models"]:
        chosen = one["own"] | one["changes"]
        changed = [
            f"{own:g} -> {chosen[name]:g}" if chosen[name] != own else f"{own:g}" for name, own in one["own"].items()
        ]
        losses = ["diverged" if loss is None else f"{loss:.4f}" for loss in one["loss"].values()]
        lines.append(
            "\t".join([one["model"], one["size"], str(one["trials"]), *changed, *losses, f"{one['flops']:.3g}"])
        )
    return "\n".join([*lines, f"total\t\t\t\t\t\t\t\t{body['flops']:.3g}"])


def frame(out: Path | None) -> "pd.DataFrame":
    """A line for each trial of each rung of the tuning in ``out``; none for None."""
    import pandas as pd

    lines = []
    for one in Tuned.read(out).body["models"] if out else ():
        for number, rung in enumerate(one["rungs"], 1):
            for trial in rung["trials"]:
                (budget,) = rung["budget"].values()
                recipe = one["own"] | one["tried"][trial["number"]]
                known = {"model": one["model"], "size": one["size"], "rung": number, "trial": trial["number"]}
                known |= recipe | {"budget": budget, "winner": trial["number"] == one["winner"]}
                lines.append(known | {name: trial[name] for name in ("status", "loss", "flops")})
    return pd.DataFrame(lines, columns=list(COLUMNS))
