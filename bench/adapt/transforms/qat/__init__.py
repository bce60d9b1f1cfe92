"""Quantisation-aware training: the model is fine-tuned further with weights and inputs of products rounded to 8 bits.

Zafrir et al. (2019), "Q8BERT", section 2: with M = 2^(8 - 1) - 1 = 127, a number x becomes the code

    Quantize(x | S) = clamp(round(x S), -M, M)    with S_W = M / max |W| and S_x = M / EMA(max |x|),

EMA being the exponential moving average over training batches. Forward passes compute with Quantize(x | S) / S, and the
gradient passes straight through it (d Quantize(x | S) / S / dx = 1), so that the network learns to answer under the
rounding that its codes will have. All products with kernels and all tables of vectors are quantised; softmax, norms,
activation functions and biases are not. Each tensor has one scale, or each output of a kernel and each row of a table
(``per_channel=1``), as `int8` has it.

The quantizers come from the TensorFlow Model Optimization Toolkit. It begins a moving average at 6 and has a decay
of 0.999, so short trainings would end with a range that is far too wide. Ranges of inputs are therefore calibrated
first: they begin with the largest magnitude in the first ``calibration`` batches.

Zafrir et al. quantise while they fine-tune the pre-trained model. Here, as with every transform, the adapted model is
trained further, so all transforms begin with the same weights. ``prune:sparsity=0`` trains as long without quantising,
for the comparison.

The stored weights are int8 codes. Products are computed in float32 from rounded numbers, so nothing is faster here.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import positive, setting, switch
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import to_the_end


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What ``qat:name=value`` may change."""

    activations: int = switch(1)
    """1: vectors that are multiplied are rounded to 8 bits too; 0: weights alone."""
    per_channel: int = switch(0)
    """1: a scale for each output of a kernel and each row of a table; 0: one for each tensor."""
    embeddings: int = switch(1)
    """1: tables of vectors are quantised too."""
    calibration: int = positive(10)
    """Training batches that the ranges of inputs are calibrated on."""
    epochs: int = positive(5)
    """Passes over the training examples."""
    max_steps: int = setting(0)
    """Training steps at most; 0 is no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate; 0 for the adaptation's."""


class Qat:
    """`bench.adapt.transforms.contract.Transform`; trains."""

    summary = "the model is fine-tuned further with weights and inputs rounded to 8 bits"
    settings = Settings
    version = 1
    compression = "quantization"
    rebuilds = True
    final = True

    def label(self, settings: Settings) -> str:
        return "quantisation-aware int8" + ("" if settings.activations else " weights")

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting:
        return to_the_end(settings, adaptation)  # as the trainings that it is compared with

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.qat.network import quantised

        return quantised(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        from ptmbench.bench.adapt.transforms.quantisation import attach

        attach(adapted, bool(settings.activations), bool(settings.embeddings))


TRANSFORM = Qat()
