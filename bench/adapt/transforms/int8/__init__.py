"""Post-training int8: the kernels of a trained model as 8-bit integers. Nothing is trained.

Every output o of a kernel W [I, O] gets a scale of its own, and weights become codes (Keras's ``quantize("int8")``,
symmetric, by the largest magnitude):

    s_o = 127 / max_i |W_io|,    q_io = round(s_o W_io) in {-127, ..., 127},    W_io is about q_io / s_o

With ``activations=1`` the vectors that are multiplied are quantised in the same way while the model answers, each by
its own largest magnitude, and the products are of integers; with ``activations=0`` only weights are. Kernels of
recurrent layers are read before the loop over tokens, so there only weights are. Tables of vectors get a scale for each
row, as Keras's ``Embedding`` has it; they are stored as int8 and looked up as float32. Norms, biases and the head stay
float32. Zafrir et al. (2019), "Q8BERT", section 2, quantise kernels and embeddings symmetrically too, with one scale
for each tensor, and train under it.

On a processor, Keras's int8 products are slower than float32 products: about half as fast for BERT-base on two cores
without integer instructions for it. What is gained is the size of the checkpoint.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import switch
from ptmbench.bench.adapt.transforms.contract import Material, Transformed


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What ``int8:name=value`` may change."""

    activations: int = switch(1)
    """1: vectors that are multiplied are int8 too; 0: weights alone."""
    embeddings: int = switch(1)
    """1: tables of vectors are stored as int8 too."""


class Int8:
    """`bench.adapt.transforms.contract.Transform`; trains nothing."""

    summary = "kernels become 8-bit integers, without training"
    settings = Settings
    version = 2  # since the decoder that an adaptation adds is quantised too
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
