"""Post-training int8: the kernels of a trained model as 8-bit integers, without training.

Every output o of a kernel W [I, O] gets its own scale, and weights become codes (Keras's ``quantize("int8")``,
symmetric, by the largest magnitude):

    s_o = 127 / max_i |W_io|,    q_io = round(s_o W_io) in {-127, ..., 127},    W_io is about q_io / s_o

With ``activations=1`` the input vectors of the products are quantised in the same way during inference, each by its own
largest magnitude, and the products are computed with integers. With ``activations=0`` only weights are quantised.
Recurrent kernels are read before the loop over tokens, so only their weights are quantised. Embedding tables get a
scale for each row, as in Keras's ``Embedding``; they are stored as int8 and looked up as float32. Norms, biases and the
head stay float32. Zafrir et al. (2019), "Q8BERT", section 2, also quantise kernels and embeddings symmetrically, but
with one scale for each tensor, and train with quantisation.

On a CPU, Keras's int8 products are slower than float32 products: about half as fast for BERT-base on two cores
without integer instructions. The gain is a smaller checkpoint.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import switch
from ptmbench.bench.adapt.transforms.contract import Material, Transformed


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of ``int8:name=value``."""

    activations: int = switch(1)
    """1: the inputs of the products are int8 too; 0: weights alone."""
    embeddings: int = switch(1)
    """1: embedding tables are stored as int8 too."""


class Int8:
    """A `bench.adapt.transforms.contract.Transform` without training."""

    summary = "kernels become 8-bit integers, without training"
    settings = Settings
    version = 2  # 2: an adaptation's new decoder is quantised too
    compression = "quantization"
    rebuilds = True
    final = True

    def label(self, settings: Settings) -> str:
        return "int8" if settings.activations else "int8 weights"

    def training(self, settings: Settings, adaptation: Adapting) -> None:
        return None

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.int8.network import quantised

        return quantised(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        from ptmbench.bench.adapt.transforms.int8.network import quantise

        quantise(adapted, settings)


TRANSFORM = Int8()
