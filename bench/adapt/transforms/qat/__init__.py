"""Quantisation-aware training: the model is fine-tuned further with weights and inputs of products rounded to 8 bits.

Zafrir et al. (2019), "Q8BERT", section 2: with M = 2^(8 - 1) - 1 = 127, a number x becomes the code

    Quantize(x | S) = clamp(round(x S), -M, M)    with S_W = M / max |W| and S_x = M / EMA(max |x|),

where EMA is the exponential moving average over training batches. Forward passes compute with Quantize(x | S) / S, and
the gradient passes straight through it (d Quantize(x | S) / S / dx = 1), so the network learns with the rounding of its
final codes. All products with kernels and all embedding tables are quantised; softmax, norms, activation functions and
biases are not. Each tensor has one scale. With ``per_channel=1``, each output of a kernel and each row of a table has
one, as in `int8`.

The quantizers come from the TensorFlow Model Optimization Toolkit. Its moving average starts at 6 with a decay of
0.999, so short trainings would end with a range that is far too wide. Ranges of inputs are therefore calibrated first:
they start with the largest magnitude in the first ``calibration`` batches.

Zafrir et al. quantise while they fine-tune the pre-trained model. Here, as with every transform, the adapted model is
trained further, so all transforms start with the same weights. As a control, ``prune:sparsity=0`` trains for as long
without quantisation.

The stored weights are int8 codes. Products are computed in float32 from rounded numbers, so they are not faster.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import check_effect, positive, setting, switch
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import without_early_stopping


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of ``qat:name=value``."""

    activations: int = switch(1)
    """1: the inputs of the products are rounded to 8 bits too; 0: weights alone."""
    per_channel: int = switch(0)
    """1: a scale for each output of a kernel and each row of a table; 0: one for each tensor."""
    embeddings: int = switch(1)
    """1: embedding tables are quantised too."""
    calibration: int = positive(10)
    """Number of training batches for calibrating the ranges of inputs."""
    epochs: int = positive(5)
    """Passes over the training examples."""
    max_steps: int = setting(0)
    """Maximum number of training steps; 0 for no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate; 0 for the adaptation's."""

    def __post_init__(self) -> None:
        if not self.activations:
            check_effect(self, "activations=0", "calibration")


class Qat:
    """A `bench.adapt.transforms.contract.Transform` with training."""

    summary = "the model is fine-tuned further with weights and inputs rounded to 8 bits"
    settings = Settings
    version = 1
    compression = "quantization"
    rebuilds = True
    final = True

    def label(self, settings: Settings) -> str:
        return "quantisation-aware int8" + ("" if settings.activations else " weights")

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting:
        return without_early_stopping(settings, adaptation)  # like the control, `prune` with sparsity 0

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.qat.network import quantised

        return quantised(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        from ptmbench.bench.adapt.transforms.quantisation import attach

        attach(adapted, bool(settings.activations), bool(settings.embeddings))


TRANSFORM = Qat()
