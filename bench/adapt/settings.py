"""Hyper-parameters of an adaptation: one stated default per form, every one of them open to ``--set``. No TensorFlow.

`Settings` is what all adaptations have, `Learning` what those have that train weights by Adam. An adaptation with more
of them, or with defaults of its own, names a subclass (`bench.adapt.contract.Adaptation.settings`): what that declares
goes before the defaults of forms. A subclass also says what learning and writing cost (`bench.adapt.effort`), for the
estimate before anything runs.
"""

import difflib
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from ptmbench.bench.adapt.effort import Effort
from ptmbench.bench.engine.recipe import check_step
from ptmbench.bench.errors import BrokenFile, brief
from ptmbench.tasks.forms import Form


class SettingError(ValueError):
    """An unknown hyper-parameter or a value that does not fit; the message offers the nearest names."""


_SLIPS = 10**6
MOST = {
    **dict.fromkeys(("max_steps", "train_limit", "selection", "constrained", "patience"), 10**12),
    **dict.fromkeys(("batch", "extract_batch"), 2**16),
    **dict.fromkeys(("length", "stride"), 2**17),
    **dict.fromkeys(("hidden", "own_width", "target_length"), 2**14),
    **dict.fromkeys(("own_layers", "decoder_layers", "inter_layers", "upper"), 256),
    "beam": 128,
    "ranked": 64,
    "sentences": 1000,
}
"""The largest value of settings that are whole numbers, `_SLIPS` for those that are not here: memory follows from most
of them. Limits, of which none does, may be larger."""


def setting(
    default: Any,
    takes: str = "0 or above",
    holds: Callable[[Any], bool] = lambda value: value >= 0,
    *,
    baked: bool = False,
    sparing: bool = False,
    answering: bool = False,
) -> Any:
    """A field of `Settings`: it ``takes``, in words, the values that it ``holds`` for.

    A traced graph is made for the value of a ``baked`` one. A ``sparing`` one is recorded only where it differs from
    its default, so that cells of before it was there keep their keys. An ``answering`` one changes only how a trained
    model answers, so cells that differ in it share one training.
    """
    flags = {"baked": baked, "sparing": sparing, "answering": answering}
    return field(default=default, metadata={"takes": takes, "holds": holds, **flags})


def positive(default: float, **options: bool) -> Any:
    """A `setting` above 0."""
    return setting(default, "above 0", lambda value: value > 0, **options)


def share(default: float, **options: bool) -> Any:
    """A `setting` from 0 to below 1."""
    return setting(default, "from 0 to below 1", lambda value: 0 <= value < 1, **options)


def one_of(default: Any, *values: Any, **options: bool) -> Any:
    """A `setting` with few values."""
    named = [str(value) for value in values if value != ""]
    return setting(default, f"{', '.join(named[:-1])} or {named[-1]}", lambda value: value in values, **options)


def switch(default: int, **options: bool) -> Any:
    """A `setting` that is off or on."""
    return setting(default, "0 (off) or 1 (on)", lambda value: value in (0, 1), **options)


def names(default: str, what: str, **options: bool) -> Any:
    """A `setting` of several names, or of none."""

    def distinct(value: str) -> bool:
        parts = value.split("+")
        return value == "" or (all(parts) and len(set(parts)) == len(parts))

    return setting(default, f"names of {what} with a + between them, each once", distinct, **options)


def one_reading(what: str) -> Any:
    """`Settings.layers` of an adaptation that has no choice of them, since it reads ``what``."""
    return setting("", f"empty: {what}", lambda value: value == "", baked=True, sparing=True)


