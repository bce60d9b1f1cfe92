"""Magnitude pruning: the smallest weights of each kernel become zero while the model is fine-tuned further.

Zhu and Gupta (2017), "To prune, or not to prune", section 3: at step t every kernel keeps the share 1 - s_t of its
weights, the largest in magnitude, where

    s_t = s_f + (s_i - s_f) (1 - t / (n dt))^3    for t in {dt, 2 dt, ..., n dt}        (equation 1, from t_0 = 0)

rises from s_i to the final sparsity s_f. A masked weight gets no update, so it stays zero. Schedules and masks come
from the TensorFlow Model Optimization Toolkit. With ``schedule=constant`` all weights are pruned at the first step and
the others are trained, as in Han et al. (2015), "Learning both Weights and Connections for Efficient Neural Networks",
section 3. Gordon, Duh and Andrews (2020), "Compressing BERT", section 3.4, prune BERT after fine-tuning and train it
for five more epochs.

Each kernel has its own threshold (Gordon et al., section 2.1). By default only kernels of the encoder are pruned, and
those of the decoder that is used, even if the adaptation adds it. Embedding tables are not: a row of a rare token is
learnt from few gradients, so its magnitude says little about its importance. Gordon et al. (section 3.1) prune BERT's
word embeddings too; use ``embeddings=1`` for this. The head is not pruned, since it has few weights, all new and all in
use.

Pruning includes training, which may improve a model by itself. As a control, ``sparsity=0`` trains for as long without
pruning.

No engine here computes faster with zeros. Only the checkpoint becomes smaller, because it omits them.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import SettingError, check_effect, one_of, positive, setting, share, switch
from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import without_early_stopping

_PATTERN = re.compile(r"([1-9]\d{0,3})([x:])([1-9]\d{0,3})")


def is_pattern(value: str) -> bool:
    """Whether ``value`` is a pattern such as "2:4" or "4x1", or empty."""
    found = _PATTERN.fullmatch(value)
    return value == "" or bool(found and (found[2] == "x" or int(found[1]) < int(found[3])))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of ``prune:name=value``."""

    sparsity: float = share(0.5)
    """Share of the weights of each kernel that become zero; 0 only trains the model further."""
    initial: float = share(0.0)
    """Initial sparsity of the polynomial schedule."""
    schedule: str = one_of("polynomial", "polynomial", "constant")
    """How sparsity rises: by the cubic polynomial, or to its final value at the first step."""
    frequency: int = positive(10)
    """Steps between two updates of the masks."""
    ramp: float = setting(0.5, "above 0 and 1 at most", lambda value: 0 < value <= 1)
    """Share of the steps in which sparsity rises, rounded down to a multiple of ``frequency``."""
    epochs: int = positive(5)
    """Passes over the training examples (Gordon et al., section 3.4)."""
    max_steps: int = setting(0)
    """Maximum number of training steps; 0 for no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate; 0 for the adaptation's."""
    pattern: str = setting(
        "", "2:4 (zeros of consecutive inputs), 4x1 (block of inputs x outputs) or empty", is_pattern
    )
    """The pattern of the zeros. With "2:4", the masks are chosen at the first step."""
    embeddings: int = switch(0)
    """1: embedding tables are pruned too."""
    head: int = switch(0)
    """1: the matrices of the head are pruned too."""

    def __post_init__(self) -> None:
        fixed = self.zeros[0] / self.zeros[1] if self.zeros else self.sparsity
        if not math.isclose(self.sparsity, fixed, rel_tol=1e-5):  # 1:3 takes 0.333333
            raise SettingError(
                f"pattern={self.pattern} fixes the sparsity at {fixed:g}, but sparsity is {self.sparsity:g}. "
                f"Add sparsity={fixed:g}, or leave the pattern out."
            )
        if self.initial > self.sparsity:
            raise SettingError(
                f"initial={self.initial:g} is above sparsity={self.sparsity:g}: sparsity can only rise. Lower it."
            )
        if self.at_once:
            whose = f"pattern={self.pattern}" if self.zeros else "schedule=constant"
            check_effect(self, f"{whose}, which sets the zeros at the first step", "initial", "ramp", "frequency")

    @property
    def zeros(self) -> tuple[int, int] | None:
        """(m, n) if m of n consecutive inputs are zero; None for other patterns."""
        found = _PATTERN.fullmatch(self.pattern)
        return (int(found[1]), int(found[3])) if found and found[2] == ":" else None

    @property
    def block(self) -> tuple[int, int]:
        """The numbers of inputs and outputs of a block, which is kept or pruned as a whole."""
        found = _PATTERN.fullmatch(self.pattern)
        return (int(found[1]), int(found[3])) if found and found[2] == "x" else (1, 1)

    @property
    def at_once(self) -> bool:
        """Whether the masks are chosen at the first step and do not change afterwards."""
        return self.schedule == "constant" or self.zeros is not None

    def end(self, steps: int) -> int:
        """The step, counted from 1, at which the final sparsity is reached; 0 if there are too few ``steps``. The end
        is a multiple of ``frequency``, because the Toolkit updates masks only there. Otherwise the last update would
        come before the end, and the sparsity would be too low."""
        if self.at_once:
            return min(1, steps)
        room = steps // self.frequency
        return self.frequency * min(room, max(1, int(self.ramp * steps) // self.frequency))


class Prune:
    """A `bench.adapt.transforms.contract.Transform` with training."""

    summary = "the smallest weights of each kernel become zero during further fine-tuning"
    settings = Settings
    version = 2  # 2: an adaptation's new decoder is pruned too
    compression = "pruning"
    rebuilds = False
    final = False

    def label(self, settings: Settings) -> str:
        pattern = f" ({settings.pattern})" if settings.pattern else ""
        return f"pruned {100 * settings.sparsity:g} %{pattern}" if settings.sparsity else "trained further"

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting:
        return without_early_stopping(settings, adaptation)  # pruning is complete only after all steps

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.prune.network import pruned

        return pruned(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        """Does nothing, because pruning changes no layer."""


TRANSFORM = Prune()
