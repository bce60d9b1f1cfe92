"""The search of NAS-BERT in TensorFlow: training of the supernet, losses of candidates, and the chosen network."""

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import loop
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.course import Bookmark, Course
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.adapt.parts import check_stepwise
from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.transforms import elastic, units, zeros
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.dynabert.network import Lesson, Teaching, check, sort_units
from ptmbench.bench.adapt.transforms.elastic import SharedBlocks, Subnetwork, Width
from ptmbench.bench.adapt.transforms.further import Learner
from ptmbench.bench.adapt.transforms.nasbert import Settings, candidates
from ptmbench.bench.adapt.transforms.nasbert.candidates import Block
from ptmbench.bench.engine.cost import Traced, phase
from ptmbench.bench.engine.graph import as_graph
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.core import NO_DROP, Drop, Rows
from ptmbench.models.layers.operations import shape
from ptmbench.models.objectives.layer_distillation import vectors_loss

Options = Sequence[Sequence[Width | None]]

_BATCH = 64
"""Texts that measure the candidates together."""


class Searching(Learner):
    """Trains paths through the ``blocks`` of a supernet, each against the same block of the teacher, whose weights
    ``shared`` keeps. ``judged`` are the texts for measuring the losses of candidates.

    Paths depend only on the seed and the step number, and the remaining candidates are part of the training's state. So
    a resumed training gives the same result as an uninterrupted one. The measurements are saved in ``bookmark``.
    """

    def __init__(
        self,
        adapted: Adapted,
        shared: SharedBlocks,
        options: Options,
        blocks: Sequence[Block],
        judged: Sequence[InputRow],
        settings: Settings,
        steps: int,
        bookmark: Bookmark,
    ):
        self.shared, self._options, self.blocks, self._judged = shared, options, blocks, judged
        self._steps, self._bookmark = steps, bookmark
        self.alive = [np.ones(len(block.paths), bool) for block in blocks]
        """For each block, which candidates are left."""
        self._bins = [block.bins(settings.bins) for block in blocks]
        epochs = settings.search_epochs
        self._turns = {round(steps * epoch / epochs) for epoch in range(1, epochs)} - {0, steps}
        self.chosen = tf.Variable(tf.zeros(len(options), tf.int32), trainable=False)
        """For each layer, the number of its option on the path of the next step."""
        self._numbers = [{one: number for number, one in enumerate(option)} for option in options]
        self._graphs: dict[str | int, Traced] = {}
        super().__init__(adapted, adapted.adaptation.step(self.losses, adapted.learning, **adapted.options))

    def make(
        self, rows: Sequence[InputRow], settings: Adapting, seed: tuple[int, int]
    ) -> tuple[Sequence[InputRow], float]:
        """Drops candidates at the end of an epoch, and draws the path for the step in ``seed``."""
        spent = 0.0
        if seed[1] in self._turns:
            losses, spent = self.measured(seed[1])
            self.alive = list(map(candidates.shrunk, losses, self._bins, self.alive))
        rng = np.random.default_rng([seed[0], 9, seed[1]])
        for block, left in zip(self.blocks, self.alive, strict=True):
            self.take(block.begin, block.paths[rng.choice(np.flatnonzero(left))])
        rows, made = self.adapted.make(rows, settings, seed)
        return rows, spent + made

    def losses(self, batch: Mapping[str, Any], seed: Any) -> dict[str, Any]:
        """The sum of the losses of the blocks on the ``chosen`` path."""
        return {"loss": tf.reduce_sum(self._block_losses(batch, seed))}

    def measured(self, step: int) -> tuple[list[np.ndarray], float]:
        """Returns the losses of the remaining candidates of each block (infinity for the others) after ``step`` steps,
        and the FLOPs. A measurement that was stopped resumes."""
        measuring = Measuring(self, self._judged)
        what, count = f"candidates after step {step}", len(measuring.order)
        values, spent = self._bookmark.measure(what, "losses", count, measuring.one)
        found = [np.where(alive, 0.0, np.inf) for alive in self.alive]
        for (_, block, place), value in zip(measuring.order, values, strict=True):
            found[block][place] += value
        return found, spent

    def ready(self, step: int) -> bool:
        return step == self._steps

    def training_flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of a step on ``rows``: one forward pass of the teacher, and three of the path."""
        return self.adapted.forward_flops(rows) + 3 * self._path_flops(rows)

    def memory(self) -> list[np.ndarray]:
        return [*super().memory(), *self.alive]

    def recall(self, memory: Sequence[np.ndarray]) -> None:
        count = len(self.alive)
        super().recall(list(memory[:-count]))
        self.alive = [np.asarray(one, bool) for one in memory[-count:]]

    def take(self, begin: int, path: Subnetwork) -> None:
        """Makes ``path`` the chosen path of the layers from number ``begin`` on."""
        numbers = self.chosen.numpy()
        numbers[begin : begin + len(path)] = [self._numbers[begin + at][width] for at, width in enumerate(path)]
        self.chosen.assign(numbers)

    def run(self, name: str | int, function: Callable, *given: Any) -> Any:
        """Calls ``function`` with ``given`` tensors, as a graph that is traced once for each ``name``."""
        if name not in self._graphs:
            self._graphs[name] = as_graph(function, *given)
        return self._graphs[name](*given)

    def taught(self, batch: Mapping[str, Any]) -> tuple[tf.Tensor, ...]:
        """The hidden states [B, T, D] of the teacher, the bias of all blocks, and the weights [B, T] of tokens in a
        loss."""
        encoder, channels = self.adapted.network.encoder, self.adapted.channels(batch)
        with self.shared.using_copy():
            states = [tf.stop_gradient(x) for x in encoder(channels).layers]
            _, bias = encoder.entered(channels)
        present = tf.cast(tf.not_equal(batch["tokens"], 0), tf.float32)
        return *states, bias, present / tf.reduce_sum(present)

    def forward(self, index: int, x: tf.Tensor, bias: tf.Tensor, drop: Drop = NO_DROP) -> tf.Tensor:
        """The output of layer ``index`` for ``x`` [B, T, D] with the ``chosen`` option."""
        encoder, (count, length) = self.adapted.network.encoder, shape(x)[:2]
        with encoder.stack.detoured(self._layer):
            flat = tf.reshape(x, [-1, encoder.width])
            flat = encoder.stack.step(index, flat, bias, Rows(count, length), drop)
        flat = encoder.ended(flat) if index + 1 == encoder.depth else flat
        return tf.reshape(flat, [count, length, encoder.width])

    def _path_flops(self, rows: Sequence[InputRow]) -> float:
        path = [option[number] for option, number in zip(self._options, self.chosen.numpy(), strict=True)]
        return sum(self.shared.block_flops(width, rows) for width in path if width is not None)

    def _block_losses(self, batch: Mapping[str, Any], seed: Any) -> tf.Tensor:
        """The loss of each block on the ``chosen`` path, [N]."""
        *taught, bias, weights = self.taught(batch)
        drop, found = Drop(self.adapted.network.encoder.dropout, seed, 0), []
        for block in self.blocks:
            x = taught[block.begin]
            for index in range(block.begin, block.end):
                x = self.forward(index, x, bias, drop)
            found.append(vectors_loss(x, taught[block.end], weights))
        return tf.stack(found)

    def _layer(self, block: Any, x: tf.Tensor, index: int, bias: tf.Tensor, rows: Rows, drop: Drop) -> tf.Tensor:
        """The output of layer ``index`` for ``x`` [N, D] with the ``chosen`` option."""

        def option(width: Width | None) -> Callable[[], tf.Tensor]:
            if width is None:
                return lambda: tf.identity(x)
            return lambda: self.shared.block(width, index, x, bias, rows, drop)

        return tf.switch_case(self.chosen[index], list(map(option, self._options[index])))


class Measuring:
    """Measures the losses of the remaining candidates of ``search`` on ``rows``, one after the other.

    A candidate starts from the hidden states after the last layer that it shares with the candidate before it.
    """

    def __init__(self, search: Searching, rows: Sequence[InputRow]):
        rows = sorted(rows, key=lambda row: row.tokens)
        self._search, self._tokens = search, sum(row.tokens for row in rows)
        self._batches = [rows[begin : begin + _BATCH] for begin in range(0, len(rows), _BATCH)]
        self.order = [
            (batch, block, place)
            for batch in range(len(self._batches))
            for block, alive in enumerate(search.alive)
            for place in np.flatnonzero(alive)
        ]
        """For each measurement, the numbers of its batch, block and candidate."""
        self._teacher = lru_cache(maxsize=1)(self._taught)
        self._reached: tuple[int, list[tf.Tensor]] = (-1, [])
        """The number of the last measurement, and the input of its block and the hidden states after its layers."""

    def one(self, number: int) -> tuple[float, float]:
        """Returns the loss of the candidate ``order[number]`` on its batch, as its part of the loss on all texts, and
        the FLOPs: those of the layers that it does not share, and of the teacher for the first candidate of a batch."""
        batch, block_number, place = self.order[number]
        search, block, rows = self._search, self._search.blocks[block_number], self._batches[batch]
        path, shared = block.paths[place], self._shared_layers(number)
        taught, bias, weights, block_flops = self._teacher(batch)
        last, vectors = self._reached
        # After a resumption, the shared layers are computed again, but not counted again.
        vectors = vectors[: shared + 1] if shared and last == number - 1 else [taught[block.begin]]
        search.take(block.begin, path)
        for index in range(block.begin + len(vectors) - 1, block.end):
            vectors.append(search.run(index, partial(search.forward, index), vectors[-1], bias))
        self._reached = number, vectors
        loss = search.run("loss", vectors_loss, vectors[-1], taught[block.end], weights)
        flops = sum(block_flops[width] for width in path[shared:] if width is not None)
        if number == 0 or self.order[number - 1][0] != batch:
            flops += search.adapted.forward_flops(rows)
        return float(loss) * sum(row.tokens for row in rows) / self._tokens, flops

    def _shared_layers(self, number: int) -> int:
        """The number of first layers that a candidate shares with the one before it in the same block and batch."""
        *here, place = self.order[number]
        *before, other = self.order[number - 1] if number else (-1, -1, 0)
        if here != before:
            return 0
        paths = self._search.blocks[here[1]].paths
        return sum(itertools.takewhile(bool, map(operator.eq, paths[other], paths[place])))

    def _taught(self, number: int) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor, dict[Width, float]]:
        """For a batch: the hidden states of the teacher, the bias of all blocks, the weights of tokens in a loss, and
        the FLOPs of a block of each width."""
        search, rows = self._search, self._batches[number]
        batch = {name: tf.convert_to_tensor(array) for name, array in stack(rows).items()}
        *states, bias, weights = search.run("teacher", search.taught, batch)
        return states, bias, weights, {width: search.shared.block_flops(width, rows) for width in search.shared.widths}


def search_and_train(material: Material) -> Transformed:
    """Searches for an architecture for the network of ``material``, trains it, and returns it. Raises `NotApplicable`
    if the layers share their weights or are not a stack, and like `units.check_fits` and `dynabert.network.check`."""
    adapted, settings, rows = check(material), material.settings, material.rows["train"]
    check_stepwise(adapted.network.encoder, "none of them can be searched")
    if adapted.network.encoder.stack.config.shared:
        raise NotApplicable("shared-layers", "because its layers share their weights, so they have one shape.")
    whole = units.shape_of(adapted)
    full = elastic.scaled(whole, 1)
    if whole.layers > 1:  # else it would show only after the search
        weights, left = elastic.extract_subnetwork(adapted, (*full[:-1], None))
        units.check_fits(replace(material.predictor, weights=weights, shape=left))
    options = candidates.choices(whole, [float(one) for one in settings.shares.split("/")])
    if settings.by == "search":
        candidates.check_count(options, settings.block_count(whole.layers))
    initial_weights, course = sort_units(material, "importance", 1000)
    adapted.assign(initial_weights)
    adapted.weights_owner = None
    shared = SharedBlocks(adapted, (width for option in options for width in option if width is not None))
    shared.copy_weights()
    parameters = {width: shared.parameters(width) for width in shared.widths}
    flops = {width: shared.block_flops(width, rows) / len(rows) for width in shared.widths}
    limits = tuple(
        part * sum(costs[width] for width in full)
        for part, costs in ((settings.parameters, parameters), (settings.flops, flops))
    )
    searched = 0.0
    if settings.by == "random":
        chosen = candidates.drawn(options, parameters, flops, limits, material.seed)
    else:
        blocks = candidates.blocks_of(options, settings.block_count(whole.layers), parameters, flops)
        chosen, spent = _search(material, adapted, shared, options, blocks, limits)
        course, searched = course.then(spent), spent.flops
        if settings.start == "adapted":
            adapted.assign(initial_weights)
    course = course.then(_tune(material, adapted, shared, Lesson(full, chosen)))
    kept = [width for width in chosen if width is not None]
    extra_costs = {"layers_kept": len(kept), "heads_kept": sum(one.heads for one in kept), "search_flops": searched}
    weights, left = elastic.extract_subnetwork(adapted, chosen)
    return Transformed(weights, (), course, left, extra_costs)


def _search(
    material: Material,
    adapted: Adapted,
    shared: SharedBlocks,
    options: Options,
    blocks: Sequence[Block],
    limits: tuple[float, float],
) -> tuple[Subnetwork, Course]:
    """Trains the supernet, and returns the architecture with the lowest loss and the cost of the search."""
    settings, rows = material.settings, material.rows["train"]
    training = replace(material.training, epochs=settings.search_epochs)
    judged, steps = material.rows["selection"][: settings.examples], loop.steps_of(rows, training)
    learner = Searching(adapted, shared, options, blocks, judged, settings, steps, material.bookmark)
    zeros.keep(learner, material.predictor)
    with phase("train"):
        course = loop.train(learner, rows, training, material.seed, material.score, material.bookmark)
    losses, spent = learner.measured(course.steps)
    return candidates.selected(blocks, losses, learner.alive, limits), replace(course, flops=course.flops + spent)


def _tune(material: Material, adapted: Adapted, shared: SharedBlocks, lesson: Lesson) -> Course:
    """Trains the student of ``lesson``, and keeps the weights with its best score on the selection split."""
    training = replace(material.training, epochs=material.settings.tuning_epochs)
    weights, left = elastic.extract_subnetwork(adapted, lesson.student)
    smaller = replace(material.predictor, weights=weights, shape=left)
    units.check_fits(smaller)

    def score() -> float:
        smaller.learning.assign(elastic.extract_subnetwork(adapted, lesson.student)[0])
        smaller.learning.weights_owner = None
        return material.score(smaller)

    with phase("train"):
        learner = Teaching(adapted, shared, [lesson], 1.0)
        zeros.keep(learner, material.predictor)
        return loop.train(learner, material.rows["train"], training, material.seed, score, material.bookmark)
