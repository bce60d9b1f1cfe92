"""What is trained on a corpus, as artefacts (`bench.runs.artefacts.Artefact`): tokenizers and pre-trainings."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import digest


@dataclass(frozen=True, kw_only=True)
class TokenizerTraining:
    """One tokenizer to train: a kind and a size of vocabulary, on a corpus."""

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
    """One model to pre-train, from random weights or from those of another pre-training."""

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
    """Key of the pre-training, or of the given checkpoint, whose weights it continues from."""
    other_tokenizer: str = ""
    """Key of the tokenizer that it reads; "" for the one that is trained on its own corpus."""
    teacher: str = ""
    """Key of the pre-training, or of the given checkpoint, whose predictions it learns."""
    weight: ClassVar[float] = 0.0

    @property
    def key(self) -> str:
        matters = asdict(self)
        del matters["corpus"], matters["corpus_name"]  # where the text lies does not matter, what it says does
        return digest({"pretraining": without(matters, base="", other_tokenizer="", teacher="")})

    @property
    def tokenizer_key(self) -> str:
        """Key of the tokenizer that it reads."""
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
        """Which model, and what it reads: one run may train a model over tokens of two kinds."""
        return f"{self.model}-{self.size} ({self.tokenizer}{', continued' if self.base else ''})"

    @property
    def title(self) -> str:
        return f"Pre-training {self.name}"

    @property
    def group(self) -> str:
        return self.key

    def place(self, out: Path) -> Path:
        return out / "pretrained" / f"{self.model}-{self.size}.{self.key[:12]}"


def tokenizer_key(corpus_sha256: str, kind: str, size: int) -> str:
    """The key of the tokenizer of that ``kind`` and ``size`` which is trained on that corpus."""
    return digest({"corpus": corpus_sha256, "kind": kind, "size": size})


def without(matters: dict[str, Any], **empty: Any) -> dict[str, Any]:
    """``matters`` without the fields that have their ``empty`` value."""
    return {name: value for name, value in matters.items() if name not in empty or value != empty[name]}