@dataclass(frozen=True, kw_only=True)
class Settings(Effort):
    """What ``--set name=value`` may change. Lengths are in tokens."""

    VERSION = 1
    """Raised when the adaptation changes what the same cell scores."""
    head_dropout = 0.0
    """Share of what the head reads that is dropped in training; a setting where weights learn by Adam."""
    teacher = ""
    """The model and size that the network learns from, "bert-mini"; "" without a teacher. A setting of adaptations that
    distil."""

    epochs: int = positive(4)
    batch: int = positive(32)
    learning_rate: float = setting(3e-4)
    warmup: float = setting(0.1, "from 0 to 1", lambda value: 0 <= value <= 1)
    """Share of the training steps in which the rate rises."""
    weight_decay: float = setting(0.01, baked=True)
    clip: float = setting(1.0, baked=True)
    dropout: float = share(0.1, baked=True)
    length: int = positive(128)
    target_length: int = setting(32, "2 or above", lambda value: value >= 2)
    """Longest output of a generation task, a special token at either end included."""
    stride: int = positive(64)
    """How far the windows over a long context or text are apart."""
    patience: int = setting(2)
    """Evaluations in a row that may bring no better score on the selection split; one more ends the training."""
    evaluations: int = positive(1)
    """Evaluations per epoch."""
    max_steps: int = setting(0)
    """Training steps at most; 0 is no limit."""
    train_limit: int = setting(0)
    """Training examples at most, drawn from the seed; 0 is no limit."""
    selection: int = positive(1000)
    """Examples at most that early stopping looks at."""
    layers: str = one_of("", "", "embedding", "top", "all", baked=True, sparing=True)
    """What is read of the encoder: its embedding, its top layer, or a mix of all; "" is the adaptation's own choice."""

    crf: int = switch(0, sparing=True)
    """1: tagging judges sequences of tags (a linear-chain CRF); 0: every tag by itself."""
    context: int = switch(0, sparing=True)
    """1: tagging fills its window with the sentences before and after, of the same document; 0: a sentence alone."""
    label_smoothing: float = share(0.0, sparing=True)
    """Share of the probability of a token to write that is spread over the vocabulary."""

    beam: int = positive(1, sparing=True, answering=True)
    """Hypotheses that generation keeps side by side; 1 is greedy (`bench.engine.generate` tells what these do)."""
    length_penalty: float = setting(1.0, sparing=True, answering=True)
    """Power of its length that a hypothesis's log-probability is divided by."""
    coverage: float = setting(0.0, sparing=True, answering=True)
    """Penalty for tokens of the source that a text does not look at (`bench.engine.generate`); none for samples."""
    no_repeat_ngram: int = setting(0, sparing=True, answering=True)
    """Runs of so many tokens occur once in a text; 0: as often as they come."""
    sample: int = switch(0, sparing=True, answering=True)
    """1: the text is drawn, and ``beam`` is without effect; 0: it is searched for."""
    temperature: float = positive(1.0, sparing=True, answering=True)
    top_k: int = setting(0, sparing=True, answering=True)
    top_p: float = setting(1.0, "above 0 and 1 at most", lambda value: 0 < value <= 1, sparing=True, answering=True)
    """What samples are drawn from: logits / temperature, the k likeliest tokens, the likeliest that make up p."""

    @property
    def adam(self) -> dict[str, Any] | None:
        """Adam's settings by name, as `bench.engine.step.TrainStep` takes them; None where nothing learns by Adam."""
        return None

    @property
    def others(self) -> tuple[str, ...]:
        """Names of auxiliary tasks, whose training sets are learnt too."""
        return ()

    def models(self, form: Form) -> Mapping[str, str]:
        """Names of extra encoders, each with the kind of tokens that it reads; "" for the kind of its paper."""
        return {}

    def of(self, task: str) -> "Settings":
        """These settings for a cell of ``task``."""
        return self

    def joint(self) -> "Settings | None":
        """The settings of a first training, of this task and the `others` together; None where there is none."""
        return None


@dataclass(frozen=True, kw_only=True)
class Learning(Settings):
    """`Settings` of an adaptation under which weights learn by Adam (`bench.engine.optimizers.AdamW`).

    Adam's are its paper's (Kingma & Ba, 2015, section 2), for all models alike. BERT's code fine-tunes with an epsilon
    of 1e-6 and no bias correction; without it small training sets often end at chance (Zhang et al., 2021, section 4).
    """

    VERSION = 2  # since heads have dropout, and Adam a beta2 of 0.999 and the epsilon of its paper
    beta1: float = share(0.9, baked=True)
    beta2: float = share(0.999, baked=True)
    epsilon: float = positive(1e-8, baked=True)
    bias_correction: int = switch(1, baked=True)
    """0: Adam's moments are taken as they are, as in BERT's code."""
    head_dropout: float = share(0.1, baked=True)
    """Share of what the head reads of the encoder that is dropped in training, as BERT's code does before its
    classifiers. Spans are read without, as in BERT's code; so are vectors that are compared with each other."""

    @property
    def adam(self) -> dict[str, Any]:
        """Adam's settings by name, as `bench.engine.step.TrainStep` takes them."""
        named = {name: getattr(self, name) for name in ("beta1", "beta2", "epsilon")}
        return named | {"bias_correction": bool(self.bias_correction)}


_BY_FORM: Mapping[Form, Mapping[str, float]] = {
    Form.REGRESSION: {"epochs": 6},
    Form.TAGGING: {"epochs": 6, "learning_rate": 5e-4},
    Form.SPAN: {"epochs": 3, "length": 256, "stride": 128, "head_dropout": 0.0},
    Form.CHOICE: {"epochs": 10, "batch": 16, "patience": 4},
    Form.GENERATION: {"epochs": 8, "learning_rate": 1e-3, "patience": 3, "beam": 4, "head_dropout": 0.0},
    Form.LANGUAGE_MODELLING: {"batch": 16},
    Form.FEW_SHOT: {"batch": 8, "head_dropout": 0.0},
    Form.RANKING: {"batch": 128, "length": 64, "selection": 500, "head_dropout": 0.0},
    Form.POINTING: {"epochs": 20, "learning_rate": 5e-4, "patience": 5},
}


