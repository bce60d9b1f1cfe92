"""What a pre-training trains, on what and how: the identity of its states, and the manifest of its checkpoint."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from typing import Any

from ptmbench import models
from ptmbench.bench import environment
from ptmbench.bench.engine import distribute
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.engine.cost import Meter
from ptmbench.bench.engine.course import Course
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.engine.recipe import Recipe, resolved
from ptmbench.bench.engine.tensor_parallel import layouts
from ptmbench.bench.runs import given, lineage
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Tokenizer


class Specification:
    """What is trained, on what, and how.

    The given ``recipe`` may leave values open; in the attribute they are those of the model and the budget. Raises
    `CheckpointError` for a teacher that is missing or does not fit.
    """

    def __init__(
        self,
        model: str,
        size: str,
        *,
        recipe: Recipe,
        seed: int,
        budget: Budget,
        corpus: Corpus,
        tokenizer: Tokenizer,
        base: Checkpoint | None,
        teacher: Checkpoint | None,
    ):
        self.model, self.size, self.seed, self.budget = model, size, seed, budget
        self.corpus, self.tokenizer, self.base, self.teacher = corpus, tokenizer, base, teacher
        self.module = models.load(model)
        self.shape = sized(self.module, size, recipe.length)
        self.recipe = resolved(recipe, self.module, self.shape, budget, tokenizer.vocabulary)
        given.check_teacher(teacher, model, size, recipe.length, tokenizer)
        self.described = self.module.describe(self.shape, tokenizer.vocabulary)
        self.tokens_per_step = self.recipe.batch * self.recipe.length
        self.flops_per_step = self.described.step_flops(self.recipe.batch, self.recipe.length)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What determines the weights. A training state with another identity is refused."""
        return {
            "model": self.model,
            "size": self.size,
            "shape": asdict(self.shape),
            "recipe": asdict(self.recipe),
            "seed": self.seed,
            "budget": asdict(self.budget),
            "corpus_sha256": self.corpus.fingerprint,
            "tokenizer_sha256": self.tokenizer.fingerprint,
            **self._version,
            **({"base": self.base.weights_sha256} if self.base else {}),
            **({"teacher": self.teacher.weights_sha256} if self.teacher else {}),
        }

    def manifest(
        self, course: Course, meter: Meter, strategy: Any, about: Mapping[str, Any], further: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The manifest's entries after the ``course``, whose cost ``meter`` measured: those of ``about``, its own, and
        the ``further`` ones, which replace its own."""
        total, embedding = self.described.parameters()
        split = distribute.splits_weights(strategy)
        own = {
            "kind": "pretrained",
            **{name: self.identity[name] for name in ("model", "size", "shape", "seed", "recipe", "corpus_sha256")},
            **self._version,
            "budget": {self.budget.unit: self.budget.amount},
            "steps": course.step,
            "tokens": course.step * self.tokens_per_step,
            "flops": course.step * self.flops_per_step,
            "seconds": round(sum(course.spent.get(name, 0.0) for name in ("trace", "compile", "train", "wait")), 3),
            "spent": {name: round(value, 3) for name, value in course.spent.items()},
            "peak_memory_bytes": meter.peak_memory_bytes,
            "energy": meter.cost()["energy"],
            "threads": environment.threads(),
            "device": environment.device(),
            "replicas": strategy.num_replicas_in_sync if strategy is not None else 1,
            **({"tensor_parallel": layouts.manifest_entry(self.described, strategy.model_parallel)} if split else {}),
            "parameters": total,
            "parameters_embedding": embedding,
            "loss": course.curve[-1]["loss"] if course.curve else None,
            "curve": course.curve,
            "tokenizer": self.tokenizer.about,
        }
        result = {**about, **own, **further}
        return result | lineage.manifest_entries(result, {"base": self.base, "teacher": self.teacher})

    @property
    def _version(self) -> dict[str, int]:
        version = self.module.CARD.version
        return {"model_version": version} if version > 1 else {}
