"""The result of a tuning as tables, and all trials as a pandas DataFrame."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptmbench.bench.runs.tuning import tuned
from ptmbench.bench.runs.tuning.tuned import Tuned
from ptmbench.bench.runs.tuning.tuned_settings import TunedSettings

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("model", "size", "rung", "trial", *tuned.TUNED, "budget", "status", "loss", "score", "flops", "winner")
ADAPTED = ("row", "size", "task", "adaptation", "rung", "trial", "learning_rate", "batch", "epochs", "max_steps")
ADAPTED += ("seeds", "status", "score", "flops", "winner")


def result(body: Mapping[str, Any]) -> str:
    """Returns the tuned recipes as tab-separated lines, and the total cost as the last line. With probes, the mean
    score takes the place of the loss."""
    what = "score" if body["probe"] else "loss"
    lines = [f"model\tsize\ttrials\tlearning rate\tbatch\twarm-up\t{what} with own recipe\t{what} tuned\tFLOPs"]
    for one in body["models"]:
        both = ["diverged" if loss is None else _criterion(loss, body["probe"]) for loss in one["loss"].values()]
        about = [one["model"], one["size"], str(one["trials"]), *_changed(one), *both, f"{one['flops']:.3g}"]
        lines.append("\t".join(about))
    return "\n".join([*lines, f"total\t\t\t\t\t\t\t\t{body['flops']:.3g}"])


def adaptation_result(body: Mapping[str, Any]) -> str:
    """As `result`, for adaptations, with scores on held-out training examples."""
    lines = [
        "model\tsize\ttask\tadaptation\ttrials\tlearning rate\tbatch\tepochs or steps\tscore with own settings\t"
        "score tuned\tFLOPs"
    ]
    for one in body["adaptations"]:
        scores = ["diverged" if loss is None else f"{_score(one, loss):.2f}" for loss in one["loss"].values()]
        about = [one[name] or "" for name in ("row", "size", "task", "adaptation")]
        about += [str(one["trials"]), *_changed(one), *scores, f"{one['flops']:.3g}"]
        lines.append("\t".join(about))
    return "\n".join([*lines, f"total\t\t\t\t\t\t\t\t\t\t{body['flops']:.3g}"])


def frame(out: Path | None) -> "pd.DataFrame":
    """Returns a line for each trial of each rung of the tuning of pre-trainings in ``out``; None gives no lines. Trials
    are compared by the column "loss", or with probes by "score"."""
    lines, body = [], Tuned.read(out).body if out else {"models": ()}
    for one in body["models"]:
        for line, budget in _lines(one):
            loss, score = line["loss"], None
            if body.get("probe") and loss is not None:
                loss, score = None, -loss
            known = {"model": one["model"], "size": one["size"], "budget": next(iter(budget.values()))}
            lines.append(line | known | {"loss": loss, "score": score})
    return _table(lines, COLUMNS)


def adaptation_frame(out: Path | None) -> "pd.DataFrame":
    """As `frame`, for the tuning of adaptations in ``out``. Scores are means over the seeds."""
    lines = []
    for one in TunedSettings.read(out).body["adaptations"] if out else ():
        for line, budget in _lines(one):
            score = None if line["loss"] is None else _score(one, line["loss"])
            known = {name: one[name] for name in ("row", "size", "task", "adaptation")}
            lines.append(known | line | budget | {"score": score})
    return _table(lines, ADAPTED)


def _lines(one: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Mapping[str, Any]]]:
    """Yields each trial of each rung in the entry ``one`` of a result, with the budget of its rung."""
    for number, rung in enumerate(one["rungs"], 1):
        for trial in rung["trials"]:
            line = {"rung": number, "trial": trial["number"], "winner": trial["number"] == one["winner"]}
            line |= one["own"] | one["tried"][trial["number"]]
            yield line | {name: trial[name] for name in ("status", "loss", "flops")}, rung["budget"]


def _table(lines: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(lines, columns=list(columns))


def _changed(one: Mapping[str, Any]) -> list[str]:
    """Returns the tuned settings in words: "0.001 -> 0.0005", or the own value if it does not change."""
    chosen = one["own"] | one["changes"]
    return [f"{own:g} -> {chosen[name]:g}" if chosen[name] != own else f"{own:g}" for name, own in one["own"].items()]


def _criterion(loss: float, probe: Sequence[str]) -> str:
    """Formats the loss that was minimised, or the mean score of the tasks ``probe``, which was maximised."""
    return f"{0 - loss:.2f}" if probe else f"{loss:.4f}"


def _score(one: Mapping[str, Any], loss: float) -> float:
    """Returns the score of a ``loss``, whose sign `bench.runs.tuning.adaptation_trials` changes if necessary."""
    return 0.0 - loss if one["higher_is_better"] else loss
