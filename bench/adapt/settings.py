"""Hyper-parameters of adaptations, with a default per form; ``--set`` changes them.

`Settings` has the hyper-parameters of all adaptations, `Learning` those of adaptations that train weights with Adam. An
adaptation with further ones, or with other defaults, names a subclass (`bench.adapt.contract.Adaptation.settings`). The
defaults of the subclass take precedence over those of the form. The subclass also has the cost formulas for the
estimate before a run (`bench.adapt.effort`).
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
    """An unknown hyper-parameter or an invalid value. The message names the nearest names or the valid values."""


_DEFAULT_MOST = 10**6
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
"""The largest values of integer settings; `_DEFAULT_MOST` for settings that are not listed. Most of them determine the
use of memory. Limits such as ``max_steps`` do not, so they may be larger."""


def setting(
    default: Any,
    takes: str = "0 or above",
    holds: Callable[[Any], bool] = lambda value: value >= 0,
    *,
    baked: bool = False,
    sparing: bool = False,
    answering: bool = False,
) -> Any:
    """Declares a field of `Settings`. ``takes`` describes the valid values in words; ``holds`` is True for these.

    A traced graph contains the value of a ``baked`` setting. A ``sparing`` setting is recorded only if it differs from
    its default, so cells from before it was introduced keep their keys. An ``answering`` setting changes only how a
    trained model answers, so cells that differ in it share one training.
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
    """A `setting` with one of ``values``."""
    named = [str(value) for value in values if value != ""]
    return setting(default, f"{', '.join(named[:-1])} or {named[-1]}", lambda value: value in values, **options)


def switch(default: int, **options: bool) -> Any:
    """A `setting` that is off or on."""
    return setting(default, "0 (off) or 1 (on)", lambda value: value in (0, 1), **options)


def names(default: str, what: str, **options: bool) -> Any:
    """A `setting` of distinct names joined by "+"; "" for none. ``what`` is their plural noun in messages."""

    def distinct(value: str) -> bool:
        parts = value.split("+")
        return value == "" or (all(parts) and len(set(parts)) == len(parts))

    return setting(default, f"names of {what} with a + between them, each once", distinct, **options)


def one_reading(what: str) -> Any:
    """`Settings.layers` of an adaptation that allows no choice of layers; ``what`` is the reason."""
    return setting("", f"empty: {what}", lambda value: value == "", baked=True, sparing=True)


