"""A model's card: its position in the survey's taxonomy, and facts and scores from its paper."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ptmbench.models.channels import TEXT


class Representation(StrEnum):
    """First axis (survey, section 3.2): does the vector of a word depend on its sentence?"""

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
    """A score as printed in a paper, shown in the column next to ours."""

    task: str
    metric: str
    value: float
    source: str
    split: str = "test"


@dataclass(frozen=True, kw_only=True)
class Card:
    """A model in the survey's taxonomy, with the facts of its paper. ``objectives`` and ``extensions`` are the third
    and the fourth axis."""

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
    """The paper's kind of tokenizer: wordpiece, bpe, unigram, word or character."""
    corpus: str
    """The paper's pre-training corpus."""
    parameters: str
    """The number of parameters as printed in the paper."""
    reference: str
    """The reference that tests compare the network with, on the same weights: classes of another library, or the
    equations in NumPy if no library has the network; "none" if no test compares it."""
    reported: tuple[Reported, ...] = ()
    optimizer: str = ""
    """The paper's optimizer, if it is not AdamW with bias correction. All models here use AdamW."""
    layers: str = ""
    """The number of layers as printed in the paper; "" if it is that of our base size."""
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
    """The address of the paper: arXiv, the ACL Anthology, or the authors' page."""
    aliases: tuple[str, ...] = ()
    """Other names of this model in the survey's figures and tables."""
    version: int = 1
    """Increased by a change that makes pre-trainings incomparable with earlier ones. It is part of their content
    keys."""

    def facts(self) -> dict[str, Any]:
        """Returns the part of the card that a record keeps. The paper's title and address and the aliases are left out
        because they do not affect a result. The version is recorded with the pre-training."""
        left_out = ("paper", "url", "aliases", "version")
        return {name: value for name, value in asdict(self).items() if name not in left_out}


@dataclass(frozen=True, kw_only=True)
class Size:
    """The shape of a network. Each architecture uses the fields that it needs.

    ``layers`` L, ``width`` D, ``heads`` H, ``inner`` the width of the feed-forward layers, ``length`` the longest input
    in tokens, ``embedding`` E the width of token vectors (0: given by the model's own rule).
    """

    layers: int
    width: int
    heads: int = 1
    inner: int = 0
    length: int = 512
    embedding: int = 0


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """The model whose predictions a student learns in pre-training, given as ``TEACHER`` in the student's file. It is
    pre-trained first, on the same corpus. The student learns from the frozen teacher, or trains a copy of it."""

    model: str
    size: Callable[[Size], Size]
    """Maps the size of a student to the size of its teacher."""
    parts: tuple[str, ...]
    """Prefixes of the paths of the teacher's variables that the student learns from: "encoder/stack/", "mlm/"."""
    vocabulary: Callable[[int], int] | None = None
    """Maps the size of the teacher's vocabulary to that of the student's own, which is trained on the same corpus. None
    if the student uses the vocabulary of its teacher."""


TINY = Size(layers=2, width=128, heads=2, inner=512)
MINI = Size(layers=4, width=256, heads=4, inner=1024)
SMALL = Size(layers=4, width=512, heads=8, inner=2048)
"""The compact BERT sizes of Turc et al. (2019), table 1; models scale the sizes of their own parts to match."""
