"""Magnitude pruning: the smallest weights of each kernel become zero while the model is fine-tuned further.

Zhu and Gupta (2017), "To prune, or not to prune", section 3: at step t every kernel keeps the share 1 - s_t of its
weights that are largest in magnitude, where

    s_t = s_f + (s_i - s_f) (1 - t / (n dt))^3    for t in {dt, 2 dt, ..., n dt}        (equation 1, from t_0 = 0)

rises from s_i to the final sparsity s_f. A weight that is masked gets no update, so it stays zero. Schedules and
masks come from the TensorFlow Model Optimization Toolkit. With ``schedule=constant`` all weights go at the first
step and what is left is trained, as in Han et al. (2015), "Learning both Weights and Connections for Efficient Neural
Networks", section 3. Gordon, Duh and Andrews (2020), "Compressing BERT", section 3.4, prune BERT after fine-tuning and
train it for five more epochs.

Each kernel has its own threshold (Gordon et al., section 2.1). By default only kernels of the encoder are pruned (and
of the decoder that writes, also of one that the adaptation adds). Tables of vectors are not: a row that few texts use
is learnt from few gradients, and its size says little of its worth. Gordon et al. (section 3.1) prune BERT's word
embeddings too, which ``embeddings=1`` does. The head is not, since it has few weights, all new and all in use.

Pruning trains, and a model may gain by that alone: ``sparsity=0`` trains as long without a zero, for the comparison.

No engine here computes faster with zeros in place; what becomes smaller is the checkpoint, which leaves them out.
"""

import re
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import SettingError, one_of, positive, setting, share, switch
from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import to_the_end

_PATTERN = re.compile(r"([1-9]\d{0,3})([x:])([1-9]\d{0,3})")


def is_pattern(value: str) -> bool:
    """Whether ``value`` names a pattern of weights that go together, or is empty."""
    found = _PATTERN.fullmatch(value)
    return value == "" or bool(found and (found[2] == "x" or int(found[1]) < int(found[3])))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What ``prune:name=value`` may change."""

    sparsity: float = share(0.5)
    """Share of the weights of each kernel that become zero; 0 only trains the model further."""
    initial: float = share(0.0)
    """Sparsity at which the polynomial schedule begins."""
    schedule: str = one_of("polynomial", "polynomial", "constant")
    """How sparsity rises: by the cubic polynomial, or at once at the first step."""
    frequency: int = positive(10)
    """Steps between two updates of the masks."""
    ramp: float = setting(0.5, "above 0 and 1 at most", lambda value: 0 < value <= 1)
    """Share of the steps in which sparsity rises, rounded down to a multiple of ``frequency``."""
    epochs: int = positive(5)
    """Passes over the training examples (Gordon et al., section 3.4)."""
    max_steps: int = setting(0)
    """Training steps at most; 0 is no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate; 0 for the adaptation's."""
    pattern: str = setting(
        "", "2:4 (zeros of consecutive inputs), 4x1 (block of inputs x outputs) or empty", is_pattern
    )
    """Which weights go together. Zeros in a fixed share of consecutive inputs are chosen at the first step."""
    embeddings: int = switch(0)
    """1: tables of vectors are pruned too."""
    head: int = switch(0)
    """1: the matrices of the head are pruned too."""

    def __post_init__(self) -> None:
        if self.zeros is not None and self.sparsity != self.zeros[0] / self.zeros[1]:
            fixed = self.zeros[0] / self.zeros[1]
            raise SettingError(
                f"pattern={self.pattern} fixes the sparsity at {fixed:g}, but sparsity is {self.sparsity:g}. "
                f"Add sparsity={fixed:g}, or leave the pattern out."
            )
        if self.initial > self.sparsity:
            raise SettingError(
                f"initial={self.initial:g} is above sparsity={self.sparsity:g}: sparsity can only rise. Lower it."
            )

    @property
    def zeros(self) -> tuple[int, int] | None:
        """(m, n) where m of n consecutive inputs are zero; None for other patterns."""
        found = _PATTERN.fullmatch(self.pattern)
        return (int(found[1]), int(found[3])) if found and found[2] == ":" else None

    @property
    def block(self) -> tuple[int, int]:
        """Inputs and outputs of the blocks that are kept or dropped whole."""
        found = _PATTERN.fullmatch(self.pattern)
        return (int(found[1]), int(found[3])) if found and found[2] == "x" else (1, 1)

    @property
    def at_once(self) -> bool:
        """Whether the masks are chosen at the first step and stay."""
        return self.schedule == "constant" or self.zeros is not None

    def end(self, steps: int) -> int:
        """The step of ``steps`` at which the final sparsity is reached, the first of them being 1; 0 where there are
        too few steps. The Toolkit updates masks at multiples of ``frequency`` only, so the end is one of them: else
        the last update would come before the end, and leave a lower sparsity than was asked for."""
        if self.at_once:
            return min(1, steps)
        room = steps // self.frequency
        return self.frequency * min(room, max(1, int(self.ramp * steps) // self.frequency))


class Prune:
    """`bench.adapt.transforms.contract.Transform`; trains."""

    summary = "the smallest weights of each kernel become zero during further fine-tuning"
    settings = Settings
    version = 2  # since the decoder that an adaptation adds is pruned too
    compression = "pruning"
    rebuilds = False
    final = False

    def label(self, settings: Settings) -> str:
        pattern = f" ({settings.pattern})" if settings.pattern else ""
        return f"pruned {100 * settings.sparsity:g} %{pattern}" if settings.sparsity else "trained further"

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting:
        return to_the_end(settings, adaptation)  # a model is pruned when all steps are done

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.prune.network import pruned

        return pruned(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        """Does nothing, because pruning changes no layer."""


TRANSFORM = Prune()