@dataclass(frozen=True, kw_only=True)
class Settings(Effort):
    """The hyper-parameters that ``--set name=value`` can change. Lengths are in tokens."""

    VERSION = 1
    """Increased when a change of the adaptation changes the scores of a cell."""
    head_dropout = 0.0
    """Dropout rate of the head's input in training. `Learning` makes it a setting."""
    teacher = ""
    """Model and size of the teacher, such as "bert-mini"; "" for no teacher. Adaptations that distil make it a
    setting."""
    unlabelled = 0
    """Maximum number of examples without gold answers that a teacher predicts. Adaptations that distil make it a
    setting."""

    epochs: int = positive(4)
    """Passes over the training examples."""
    batch: int = positive(32)
    """Examples in a training step."""
    learning_rate: float = setting(3e-4)
    """Peak learning rate of Adam."""
    warmup: float = setting(0.1, "from 0 to 1", lambda value: 0 <= value <= 1)
    """Share of the training steps in which the learning rate rises."""
    weight_decay: float = setting(0.01, baked=True)
    """Decoupled weight decay, without biases and gains."""
    clip: float = setting(1.0, baked=True)
    """Largest norm of a step's gradients, which are scaled down to it; 0 for no limit."""
    dropout: float = share(0.1, baked=True)
    """Dropout rate of the encoder in training."""
    length: int = positive(128)
    """Longest input. Longer texts are cut, or read in windows (``stride``)."""
    target_length: int = setting(32, "2 or above", lambda value: value >= 2)
    """Longest output of a generation task, including one special token at each end."""
    stride: int = positive(64)
    """Distance between consecutive windows over a long context or text."""
    patience: int = setting(2)
    """Consecutive evaluations without a better score on the selection split that are allowed; one more ends the
    training."""
    evaluations: int = positive(1)
    """Evaluations per epoch."""
    max_steps: int = setting(0)
    """Maximum number of training steps; 0 for no limit."""
    train_limit: int = setting(0)
    """Maximum number of training examples, drawn by the seed; 0 for no limit."""
    selection: int = positive(1000)
    """Maximum number of examples that early stopping evaluates."""
    layers: str = one_of("", "", "embedding", "top", "all", baked=True, sparing=True)
    """The part of the encoder that is read: its embedding, its top layer, or a mix of all layers; "" for the default of
    the adaptation."""

    crf: int = switch(0, sparing=True)
    """1: tagging scores sequences of tags (a linear-chain CRF); 0: it scores each tag by itself."""
    context: int = switch(0, sparing=True)
    """1: tagging fills its window with the neighbouring sentences of the document; 0: it reads each sentence alone."""
    label_smoothing: float = share(0.0, sparing=True)
    """Share of a target token's probability that is spread over the vocabulary."""

    beam: int = positive(1, sparing=True, answering=True)
    """Beam width of generation; 1 is greedy (`bench.engine.generate` describes this and the settings below)."""
    length_penalty: float = setting(1.0, sparing=True, answering=True)
    """A hypothesis's log-probability is divided by this power of its length."""
    coverage: float = setting(0.0, sparing=True, answering=True)
    """Penalty for source tokens that a text does not attend to (`bench.engine.generate`); not applied to samples."""
    no_repeat_ngram: int = setting(0, sparing=True, answering=True)
    """An n-gram of this length may occur only once in a text; 0 for no limit."""
    sample: int = switch(0, sparing=True, answering=True)
    """1: the text is sampled, and ``beam`` has no effect; 0: it is found by search."""
    temperature: float = positive(1.0, sparing=True, answering=True)
    """Samples are drawn from logits / temperature."""
    top_k: int = setting(0, sparing=True, answering=True)
    """Samples are drawn from the k most likely tokens; 0 for all."""
    top_p: float = setting(1.0, "above 0 and 1 at most", lambda value: 0 < value <= 1, sparing=True, answering=True)
    """Samples are drawn from the most likely tokens whose probabilities add up to p."""

    @property
    def adam(self) -> dict[str, Any] | None:
        """Adam's settings by name, for `bench.engine.step.TrainStep`; None if nothing is trained with Adam."""
        return None

    @property
    def others(self) -> tuple[str, ...]:
        """Names of auxiliary tasks, on whose training sets the network is trained too."""
        return ()

    def models(self, form: Form) -> Mapping[str, str]:
        """The kind of tokens that each extra encoder reads, by its name; "" for the kind of its paper."""
        return {}

    def of(self, task: str) -> "Settings":
        """These settings for a cell of ``task``."""
        return self

    def joint(self) -> "Settings | None":
        """The settings of a first, joint training on this task and the `others`; None without one."""
        return None


@dataclass(frozen=True, kw_only=True)
class Learning(Settings):
    """`Settings` of an adaptation that trains weights with Adam (`bench.engine.optimizers.AdamW`).

    All models use the defaults of Adam's paper (Kingma & Ba, 2015, section 2). BERT's code fine-tunes with an epsilon
    of 1e-6 and without bias correction. Without the correction, training on small sets often ends at chance level
    (Zhang et al., 2021, section 4).
    """

    VERSION = 2  # 2: dropout in heads, and Adam with a beta2 of 0.999 and the epsilon of its paper
    beta1: float = share(0.9, baked=True)
    """Decay of Adam's mean of gradients."""
    beta2: float = share(0.999, baked=True)
    """Decay of Adam's mean of squared gradients."""
    epsilon: float = positive(1e-8, baked=True)
    """Added to the root of the second mean in Adam's update."""
    bias_correction: int = switch(1, baked=True)
    """0: Adam's moments are used without correction, as in BERT's code."""
    head_dropout: float = share(0.1, baked=True)
    """Dropout rate of the head's input in training, as before the classifiers of BERT's code. The default is 0 for
    spans, as in BERT's code, and for vectors that are compared with each other."""

    @property
    def adam(self) -> dict[str, Any]:
        """Adam's settings by name, for `bench.engine.step.TrainStep`."""
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
    """The class of the settings of ``adaptation``; `Settings` for other names, such as baselines. Raises `BrokenFile`
    if the adaptation's folder is invalid."""
    from ptmbench.bench import adapt  # imported here, because it imports this module

    return adapt.load(adaptation).settings if adaptation in adapt.names() else Settings


def defaults(form: Form, adaptation: str) -> Settings:
    """The default settings of ``adaptation`` for ``form``."""
    own = kind(adaptation)
    by_form = {f.name: _BY_FORM[form][f.name] for f in fields(own) if f.name in _BY_FORM.get(form, {})}
    declared = (
        {} if own in (Settings, Learning) else {f.name: f.default for f in fields(own) if f.name in own.__annotations__}
    )
    return own(**by_form | declared)


def changed(settings: Settings, changes: Mapping[str, str | int | float]) -> Settings:
    """Returns ``settings`` with ``changes``. Text is converted to the type of the field. Raises `SettingError` for an
    unknown name or an invalid value."""
    made = replaced(settings, changes, _where)
    check_step(made.batch, made.length, SettingError)
    return made


