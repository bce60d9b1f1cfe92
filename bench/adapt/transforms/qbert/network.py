"""Q-BERT in TensorFlow: sensitivities by power iteration, and the assignment of bits."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import loop
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.transforms import kernels, quantisation
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.qbert import Settings
from ptmbench.bench.adapt.transforms.quantisation import Grid, Rounded
from ptmbench.bench.console import progress
from ptmbench.bench.engine.cost import phase

Batch = Mapping[str, Any]


def hessian_product(loss: Callable[[Batch], tf.Tensor], variables: Sequence[tf.Variable]) -> Callable:
    """A function of a batch and one tensor v_i for each variable w_i. For each i, it returns the sum over all j of
    d^2 loss / (d w_i d w_j) v_j."""

    def product(batch: Batch, vectors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                value = loss(batch)
            gradients = inner.gradient(value, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            pairs = zip(gradients, vectors, strict=True)
            total = tf.add_n([tf.reduce_sum(tf.convert_to_tensor(gradient) * vector) for gradient, vector in pairs])
        return outer.gradient(total, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    return tf.function(product, autograph=False, reduce_retracing=True)


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
    counts as two training steps, because it differentiates a forward and a backward pass."""
    adapted, settings, training = material.predictor.network, material.settings, material.training
    variables = [one.kernel.value for one in kernels.products(adapted)]
    product = hessian_product(adapted.loss, variables)
    zeros = [tf.zeros(variable.shape) for variable in variables]
    batches = loop.epoch_batches(material.rows["train"], training.batch, material.seed, 0)[: settings.slices]
    found, flops = np.zeros((len(batches), len(variables))), 0.0
    with progress("measure sensitivities", found.size, "eigenvalues", brief=True) as bar:
        for number, rows in enumerate(batches):
            batch = {name: tf.constant(value) for name, value in stack(rows).items()}
            for place, variable in enumerate(variables):

                def multiplied(vector: np.ndarray, batch: Batch = batch, place: int = place) -> np.ndarray:
                    vectors = [*zeros[:place], tf.constant(vector), *zeros[place + 1 :]]
                    return product(batch, vectors)[place].numpy()

                seed, shape = [material.seed, number, place], variable.shape
                found[number, place], count = top_eigenvalue(multiplied, shape, seed, settings.iterations, 1e-2)
                flops += 2 * count * adapted.training_flops(rows)
                bar.advance()
    return np.abs(found.mean(0)) + found.std(0), flops


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