def kind(adaptation: str) -> type[Settings]:
    """The class of the settings of ``adaptation``; `Settings` for what is none, such as a baseline. Raises `BrokenFile`
    where its folder is not sound."""
    from ptmbench.bench import adapt  # which needs this module

    return adapt.load(adaptation).settings if adaptation in adapt.names() else Settings


def defaults(form: Form, adaptation: str) -> Settings:
    """The stated defaults of ``form`` under ``adaptation``."""
    own = kind(adaptation)
    by_form = {f.name: _BY_FORM[form][f.name] for f in fields(own) if f.name in _BY_FORM.get(form, {})}
    declared = (
        {} if own in (Settings, Learning) else {f.name: f.default for f in fields(own) if f.name in own.__annotations__}
    )
    return own(**by_form | declared)


def changed(settings: Settings, changes: Mapping[str, str | int | float]) -> Settings:
    """``settings`` with ``changes``, of which text is read as the field's own type; `SettingError` for what does not
    fit."""
    made = replaced(settings, changes, _where)
    check_step(made.batch, made.length, SettingError)
    return made


def replaced(settings: Any, changes: Mapping[str, str | int | float], where: Callable[..., str] | None = None) -> Any:
    """As `changed`, of any frozen dataclass whose fields are each a `setting`."""
    known = {f.name: f for f in fields(settings)}
    for name in changes:
        if name not in known:
            raise SettingError(f"There is no setting '{name}' here. {(where or _nearest)(name, known)}")
    return replace(settings, **{name: _value(known[name], value) for name, value in changes.items()})


def split(asked: str) -> tuple[str, list[list[str]]]:
    """A name and the settings behind it: "ulmfit:unfreeze=0+concat=0". What has no = of its own belongs to the value
    before it: "multitask:auxiliary=sst2+trec". Each setting is a list of its name and its value; one of another length
    is a mistake."""
    name, colon, changes = asked.partition(":")
    return name, [change.split("=") for change in re.split(r"\+(?=[^+]*=)", changes)] if colon else []


def applying(changes: Mapping[str, Any], adaptation: str, others: tuple[str, ...]) -> dict[str, Any]:
    """Those of ``changes`` that are not for one of the ``others`` alone: what is meant for one of the adaptations of a
    run passes the rest by."""
    here = {f.name for f in fields(kind(adaptation))}
    elsewhere = {f.name for other in others for f in fields(kind(other))} - here
    return {name: value for name, value in changes.items() if name not in elsewhere}


def recorded(settings: Any) -> dict[str, float | str]:
    """For the record: hyper-parameters by name, as `read` takes them."""
    kept = [f for f in fields(settings) if not f.metadata["sparing"] or getattr(settings, f.name) != f.default]
    return {f.name: getattr(settings, f.name) for f in kept}


def read(adaptation: str, values: Mapping[str, Any]) -> Settings:
    """The settings of ``adaptation`` that were `recorded` as ``values``."""
    return kind(adaptation)(**values)


def baked(settings: Settings) -> Settings:
    """``settings`` as a traced graph sees them: two with the same ones can share it."""
    return type(settings)(**{f.name: getattr(settings, f.name) for f in fields(settings) if f.metadata["baked"]})


def answering(adaptation: str) -> tuple[str, ...]:
    """Names of the settings of ``adaptation`` that change only how a trained model answers."""
    return tuple(f.name for f in fields(kind(adaptation)) if f.metadata["answering"])


def _where(name: str, known: Mapping[str, Field]) -> str:
    """Where else there is a setting ``name``, or what is nearest to it."""
    from ptmbench.bench import adapt

    owners = []
    for owner in adapt.names():
        with suppress(BrokenFile):  # its own cells say so
            owners += [owner] if name in {f.name for f in fields(kind(owner))} else []
    if owners:
        return f"It is one of --adaptation {' or '.join(owners)}."
    return _nearest(name, known)


def _nearest(name: str, known: Mapping[str, Field]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    return f"Nearest: {', '.join(near)}." if near else f"Choices: {', '.join(known)}."


def _value(f: Field, value: str | int | float) -> Any:
    """``value`` as the setting ``f`` holds it."""
    own, what = type(f.default), ""
    if own is str:
        read = value
    else:
        what = "a whole number, " if own is int else ""
        try:
            number = float(value)
        except ValueError as error:
            raise SettingError(f"{f.name} takes a number, not '{value}'.") from error
        except OverflowError:
            number = math.inf
        read = own(number) + 0 if math.isfinite(number) else math.nan  # -0.0 is 0, with which it shares a key
        if read != number:
            read = math.nan  # which no setting holds
    most = MOST.get(f.name, _SLIPS) if own is int else math.inf
    if not f.metadata["holds"](read) or (own is not str and read > most):
        expected = what + f.metadata["takes"] + (f", at most {most}" if own is int else "")
        raise SettingError(f"{f.name}={brief(value)} is not valid. Expected: {expected}.")
    return read