def replaced(settings: Any, changes: Mapping[str, str | int | float], where: Callable[..., str] | None = None) -> Any:
    """Like `changed`, for any frozen dataclass whose fields are declared by `setting`."""
    known = {f.name: f for f in fields(settings)}
    for name in changes:
        if name not in known:
            raise SettingError(f"There is no setting '{name}' here. {(where or _nearest)(name, known)}")
    return replace(settings, **{name: _value(known[name], value) for name, value in changes.items()})


def split(asked: str) -> tuple[str, list[list[str]]]:
    """Splits text such as "ulmfit:unfreeze=0+concat=0" into the name and its settings. A part without = belongs to the
    value before it: "multitask:auxiliary=sst2+trec". Each setting is a list of its name and its value; a list of
    another length is a mistake of the user. Raises `SettingError` for a setting that is given twice."""
    name, colon, changes = asked.partition(":")
    pairs = [change.split("=") for change in re.split(r"\+(?=[^+]*=)", changes)] if colon else []
    given = [pair[0] for pair in pairs]
    if twice := next((one for one in given if given.count(one) > 1), ""):
        raise SettingError(f"{asked} gives {twice} twice. Leave one of them out.")
    return name, pairs


def check_effect(settings: Any, because: str, *names: str) -> None:
    """Raises `SettingError` if one of ``names`` differs from its default: it has no effect ``because`` of another
    setting, so cells that differ in it would be the same. Controls are not checked: they may have all settings of what
    they control."""
    for f in fields(settings):
        value = getattr(settings, f.name)
        if f.name in names and value != f.default:
            raise SettingError(f"{f.name}={brief(value)} has no effect with {because}. Leave it out.")


def applying(changes: Mapping[str, Any], adaptation: str, others: tuple[str, ...]) -> dict[str, Any]:
    """Returns ``changes`` without the settings that only the ``others``, the run's other adaptations, have: a change
    may be meant for one of them."""
    here = {f.name for f in fields(kind(adaptation))}
    elsewhere = {f.name for other in others for f in fields(kind(other))} - here
    return {name: value for name, value in changes.items() if name not in elsewhere}


def recorded(settings: Any) -> dict[str, float | str]:
    """The hyper-parameters by name for the record, in the format of `read`."""
    kept = [f for f in fields(settings) if not f.metadata["sparing"] or getattr(settings, f.name) != f.default]
    return {f.name: getattr(settings, f.name) for f in kept}


def read(adaptation: str, values: Mapping[str, Any]) -> Settings:
    """The settings of ``adaptation`` that were `recorded` as ``values``."""
    return kind(adaptation)(**values)


def baked(settings: Settings) -> Settings:
    """Returns ``settings`` with defaults for all that are not baked. Settings with equal results can share a traced
    graph."""
    return type(settings)(**{f.name: getattr(settings, f.name) for f in fields(settings) if f.metadata["baked"]})


def answering(adaptation: str) -> tuple[str, ...]:
    """Names of the settings of ``adaptation`` that change only how a trained model answers."""
    return tuple(f.name for f in fields(kind(adaptation)) if f.metadata["answering"])


def _where(name: str, known: Mapping[str, Field]) -> str:
    """A hint for an unknown setting: the adaptations that have it, or else the nearest names."""
    from ptmbench.bench import adapt

    owners = []
    for owner in adapt.names():
        with suppress(BrokenFile):  # a broken adaptation is reported by its own cells
            owners += [owner] if name in {f.name for f in fields(kind(owner))} else []
    if owners:
        return f"It is one of --adaptation {' or '.join(owners)}."
    return _nearest(name, known)


def _nearest(name: str, known: Mapping[str, Field]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    return f"Nearest: {', '.join(near)}." if near else f"Choices: {', '.join(known)}."


def _value(f: Field, value: str | int | float) -> Any:
    """Converts ``value`` to the type of the setting ``f``. Raises `SettingError` for an invalid value."""
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
        read = own(number) + 0 if math.isfinite(number) else math.nan  # + 0 makes 0.0 of -0.0, for the same key
        if read != number:
            read = math.nan  # outside the range of every setting
    most = MOST.get(f.name, _DEFAULT_MOST) if own is int else math.inf
    if not f.metadata["holds"](read) or (own is not str and read > most):
        above = own is int and f.metadata["holds"](most + 1)
        expected = what + f.metadata["takes"] + (f", at most {most}" if above else "")
        raise SettingError(f"{f.name}={brief(value)} is not valid. Expected: {expected}.")
    return read
