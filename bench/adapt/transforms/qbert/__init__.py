"""Q-BERT: few bits for each weight, groups with ranges of their own, and more bits for sensitive kernels.

Shen et al. (2020), "Q-BERT: Hessian Based Ultra Low Precision Quantization of BERT", section 3:

- mixed precision: a power iteration finds the top eigenvalue of the Hessian of the loss with respect to one kernel, on
  several slices of the training set. With these eigenvalues l_i, the sensitivity of kernel i is

      Omega_i = |mean(l_i)| + std(l_i),

  and kernels of a higher sensitivity get more bits;
- group-wise quantisation: each group of consecutive outputs of a kernel has a range of its own, which is divided into
  2^bits values at equal distances;
- quantisation-aware fine-tuning with these bits. Tables of vectors have 8 bits, and so have inputs of products.

In the paper, a layer of BERT is assigned as a whole. Here each kernel is, since networks have few layers and their
architectures differ. Kernels get ``high`` bits in the order of their sensitivity as long as the mean over all weights
of kernels is ``mean`` at most; all others get ``low``. ``by=random`` and ``by=reversed`` assign as many bits without
regard to the sensitivity, or against it, for comparison. The paper computes eigenvalues on a tenth of the training
set, ``slices`` batches are used here.

Each code is stored with its real number of bits. Products are computed in float32, so nothing is faster here.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import SettingError, one_of, positive, setting, switch
from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import to_the_end


def _bits(default: int) -> Any:
    return setting(default, "from 2 to 8", lambda value: 2 <= value <= 8)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What ``qbert:name=value`` may change."""

    low: int = _bits(2)
    """Bits of the kernels that are least sensitive."""
    high: int = _bits(3)
    """Bits of the kernels that are most sensitive."""
    mean: float = setting(2.5, "from 2 to 8", lambda value: 2 <= value <= 8)
    """Bits at most, averaged over the weights of all kernels."""
    by: str = one_of("sensitivity", "sensitivity", "random", "reversed")
    """The order in which kernels get ``high`` bits."""
    groups: int = positive(128)
    """Groups of the outputs of a kernel at most; their number divides the number of outputs."""
    embeddings: int = setting(8, "0 or from 2 to 8", lambda value: value == 0 or 2 <= value <= 8)
    """Bits of tables of vectors, each row with a range of its own; 0 leaves them float32."""
    activations: int = switch(1)
    """1: vectors that are multiplied are rounded to 8 bits; 0: weights alone."""
    slices: int = positive(10)
    """Batches of the training set, each of which gives an eigenvalue."""
    iterations: int = positive(20)
    """Steps of a power iteration at most."""
    calibration: int = positive(10)
    """Training batches that the ranges of inputs are calibrated on."""
    epochs: int = positive(5)
    """Passes over the training examples."""
    max_steps: int = setting(0)
    """Training steps at most; 0 is no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate; 0 for the adaptation's."""

    def __post_init__(self) -> None:
        if not self.low <= self.mean <= self.high:
            raise SettingError(
                f"mean={self.mean:g} is not between low={self.low} and high={self.high}. Set all three so that it is."
            )


class Qbert:
    """`bench.adapt.transforms.contract.Transform`; trains."""

    summary = "kernels get 2 to 8 bits by their sensitivity, and the model is fine-tuned further with them"
    settings = Settings
    version = 1
    compression = "quantization"
    rebuilds = True
    final = True

    def label(self, settings: Settings) -> str:
        order = "" if settings.by == "sensitivity" else f", {settings.by}"
        return f"Q-BERT {settings.mean:g} bits{order}"

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting:
        return to_the_end(settings, adaptation)  # as the trainings that it is compared with

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.qbert.network import quantised

        return quantised(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        from ptmbench.bench.adapt.transforms.quantisation import attach

        attach(adapted, bool(settings.activations), bool(settings.embeddings))


TRANSFORM = Qbert()
