"""The result of a tuning, as a run reads it: a recipe for each model, and the cost of finding it.

`bench.runs.stages` takes the recipe of each pre-training from it. A run that does not fit the tuning raises
`UsageError`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs.tuning import sealed

FILE = "tuned.json"
KIND = "tuned"
TUNED = ("learning_rate", "batch", "warmup")
"""The settings of a recipe that are tuned."""


@dataclass(frozen=True)
class Tuned:
    """The file at ``path``, and its content."""

    path: Path
    body: Mapping[str, Any]

    @classmethod
    def read(cls, given: Path) -> "Tuned":
        """Reads the result in the folder or file ``given``. Raises `RecordError` if it is missing or damaged."""
        return cls(*sealed.result(given, FILE, KIND))

    def check(self, corpus_sha256: str, tokenizer: str, recipe: Mapping[str, Any]) -> None:
        """Raises `UsageError` if a run has another corpus, another tokenizer (its key) or another ``recipe``."""
        body = self.body
        if body["corpus_sha256"] != corpus_sha256:
            raise UsageError(
                f"{self.path} was tuned on another corpus, {body['corpus']}. Give that with --corpus, or tune on this "
                "one."
            )
        if body["tokenizer"]["key"] != tokenizer:
            raise UsageError(
                f"{self.path} was tuned with another tokenizer: --tokenizer {body['tokenizer']['kind']} --vocabulary "
                f"{body['tokenizer']['vocabulary']}. Give these options, or tune with the tokenizer of this run."
            )
        if body["recipe"] != dict(recipe):
            wrong = [name for name in {*body["recipe"], *recipe} if body["recipe"].get(name) != recipe.get(name)]
            name = sorted(wrong)[0]
            there = {True: "its default", False: body["recipe"].get(name)}[name not in body["recipe"]]
            here = {True: "its default", False: recipe.get(name)}[name not in recipe]
            raise UsageError(
                f"{self.path} was tuned with {name} at {there}, and this run has {here}. Give both the same --recipe."
            )

    def of(self, model: str, size: str, budget: Budget, base: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the changes to the recipe of ``model`` at ``size``, and the tuning's entry for records.

        ``budget`` and ``base``, the key of the weights it begins with, are those of the run. Raises `UsageError` if the
        model was not tuned, or was tuned for another budget or base.
        """
        body = self.body
        one = next((one for one in body["models"] if (one["model"], one["size"]) == (model, size)), None)
        if one is None:
            reason = next((one["reason"] for one in body["untuned"] if one["model"] == model), "")
            raise UsageError(
                f"{self.path} has no recipe for {model} {size}{': ' + reason.rstrip('.') if reason else ''}. Leave it "
                f"out with --models, or give `ptmbench tune {body['suite']}` this model and size too."
            )
        most, least = Budget(**one["budget"]), Budget(**one["rungs"][-1]["budget"])
        if budget.unit != most.unit or not least.amount <= budget.amount <= most.amount:
            raise UsageError(
                f"{self.path} was tuned for {model} {size} with {most.flag()}, by trials of up to {least.flag()}; "
                f"this run has {budget.flag()}. Give a budget between these two, or tune for this one."
            )
        if one["base"] != base:
            raise UsageError(
                f"{self.path} was tuned for {model} {size} from other weights than this run begins with. Give both the "
                "same --base."
            )
        probe = {"probe": body["probe"]} if body.get("probe") else {}
        return dict(one["changes"]), {"trials": one["trials"], "flops": one["flops"], **probe}
