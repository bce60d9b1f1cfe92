"""Hyper-parameters of an adaptation: one stated default per form, every one of them open to ``--set``. No
TensorFlow."""

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace

from tasks.forms import Form


class SettingError(ValueError):
    """An unknown hyper-parameter or a value that does not fit; the message offers the nearest names."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What ``--set name=value`` may change. Lengths are in tokens."""

    epochs: int = 4
    batch: int = 32
    learning_rate: float = 3e-4
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    dropout: float = 0.1
    length: int = 128
    target_length: int = 32
    """Longest output of a generation task."""
    stride: int = 64
    """How far the windows over a long context or text are apart."""
    patience: int = 2
    """Training stops after this many evaluations in a row without a better score on the selection split."""
    evaluations: int = 1
    """Evaluations per epoch."""
    max_steps: int = 0
    """Training steps at most; 0 is no limit."""
    train_limit: int = 0
    """Training examples at most, drawn from the seed; 0 is no limit."""
    selection: int = 1000
    """Examples at most that early stopping looks at."""
    crf: int = 0
    """1: tagging judges sequences of tags (a linear-chain CRF); 0: every tag by itself."""
    context: int = 0
    """1: tagging fills its window with the sentences before and after, of the same document; 0: a sentence alone."""
    shots: int = 0
    """Solved examples in a prompt."""
    layers: str = ""
    """What is read of the encoder: its embedding, its top layer, or a mix of all; "" is the adaptation's own choice."""
    lm_epochs: int = 1
    """ULMFiT: passes over the task's texts as a language model."""
    slanted: int = 1
    """ULMFiT, 1: rates rise for a tenth of the steps and then fall; 0: they stay at their peak."""
    discriminative: float = 2.6
    """ULMFiT: how many times slower a layer learns than the one above it; 1 is as fast."""
    unfreeze: int = 1
    """ULMFiT, 1: each epoch one more layer learns, from the top; 0: all do from the beginning."""
    concat: int = 1
    """ULMFiT, 1: a text is its pooled vector, the maximum and the mean of its tokens; 0: its pooled vector."""
    per_token: int = 1
    """1: answers to a prompt compare by the mean over their tokens; 0: by the sum, which favours short ones."""

    sentences: int = 0
    """Sentences of an extracted summary; 0: as many as the task's first-sentences row has."""
    inter_layers: int = 2
    """Layers in which the vectors of sentences see each other."""
    blocking: int = 1
    """1: a sentence that repeats a trigram of a better one is passed over; 0: it is taken."""
    encoder_rate: float = 2e-4
    encoder_warmup: float = 0.2
    """Peak rate and share of warm-up of an encoder under a new decoder, whose own are the usual ones."""
    stages: int = 1
    """2: an encoder under a new decoder stays as it is for the first half of the steps; 1: both learn at once."""
    warm_decoder: int = 0
    """1: a new decoder begins with the encoder's layers; 0: with random ones."""
    decoder_layers: int = 0
    """Layers of a new decoder; 0: as many as the encoder has."""
    label_smoothing: float = 0.0
    """Share of the probability of a token to write that is spread over the vocabulary."""

    beam: int = 0
    """Hypotheses that generation keeps side by side; 1 is greedy (`bench.generate` tells what these do)."""
    length_penalty: float = 1.0
    """Power of its length that a hypothesis's log-probability is divided by."""
    no_repeat_ngram: int = 0
    """Runs of so many tokens occur once in a text; 0: as often as they come."""
    sample: int = 0
    """1: the text is drawn, and ``beam`` is without effect; 0: it is searched for."""
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    """What samples are drawn from: logits / temperature, the k likeliest tokens, the likeliest that make up p."""


_BY_FORM: Mapping[Form, Mapping[str, float]] = {
    Form.REGRESSION: {"epochs": 6},
    Form.TAGGING: {"epochs": 6, "learning_rate": 5e-4},
    Form.SPAN: {"epochs": 3, "length": 256, "stride": 128},
    Form.CHOICE: {"epochs": 10, "batch": 16, "patience": 4},
    Form.GENERATION: {"epochs": 8, "learning_rate": 1e-3, "patience": 3, "beam": 4},
    Form.LANGUAGE_MODELLING: {"batch": 16},
    Form.FEW_SHOT: {"batch": 8},
    Form.RANKING: {"batch": 128, "length": 64, "selection": 500},
    Form.POINTING: {"epochs": 20, "learning_rate": 5e-4, "patience": 5},
}
_FEATURES: Mapping[str, float] = {"learning_rate": 2e-3, "epochs": 8, "patience": 3}
"""Frozen features: only a small head learns, which takes larger and more steps."""

