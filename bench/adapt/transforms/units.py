"""Attention heads and feed-forward neurons: their importance, and the network without some of them.

Michel, Levy and Neubig (2019), "Are Sixteen Heads Really Better than One?", section 4.1. A head h is multiplied by a
gate xi_h = 1. Its importance is the sensitivity of the loss to this gate,

    I_h = E_x |dL(x) / dxi_h| = E_x |Att_h(x)^T dL(x) / dAtt_h(x)|                                (equation 2)

where x is a training example, Att_h(x) is the output of the head for all of its tokens, and L(x) is its loss. The
activations of a feed-forward layer have gates too, one for each neuron. The importances of a block are divided by the
root of the sum of their squares, as in the authors' code, so that blocks can be compared. The authors' code takes the
magnitude for each token of x before it adds them; this module follows the equation. The loss of a batch is a mean, so
L(x) is the loss of the batch times its number of examples. In tagging, the loss is a mean over the words of a batch, so
that sentences weigh as in training: in proportion to their length, relative to the batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import loop, shapes
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.course import Course
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.adapt.predictor import Trained
from ptmbench.bench.adapt.shapes import StackShape
from ptmbench.bench.adapt.transforms import kernels, zeros
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import Learner
from ptmbench.bench.console import progress
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.engine.graph import as_graph
from ptmbench.bench.errors import NotApplicable

KeptUnits = Sequence[np.ndarray]
"""The numbers of the units that are kept in each block, in their order."""


def shape_of(adapted: Adapted) -> StackShape:
    """The shape of the stack of ``adapted``. Raises `NotApplicable` if it cannot be changed."""
    config = getattr(adapted.network.encoder, "config", None)
    if reason := shapes.obstacle(config):
        raise NotApplicable("other-blocks", f"because {reason}")
    if adapted.decoding:
        raise NotApplicable("decoder", "because a decoder answers this task, and only encoders are made smaller.")
    kernels.check_blocks_used(adapted)
    if adapted.reading.branches:
        raise NotApplicable(
            "branches", f"because the adaptation {adapted.adaptation.name} answers from every layer of the network."
        )
    for block in adapted.network.encoder.stack.blocks:
        parts = (block, block.attention, *_products(block))
        if any(part.extensions(seam) for part in parts for seam in part.SEAMS):
            raise NotApplicable(
                "extended-blocks", f"because the adaptation {adapted.adaptation.name} adds weights to the blocks."
            )
    return shapes.of(config.stack)


class Tap(keras.layers.Layer):
    """An extension that returns its input and records it while a graph is traced."""

    def __init__(self) -> None:
        super().__init__(autocast=False)
        self.seen: list[tf.Tensor] = []
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        self.seen.append(x)
        return x


def importance(adapted: Adapted, rows: Sequence[InputRow], part: str, batch: int = 32) -> list[np.ndarray]:
    """The importance of the units of each block, float64 [U]. ``part`` is "heads" or "inner" (dimensions)."""
    blocks = adapted.network.encoder.stack.blocks
    units = getattr(shape_of(adapted), part)
    places = [block.attention.projection if part == "heads" else block.feed_forward.outer for block in blocks]
    taps = [Tap() for _ in places]
    for place, tap in zip(places, taps, strict=True):
        place.attach("input", tap)

    def slopes(batch: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        """dL / dxi of each example of ``batch``, [B, U] for each block."""
        with tf.GradientTape() as tape:
            loss = adapted.loss(batch)
        every = tape.gradient(loss, [tap.seen for tap in taps])  # several tensors for a shared block
        examples = tf.shape(batch["tokens"])[0]
        found = []
        for tap, gradients, count in zip(taps, every, units, strict=True):
            products = tf.add_n([x * g for x, g in zip(tap.seen, gradients, strict=True) if g is not None])
            split = tf.reshape(products, [examples, -1, count, products.shape[-1] // count])
            found.append(tf.cast(examples, tf.float32) * tf.reduce_sum(tf.cast(split, tf.float32), axis=[1, 3]))
        return found

    try:
        traced = as_graph(slopes, stack(rows[:1]))
        totals = [np.zeros(count) for count in units]
        with progress("measure importance", len(rows), "examples", brief=True) as bar:
            for begin in range(0, len(rows), batch):
                some = rows[begin : begin + batch]
                found = traced({name: tf.convert_to_tensor(x) for name, x in stack(some).items()})
                totals = [total + np.abs(one.numpy()).sum(0) for total, one in zip(totals, found, strict=True)]
                bar.advance(len(some))
    finally:
        for place, tap in zip(places, taps, strict=True):
            place.detach("input", tap)
    return [total / np.linalg.norm(total) if total.any() else total for total in totals]


def best(scores: Sequence[np.ndarray], share: float, together: bool) -> list[np.ndarray]:
    """The units of each block that are kept when the ``share`` with the lowest ``scores`` is removed (rounded down).
    The share is taken of all blocks ``together`` or of each block. The best unit of a block is always kept, as in the
    authors' code with ``--at_least_x_heads_per_layer 1``. Raises `NotApplicable` if too few others are left to remove.
    """
    if not together:
        return [best([one], share, True)[0] for one in scores]
    places = [(block, unit) for block, one in enumerate(scores) for unit in range(len(one))]
    count = int(share * len(places) + 1e-9)
    safe = {(block, int(np.argmax(one))) for block, one in enumerate(scores)}
    ranked = [place for place in sorted(places, key=lambda at: scores[at[0]][at[1]]) if place not in safe]
    if count > len(ranked):
        raise NotApplicable(
            "few-units",
            f"because {count} of {len(places)} are to be removed, and one of each of {len(scores)} blocks stays. Set a "
            "lower share.",
        )
    gone = set(ranked[:count])
    return [np.array([u for u in range(len(one)) if (b, u) not in gone], int) for b, one in enumerate(scores)]


def cuts(adapted: Adapted, part: str, number: int, chosen: np.ndarray) -> list[tuple[Any, int, np.ndarray]]:
    """The variables that change when only the ``chosen`` units of block ``number`` are kept. Each comes with an axis
    and the places along it that are kept, in the order of ``chosen``."""
    block = adapted.network.encoder.stack.blocks[number]
    if part == "heads":
        size = block.attention.projection.config.inputs // shape_of(adapted).heads[number]
        inputs, outputs, copies = block.attention.query_key_value, block.attention.projection, 3
    else:
        size, inputs, outputs = 1, block.feed_forward.inner, block.feed_forward.outer
        copies = 2 if block.feed_forward.config.gated else 1
    rows = (chosen[:, None] * size + np.arange(size)).ravel()
    columns = np.concatenate([rows + copy * outputs.config.inputs for copy in range(copies)])
    found = ((inputs.kernel, 1, columns), (inputs.bias, 0, columns), (outputs.kernel, 0, rows))
    return [one for one in found if one[0] is not None]


def keep_units(
    adapted: Adapted, part: str, kept: KeptUnits, weights_so_far: Mapping[str, np.ndarray] | None = None
) -> tuple[dict[str, np.ndarray], StackShape]:
    """The weights of ``adapted`` with only the ``kept`` units of each block, in their order, and the new shape.
    ``weights_so_far`` has the weights if units of the other kind were removed before."""
    shape, weights = shape_of(adapted), dict(adapted.arrays() if weights_so_far is None else weights_so_far)
    for number, chosen in enumerate(kept):
        for variable, axis, places in cuts(adapted, part, number, chosen):
            (name,) = kernels.names(adapted, [variable])
            weights[name] = np.take(weights[name], places, axis=axis)
    return weights, replace(shape, **{part: tuple(len(chosen) for chosen in kept)})


def keep_layers(
    adapted: Adapted, kept: Sequence[int], so_far: tuple[Mapping[str, np.ndarray], StackShape] | None = None
) -> tuple[dict[str, np.ndarray], StackShape]:
    """The weights of ``adapted`` with only the ``kept`` layers, and the new shape. A shared block is applied once for
    each kept layer. If units were removed before, ``so_far`` has the weights and the shape without them."""
    found, shape = (adapted.arrays(), shape_of(adapted)) if so_far is None else so_far
    weights, stack = dict(found), adapted.network.encoder.stack
    shape_left = replace(shape, layers=len(kept))
    if stack.config.shared:
        return weights, shape_left
    moved = {}
    for number, block in enumerate(stack.blocks):
        for variable in block.variables:
            (name,) = kernels.names(adapted, [variable])
            array = weights.pop(name)
            if number in kept:
                place = f"{stack.path}/layer_{kept.index(number)}"
                moved[place + variable.path.removeprefix(block.path)] = array
    left = {part: tuple(getattr(shape, part)[number] for number in kept) for part in ("heads", "inner")}
    return weights | moved, replace(shape_left, **left)


def check_fits(smaller: Trained) -> None:
    """Raises `NotApplicable` if the weights of ``smaller`` do not fit its network, because the adaptation has weights
    for removed parts."""
    expected = {name: tuple(variable.shape) for name, variable in smaller.learning.named_variables()}
    if expected != {name: array.shape for name, array in smaller.weights.items() if name in expected}:
        raise NotApplicable(
            "weights-by-layer", f"because the adaptation {smaller.method} has weights of its own for each layer."
        )


def train_further(
    material: Material, weights: Mapping[str, np.ndarray], shape: StackShape, spent: Course
) -> Transformed:
    """The smaller network with these ``weights``, after further training for the ``epochs`` of the settings. ``spent``
    is the cost so far. Raises `NotApplicable` like `check_fits`."""
    smaller = replace(material.predictor, weights=weights, shape=shape)
    check_fits(smaller)
    if not material.settings.epochs:
        return Transformed(weights, (), spent, shape)
    adapted = smaller.network
    adapted.weights_owner = None
    adapted.step.reset()
    learner, rows = Learner(adapted), material.rows["train"]
    zeros.keep(learner, material.predictor)
    with phase("train"):
        course = loop.train(
            learner, rows, material.training, material.seed, lambda: material.score(smaller), material.bookmark
        )
    return Transformed(adapted.arrays(), (), spent.then(course), shape)


def _products(block: Any) -> Iterator[Any]:
    yield from (block.attention.query_key_value, block.attention.projection)
    yield from (block.feed_forward.inner, block.feed_forward.outer)
