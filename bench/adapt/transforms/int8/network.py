"""Int8 in Keras: quantised products, and embedding tables as codes."""

import keras
import numpy as np

from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.transforms import kernels
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.int8 import Settings
from ptmbench.bench.engine import packing
from ptmbench.bench.errors import NotApplicable


def quantise(adapted: Adapted, settings: Settings) -> None:
    """Quantises the products of ``adapted`` with their current weights.

    A quantised network is also loaded in this way, because Keras's loader (version 3.15.1) does not restore that the
    activations of nested layers are not quantised.
    """
    replaced = {}
    for layer in kernels.products(adapted):
        before = id(layer.kernel)
        options = {} if settings.activations else {"activation_quantizer": None}
        layer.quantize("int8", config=keras.quantizers.Int8QuantizationConfig(**options))
        replaced[before] = (layer.kernel, layer.kernel_scale)
    adapted.update_variables(replaced)


def quantised(material: Material) -> Transformed:
    """The weights of the network of ``material`` as int8 codes and scales.

    Raises `NotApplicable` if there is nothing to quantise, or if the adaptation changes kernels during inference.
    """
    source = material.predictor.network
    layers = kernels.products(source)
    tables = kernels.names(source, kernels.tables(source)) if material.settings.embeddings else ()
    if not layers and not tables:
        raise NotApplicable("no-kernels", "because this model has no kernels that could be quantised.")
    if any(layer.extensions("kernel") for layer in layers):
        raise NotApplicable(
            "changed-kernels",
            f"because the adaptation {source.adaptation.name} changes kernels while the model answers.",
        )
    changed, weights = kernels.names(source, [layer.kernel for layer in layers]), source.arrays()
    for name in changed:
        codes, scales = keras.quantizers.AbsMaxQuantizer(axis=0)(weights[name], to_numpy=True)
        weights[name] = np.asarray(codes)
        weights[f"{name}_scale"] = np.squeeze(np.asarray(scales), 0)
    for name in tables:
        codes, scales = keras.quantizers.AbsMaxQuantizer(axis=-1)(weights.pop(name), to_numpy=True)
        weights |= packing.as_codes(name, np.asarray(codes), np.asarray(scales))
    return Transformed(weights, (*changed, *tables))