_ULMFIT: Mapping[str, float] = {"epochs": 8, "patience": 5}
"""As many epochs as a small network has layers to unfreeze, and some for all of them."""

_EXTRACT: Mapping[str, float] = {"length": 512, "epochs": 4, "batch": 16, "learning_rate": 3e-4}
"""A whole article in one row, as the paper has it; the rate is that of an encoder."""

_OWN = {
    "prompt": ("shots", "per_token"),
    "ulmfit": ("lm_epochs", "slanted", "discriminative", "unfreeze", "concat"),
    "extract": ("sentences", "inter_layers", "blocking"),
    "seq2seq": ("encoder_rate", "encoder_warmup", "stages", "warm_decoder", "decoder_layers"),
}
"""What only one adaptation has; other records, and the keys of other cells, are without it."""

_SWITCHES = ("crf", "context", "sample", "slanted", "unfreeze", "concat", "blocking", "warm_decoder")

LAYERS = ("", "embedding", "top", "all")

BAKED = ("dropout", "weight_decay", "clip", "layers", "concat", "warm_decoder", "decoder_layers")
"""What a traced graph is made for."""

_WRITING = ("beam", "length_penalty", "no_repeat_ngram", "sample", "temperature", "top_k", "top_p")

_SPARING = ("crf", "context", "layers", "label_smoothing", *_WRITING)
"""Recorded only where they differ from the first default, so that cells without them keep their keys."""

_POSITIVE = ("epochs", "batch", "length", "stride", "evaluations", "beam", "temperature", "top_p", "discriminative")

_KINDS = {int: "a whole number", float: "a number"}


def defaults(form: Form, adaptation: str) -> Settings:
    """The stated defaults of ``form`` under ``adaptation``."""
    settings = replace(Settings(), **_BY_FORM.get(form, {}))
    return replace(settings, **{"features": _FEATURES, "ulmfit": _ULMFIT, "extract": _EXTRACT}.get(adaptation, {}))


def baked(settings: Settings) -> tuple[float | str, ...]:
    """The values of `BAKED`."""
    return tuple(getattr(settings, name) for name in BAKED)


def changed(settings: Settings, changes: Mapping[str, str | int | float]) -> Settings:
    """``settings`` with ``changes``, of which text is read as the field's own type; `SettingError` for what does not
    fit."""
    kinds = {field.name: type(getattr(settings, field.name)) for field in fields(settings)}
    values: dict[str, float | str] = {}
    for name, value in changes.items():
        if name not in kinds:
            near = difflib.get_close_matches(name, kinds, n=3) or kinds
            raise SettingError(f"There is no setting '{name}'. Nearest: {', '.join(near)}.")
        if name == "layers":
            if value not in LAYERS:
                raise SettingError(f"layers={value} is not known: it is {', '.join(LAYERS[1:-1])} or {LAYERS[-1]}.")
            values[name] = value
            continue
        try:
            number = float(value)
            values[name] = kinds[name](number)
        except ValueError as error:
            raise SettingError(f"{name} takes a number, not '{value}'.") from error
        if name in _SWITCHES and number not in (0, 1):
            raise SettingError(f"{name}={value} is out of range: it is 0 (off) or 1 (on).")
        if values[name] != number or number < 0 or (number == 0 and name in _POSITIVE):
            raise SettingError(f"{name}={value} is out of range: it takes {_KINDS[kinds[name]]} above 0.")
        if name == "stages" and number not in (1, 2):
            raise SettingError(f"stages={value} is out of range: it is 1 or 2.")
        if name in ("label_smoothing", "encoder_warmup") and number >= 1:
            raise SettingError(f"{name}={value} is out of range: it is a share, below 1.")
        if name == "top_p" and number > 1:
            raise SettingError(f"top_p={value} is out of range: it is a probability, 1 at most.")
    return replace(settings, **values)


def recorded(settings: Settings, adaptation: str = "") -> dict[str, float | str]:
    """For the record: every hyper-parameter of ``adaptation`` by name."""
    values, usual = asdict(settings), asdict(Settings())
    unused = {name for owner, names in _OWN.items() if owner != adaptation for name in names}
    unused |= {name for name in _SPARING if values[name] == usual[name]}
    return {name: value for name, value in values.items() if name not in unused}
