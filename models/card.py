"""A model's card: where it stands in the survey's taxonomy, and what its paper reported. No TensorFlow."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ptmbench.models.channels import TEXT


class Representation(StrEnum):
    """First axis (survey, section 3.2): does a word's vector depend on its sentence?"""

    NON_CONTEXTUAL = "non-contextual"
    CONTEXTUAL = "contextual"


class Architecture(StrEnum):
    """Second axis: the network that encodes context."""

    LOOKUP = "lookup table"
    LSTM = "LSTM"
    TRANSFORMER_ENCODER = "Transformer encoder"
    TWO_STREAM = "two-stream Transformer encoder"
    TRANSFORMER_DECODER = "Transformer decoder"
    TRANSFORMER = "Transformer"


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A score as its paper printed it, for the column beside ours."""

    task: str
    metric: str
    value: float
    source: str
    split: str = "test"


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a reader wants to know before the code. The third and fourth axes are ``objectives`` and ``extensions``."""

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
    """What our tests hold the network against, on the same weights; where nothing can be installed, that they write its
    equations out."""
    reported: tuple[Reported, ...] = ()
    optimizer: str = ""
    """What the paper trains by, where that is not AdamW with bias correction, which all models share here."""
    layers: str = ""
    """As the paper printed it; where that is "", records say those of our base size."""
    speed_up: str = ""
    """Of inference, beside ``source_model``, as the paper or the survey printed it."""
    source_model: str = ""
    """What a compressed model was made from."""
    licence: str = ""
    """Of the weights that the authors released."""
    reads: tuple[str, ...] = TEXT
    """The channels that the encoder reads (`models.channels`)."""


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
    """The model whose predictions a student learns in pre-training: pre-trained before it over the same tokenizer, and
    frozen. The file of a student calls it ``TEACHER``."""

    model: str
    size: Callable[[Size], Size]
    """The size of the teacher of a student of that size, one of the teacher's ``SIZES`` for each of the student's."""
    parts: tuple[str, ...]
    """Beginnings of the paths of the variables that the student learns from: "encoder/stack/", "mlm/"."""


TINY = Size(layers=2, width=128, heads=2, inner=512)
MINI = Size(layers=4, width=256, heads=4, inner=1024)
SMALL = Size(layers=4, width=512, heads=8, inner=2048)
"""The compact BERT sizes of Turc et al. (2019), table 1; models scale their own parts to match."""
