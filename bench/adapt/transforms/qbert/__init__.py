"""Q-BERT: few bits for each weight, groups with separate ranges, and more bits for sensitive kernels.

Shen et al. (2020), "Q-BERT: Hessian Based Ultra Low Precision Quantization of BERT", section 3:

- mixed precision: a power iteration finds the top eigenvalue of the Hessian of the loss with respect to one kernel, on
  several slices of the training set. With these eigenvalues l_i, the sensitivity of kernel i is

      Omega_i = |mean(l_i)| + std(l_i),

  and kernels of a higher sensitivity get more bits;
- group-wise quantisation: each group of consecutive outputs of a kernel has its own range, which is divided into
  2^bits values at equal distances;
- quantisation-aware fine-tuning with these bits. Embedding tables and inputs of products have 8 bits.

The paper assigns bits to whole layers of BERT. Here they are assigned to kernels, since networks have few layers and
their architectures differ. Kernels get ``high`` bits in the order of their sensitivity, as long as the mean over all
weights of kernels is at most ``mean``; all others get ``low``. As controls, ``by=random`` assigns bits in random order
and ``by=reversed`` in the order of increasing sensitivity. The paper computes eigenvalues on a tenth of the training
set; here it is ``slices`` batches.

Each code is stored with its real number of bits. Products are computed in float32, so they are not faster.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import SettingError, check_effect, one_of, positive, setting, switch
from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import without_early_stopping


def _bits(default: int) -> Any:
    return setting(default, "from 2 to 8", lambda value: 2 <= value <= 8)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of ``qbert:name=value``."""

    low: int = _bits(2)
    """Bits of the least sensitive kernels."""
    high: int = _bits(3)
    """Bits of the most sensitive kernels."""
    mean: float = setting(2.5, "from 2 to 8", lambda value: 2 <= value <= 8)
    """Maximum mean number of bits over the weights of all kernels."""
    by: str = one_of("sensitivity", "sensitivity", "random", "reversed")
    """The order in which kernels get ``high`` bits."""
    groups: int = positive(128)
    """Maximum number of groups of the outputs of a kernel. The number of groups divides the number of outputs."""
    embeddings: int = setting(8, "0 or from 2 to 8", lambda value: value == 0 or 2 <= value <= 8)
    """Bits of embedding tables, whose rows have separate ranges; 0 leaves them float32."""
    activations: int = switch(1)
    """1: the inputs of the products are rounded to 8 bits; 0: weights alone."""
    slices: int = positive(10)
    """Number of training batches; each gives one eigenvalue per kernel."""
    iterations: int = positive(20)
    """Maximum number of steps of a power iteration."""
    calibration: int = positive(10)
    """Number of training batches for calibrating the ranges of inputs."""
    epochs: int = positive(5)
    """Passes over the training examples."""
    max_steps: int = setting(0)
    """Maximum number of training steps; 0 for no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate; 0 for the adaptation's."""

    def __post_init__(self) -> None:
        if not self.low <= self.mean <= self.high:
            raise SettingError(
                f"mean={self.mean:g} is not between low={self.low} and high={self.high}. Set all three so that it is."
            )
        if not self.activations:
            check_effect(self, "activations=0", "calibration")

    def measured_texts(self, layers: int, batch: int) -> float:
        """The number of texts that the network could read for the cost of measuring sensitivities, for stacks of
        Transformer blocks, which have four kernels. A product with the Hessian of one kernel takes about as long as
        three forward passes; for MiniLM-L6 on SST-2, a power iteration took about seven products."""
        return 0.0 if self.by == "random" else self.slices * batch * 4 * layers * 3 * min(self.iterations, 7)


class Qbert:
    """A `bench.adapt.transforms.contract.Transform` with training."""

    summary = "kernels get 2 to 8 bits by their sensitivity, and the model is fine-tuned further with them"
    settings = Settings
    version = 1
    compression = "quantization"
    rebuilds = True
    final = True

    def label(self, settings: Settings) -> str:
        order = "" if settings.by == "sensitivity" else f", {settings.by}"
        usual = (settings.low, settings.high) == (Settings.low, Settings.high)
        bits = "" if usual else f" ({settings.low} or {settings.high})"
        return f"Q-BERT {settings.mean:g} bits{bits}{order}"

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting:
        return without_early_stopping(settings, adaptation)  # like the control, `prune` with sparsity 0

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.qbert.network import quantised

        return quantised(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        from ptmbench.bench.adapt.transforms.quantisation import attach

        attach(adapted, bool(settings.activations), bool(settings.embeddings))


TRANSFORM = Qbert()
