"""Quantisation-aware training in TensorFlow."""

from ptmbench.bench.adapt.transforms import quantisation
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.quantisation import Grid, Rounded


def quantised(material: Material) -> Transformed:
    """Trains the network of ``material`` with rounded weights and inputs, and returns int8 codes and scales.

    Raises `NotApplicable` if no kernel is trained, or if the adaptation changes kernels.
    """
    quantisation.check(material.predictor.network)
    settings = material.settings

    def grids(rounded: Rounded) -> list[Grid]:
        found = []
        for _, variable, rounding in rounded.weights:
            rows = rounding.name == "table_rounding"
            groups = variable.shape[0 if rows else 1] if settings.per_channel else 1
            found.append(Grid(groups=groups, rows=rows))
        return found

    return quantisation.trained(material, grids, settings.calibration)
