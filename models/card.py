"""A model's card: where it stands in the survey's taxonomy, and what its paper reported. No TensorFlow."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ptmbench.models.channels import TEXT


class Representation(StrEnum):
    """First axis (survey, section 3.2): does a word's vector depend on its sentence?"""

    NON_CONTEXTUAL = "non-contextual"
    CONTEXTUAL = "contextual"


class Architecture(StrEnum):
    """Second axis: the network that encodes context."""

    LOOKUP = "lookup table"
    LSTM = "LSTM"
    CONVOLUTION = "convolution"
    TRANSFORMER_ENCODER = "Transformer encoder"
    TWO_STREAM = "two-stream Transformer encoder"
    TRANSFORMER_DECODER = "Transformer decoder"
    TRANSFORMER = "Transformer"


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A score as printed in a paper, for the column next to ours."""

    task: str
    metric: str
    value: float
    source: str
    split: str = "test"


@dataclass(frozen=True, kw_only=True)
class Card:
    """A model in the survey's taxonomy, and the facts of its paper. ``objectives`` and ``extensions`` are the third and
    the fourth axis."""

    title: str
    citation: str
    year: int
    representation: Representation
    architecture: Architecture
    objectives: tuple[str, ...]
    extensions: tuple[str, ...] = ()
    loss: str
    """The loss as a formula in plain text."""
    tokenizer: str
    """The kind that the paper used: wordpiece, bpe, unigram, word or character."""
    corpus: str
    """What the paper pre-trained on."""
    parameters: str
    """The paper's own count, as it printed it."""
    reference: str
    """What tests compare the network with, on the same weights: classes of another library, or its equations in NumPy
    where no library has it; "none" for a network that no test compares."""
    reported: tuple[Reported, ...] = ()
    optimizer: str = ""
    """The paper's optimizer, if it is not AdamW with bias correction, which all models use here."""
    layers: str = ""
    """The number of layers as printed in the paper; "" for the number of our base size."""
    speed_up: str = ""
    """The speed-up of inference over ``source_model``, as printed in the paper or the survey."""
    source_model: str = ""
    """The model that a compressed model was made from."""
    licence: str = ""
    """The licence of the authors' released weights."""
    reads: tuple[str, ...] = TEXT
    """The channels that the encoder reads (`models.channels`)."""
    paper: str = ""
    """The title of the paper."""
    url: str = ""
    """Where the paper can be read: arXiv, the ACL Anthology, or the authors' own page."""
    aliases: tuple[str, ...] = ()
    """Names of this model in the survey's figures and tables, if they are not the title."""
    version: int = 1
    """Raised by a change after which pre-trainings are not comparable with earlier ones; it is part of their keys."""

    def facts(self) -> dict[str, Any]:
        """What a record keeps of the card. Where the paper can be read and what else the model is called stay out: they
        say nothing about a result. A record has the version with its pre-training."""
        left_out = ("paper", "url", "aliases", "version")
        return {name: value for name, value in asdict(self).items() if name not in left_out}


@dataclass(frozen=True, kw_only=True)
class Size:
    """Shape of a network. Each architecture uses what it needs of it.

    ``layers`` L, ``width`` D, ``heads`` H, ``inner`` the width of the feed-forward layers, ``length`` the longest
    input in tokens; ``embedding`` E the width of token vectors, 0 where the model's own rule gives it.
    """

    layers: int
    width: int
    heads: int = 1
    inner: int = 0
    length: int = 512
    embedding: int = 0


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """The model whose predictions a student learns in pre-training, as ``TEACHER`` in the student's file. It is
    pre-trained first, on the same corpus. A student sees it frozen, or trains a copy of it."""

    model: str
    size: Callable[[Size], Size]
    """Maps the size of a student to the size of its teacher. For each of the student's ``SIZES``, this is one of the
    teacher's ``SIZES``."""
    parts: tuple[str, ...]
    """Prefixes of the paths of the variables that the student learns from: "encoder/stack/", "mlm/"."""
    vocabulary: Callable[[int], int] | None = None
    """Maps the size of the teacher's vocabulary to the size of the student's own, which is trained on the same corpus.
    None for a student that has the vocabulary of its teacher."""


TINY = Size(layers=2, width=128, heads=2, inner=512)
MINI = Size(layers=4, width=256, heads=4, inner=1024)
SMALL = Size(layers=4, width=512, heads=8, inner=2048)
"""The compact BERT sizes of Turc et al. (2019), table 1; models scale their own parts to match."""
