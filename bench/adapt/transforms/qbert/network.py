"""Q-BERT in TensorFlow: sensitivities by power iteration, and the assignment of bits."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import loop
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.transforms import kernels, quantisation
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.qbert import Settings
from ptmbench.bench.adapt.transforms.quantisation import Grid, Rounded
from ptmbench.bench.engine.cost import Traced, phase
from ptmbench.bench.engine.graph import as_graph

Batch = Mapping[str, Any]


def hessian_product(loss: Callable[[Batch], tf.Tensor], variable: tf.Variable) -> Callable:
    """A function of a batch and a tensor v of the shape of ``variable`` w. It returns H v, where H is the matrix of the
    second derivatives of the ``loss`` with respect to w."""

    def product(batch: Batch, vector: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                value = loss(batch)
            gradient = inner.gradient(value, variable, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            total = tf.reduce_sum(tf.convert_to_tensor(gradient) * vector)
        return outer.gradient(total, variable, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    return product


def top_eigenvalue(
    product: Callable[[np.ndarray], np.ndarray], shape: Sequence[int], seed: Any, iterations: int, tolerance: float
) -> tuple[float, int]:
    """The eigenvalue of largest magnitude of a symmetric matrix, and the number of products. ``product`` multiplies the
    matrix by a vector.

    The power iteration starts from a random vector. It ends when the relative change of the Rayleigh quotient is at
    most ``tolerance``, or after ``iterations`` products.
    """
    vector = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    found = 0.0
    for count in range(1, iterations + 1):
        vector /= np.linalg.norm(vector)
        multiplied = product(vector)
        before, found = found, float(np.sum(vector * multiplied))
        if not multiplied.any():
            return 0.0, count
        if abs(found - before) <= tolerance * abs(found):
            return found, count
        vector = multiplied
    return found, iterations


def sensitivities(material: Material) -> tuple[np.ndarray, float]:
    """Omega of each of the `kernels.products` of the network of ``material``, and the FLOPs. A product with the Hessian
    counts as two training steps, because it differentiates a forward and a backward pass. For one kernel it takes less,
    because weights of other kernels need no gradients."""
    adapted, settings, training = material.predictor.network, material.settings, material.training
    variables = [one.kernel.value for one in kernels.products(adapted)]
    batches = loop.epoch_batches(material.rows["train"], training.batch, material.seed, 0)[: settings.slices]

    @lru_cache(maxsize=1)
    def product(place: int) -> Traced:
        """The product with the Hessian of one kernel. Only the last graph stays in memory."""
        variable = variables[place]
        return as_graph(hessian_product(adapted.loss, variable), stack(batches[0]), tf.zeros(variable.shape))

    def eigenvalue(number: int) -> tuple[float, float]:
        """The eigenvalue of one kernel on one batch, and the FLOPs. All batches of a kernel follow each other."""
        place, slice_number = divmod(number, len(batches))
        rows, seed = batches[slice_number], [material.seed, slice_number, place]
        batch = {name: tf.constant(array) for name, array in stack(rows).items()}

        def multiplied(vector: np.ndarray) -> np.ndarray:
            return product(place)(batch, tf.constant(vector)).numpy()

        found, count = top_eigenvalue(multiplied, variables[place].shape, seed, settings.iterations, 1e-2)
        return found, 2 * count * adapted.training_flops(rows)

    count = len(variables) * len(batches)
    found, flops = material.bookmark.measure("sensitivities", "eigenvalues", count, eigenvalue)
    found = found.reshape(len(variables), len(batches))
    return np.abs(found.mean(1)) + found.std(1), flops


def bits_of(sizes: Sequence[int], order: Sequence[int], settings: Settings) -> list[int]:
    """The bits of kernels with these ``sizes``. Kernels get ``settings.high`` bits in this ``order``, unless the mean
    over all weights would exceed ``settings.mean``."""
    found = [settings.low] * len(sizes)
    spare = (settings.mean - settings.low) * sum(sizes)
    for place in order:
        more = (settings.high - settings.low) * sizes[place]
        if more <= spare:
            found[place], spare = settings.high, spare - more
    return found


def groups_of(outputs: int, most: int) -> int:
    """The largest number of groups, at most ``most``, that divides ``outputs``."""
    return next(groups for groups in range(min(most, outputs), 0, -1) if outputs % groups == 0)


def quantised(material: Material) -> Transformed:
    """Assigns bits to the kernels of the network of ``material``, and trains it further with these bits.

    Raises `NotApplicable` if no kernel is trained, or if the adaptation changes kernels.
    """
    source, settings, flops = material.predictor.network, material.settings, 0.0
    quantisation.check(source)
    shapes = [one.kernel.shape for one in kernels.products(source)]
    if settings.by == "random":
        order = np.random.default_rng([material.seed, 3]).permutation(len(shapes))
    else:
        with phase("train"):
            omega, flops = sensitivities(material)
        order = np.argsort(omega if settings.by == "reversed" else -omega, kind="stable")
    bits = bits_of([int(np.prod(shape)) for shape in shapes], order, settings)
    grids = [Grid(each, groups_of(shape[1], settings.groups), False) for each, shape in zip(bits, shapes, strict=True)]

    def all_grids(rounded: Rounded) -> list[Grid]:
        tables = rounded.weights[len(grids) :]
        return grids + [Grid(settings.embeddings, variable.shape[0], False, True) for _, variable, _ in tables]

    made = quantisation.trained(material, all_grids, settings.calibration)
    made.course.flops += flops
    return made
