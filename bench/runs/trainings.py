"""The artefacts (`bench.runs.artefacts.Artefact`) that are trained on a corpus: tokenizers and pre-trainings."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import digest
from ptmbench.models.text.tokenizers import Vocabulary

GIVEN = "checkpoint:"
"""Prefix of the keys of checkpoints that a user gave."""
_NEWER = {"base": "", "other_tokenizer": "", "teacher": "", "teacher_vocabulary": 0, "held_out": 0}
_NEWER |= {"tuning": {}, "plugins": {}, "model_version": 1}
"""Newer fields of a pre-training with their defaults. A key leaves out a field that has its default, so older
pre-trainings keep their keys."""


class Draw(NamedTuple):
    """Identifies one of a model's pre-trainings in a run by the index of its budget and by its seed."""

    rung: int = 0
    seed: int = 0


FIRST = Draw()


@dataclass(frozen=True, kw_only=True)
class TokenizerTraining:
    """A tokenizer to train: its kind, the size of its vocabulary, and its corpus."""

    kind: ClassVar[str] = "tokenizer"
    tokenizer: str
    vocabulary: int
    corpus: tuple[str, ...]
    corpus_sha256: str
    needs: ClassVar[tuple[str, ...]] = ()
    weight: ClassVar[float] = 0.0

    @property
    def key(self) -> str:
        return tokenizer_key(self.corpus_sha256, self.tokenizer, self.vocabulary)

    @property
    def title(self) -> str:
        return f"Tokenizer {self.tokenizer} of {self.vocabulary}"

    @property
    def group(self) -> str:
        return self.key

    def relation(self, key: str) -> str:
        raise KeyError(key)

    def place(self, out: Path) -> Path:
        return out / "tokenizers" / f"{self.tokenizer}-{self.vocabulary}.{self.key[:12]}.json"


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """A model to pre-train, from random weights or from the weights of another pre-training."""

    kind: ClassVar[str] = "pretraining"
    model: str
    size: str
    corpus: tuple[str, ...]
    corpus_sha256: str
    corpus_name: str
    tokenizer: str
    vocabulary: int
    budget: Budget
    recipe: Mapping[str, float]
    seed: int = 0
    base: str = ""
    """Key of the pre-training, or of the given checkpoint, that it continues from; "" for random weights."""
    other_tokenizer: str = ""
    """Key of its tokenizer; "" for a tokenizer that is trained on its own corpus."""
    teacher: str = ""
    """Key of the pre-training, or of the given checkpoint, that it learns from; "" without a teacher."""
    teacher_vocabulary: int = 0
    """Vocabulary size of its teacher if the model has its own vocabulary; otherwise 0."""
    held_out: int = 0
    """About how many tokens, in whole documents, it does not train on. Its manifest has the loss on them."""
    tuning: Mapping[str, Any] = field(default_factory=dict)
    """The tuning that its recipe comes from: "trials" and "flops"; {} for an untuned recipe."""
    chosen_by: str = ""
    """The options that distinguish it from the model's other pre-trainings in the run, such as
    "--flops 1e+12 --pretraining-seed 1"; "" for the only one."""
    plugins: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the file of its model, if the file comes from a plugin."""
    model_version: int = 1
    """The version of the model's card."""
    weight: ClassVar[float] = 0.0

    @cached_property
    def key(self) -> str:
        matters = asdict(self)
        del matters["corpus"], matters["corpus_name"]  # the content of the corpus counts, not its path
        del matters["chosen_by"]
        return digest({"pretraining": without(matters, **_NEWER)})

    @property
    def design(self) -> str:
        """A key that all seeds of this pre-training share. It leaves out the keys of bases and teachers that the run
        trains, because these differ with the seed."""
        matters = asdict(self)
        for name in ("corpus", "corpus_name", "chosen_by", "seed", "tuning"):
            del matters[name]
        for name in ("base", "teacher"):
            matters[name] = matters[name] if matters[name].startswith(GIVEN) else bool(matters[name])
        return digest({"design": without(matters, plugins={}, teacher_vocabulary=0, model_version=1)})

    @property
    def words(self) -> Vocabulary:
        """Its vocabulary as planned: only the sizes are known."""
        teacher = Vocabulary(size=self.teacher_vocabulary) if self.teacher_vocabulary else None
        return Vocabulary(size=self.vocabulary, teacher=teacher)

    @property
    def tokenizer_key(self) -> str:
        """Key of its tokenizer."""
        return self.other_tokenizer or tokenizer_key(self.corpus_sha256, self.tokenizer, self.vocabulary)

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.tokenizer_key, *filter(None, (self.base, self.teacher)))

    def relation(self, key: str) -> str:
        if key == self.base:
            return "The pre-training that it continues"
        return "Its teacher" if key == self.teacher else "Its tokenizer"

    @property
    def name(self) -> str:
        """Model, size and kind of tokenizer, because a run may pre-train a model with two kinds of tokenizer."""
        which = f" {self.chosen_by}" if self.chosen_by else ""
        return f"{self.model}-{self.size} ({self.tokenizer}{', continued' if self.base else ''}){which}"

    @property
    def title(self) -> str:
        return f"Pre-training {self.name}"

    @property
    def planned(self) -> dict[str, Any]:
        """The entry for it in the records of its cells if it fails."""
        budget = {self.budget.unit: self.budget.amount}
        return {"budget": budget, "seed": self.seed, "corpus": self.corpus_name, "corpus_sha256": self.corpus_sha256}

    @property
    def about(self) -> dict[str, Any]:
        """The planned entries of its manifest."""
        return {"corpus": self.corpus_name} | ({"tuning": dict(self.tuning)} if self.tuning else {})

    @property
    def group(self) -> str:
        return self.key

    def place(self, out: Path) -> Path:
        return out / "pretrained" / f"{self.model}-{self.size}.{self.key[:12]}"


def tokenizer_key(corpus_sha256: str, kind: str, size: int) -> str:
    """The key of the tokenizer of ``kind`` and ``size`` that is trained on a corpus."""
    return digest({"corpus": corpus_sha256, "kind": kind, "size": size})


def without(matters: dict[str, Any], **empty: Any) -> dict[str, Any]:
    """``matters`` without the fields that have their value in ``empty``."""
    return {name: value for name, value in matters.items() if name not in empty or value != empty[name]}
