"""A network with a head, traced once and shared by all tasks of the form, all seeds, and the random twin."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import heads, load
from ptmbench.bench.adapt.heads import LAYERS, InputRow, stack
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.adapt.two_steps import TwoSteps
from ptmbench.bench.engine import networks
from ptmbench.bench.engine.cost import Traced
from ptmbench.bench.engine.generate import Generator, Writing
from ptmbench.bench.engine.graph import as_graph
from ptmbench.models.channels import CHANNELS, TEXT
from ptmbench.models.layers.operations import dropout, shape
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Vocabulary
from ptmbench.tasks.forms import Form

_HEAD = 9000
"""The salt of the head's dropout. No place inside an encoder has this salt."""


class Adapted:
    """An encoder, a reading of it, a head, one training step and one forward function, for any batch size and length.
    ``neighbours`` are the extra encoders, which are read but never trained. ``reads`` are the channels that the network
    reads."""

    def __init__(
        self,
        network: Any,
        vocabulary: Vocabulary,
        form: Form,
        adaptation: str,
        outputs: Hashable,
        settings: Settings,
        encoder_flops: Callable[[Sequence[InputRow]], float],
        neighbours: Sequence[Any] = (),
        decoder_flops: Callable[..., float] = lambda *given: 0.0,
        reads: Sequence[str] = TEXT,
    ):
        self.network, self.vocabulary, self.neighbours, self.reads = network, vocabulary, tuple(neighbours), reads
        self.encoder_flops, self.decoder_flops = encoder_flops, decoder_flops
        """FLOPs of one forward pass of all encoders, and of ``decode``, without the parts that the adaptation adds."""
        self.weights_owner: Any = None
        """The predictor whose weights the network has; None during training."""
        self.step: Any = None
        self.adaptation = load(adaptation)
        self.head = heads.of(form, adaptation).Head(outputs)
        self.decoding = self.adaptation.decoding(network, vocabulary, settings) if self.head.writes else None
        pretrained = list(network.loss.variables)
        self.extension = self.adaptation.extend(network, self.decoding, settings)
        self.pretrained = pretrained
        """Variables that a checkpoint of the pre-trained model has."""
        self.freezes = not self.extension.learning
        network.encoder.dropout = 0.0 if self.freezes else settings.dropout
        for other in self.neighbours:
            other.encoder.dropout = 0.0
        self.head_dropout = settings.head_dropout
        self.reading = self.adaptation.reading(network.encoder, settings, *(o.encoder for o in self.neighbours))
        if not self.decoding:
            self._outputs(_example(form, len(self.neighbours)), None)  # makes the variables of the reading and the head
        added = self.decoding.own if self.decoding else [
            *self.reading.trainable_variables, *self.head.trainable_variables
        ]  # fmt: skip
        self.own: list[Any] = [*added, *self.extension.new]
        """Variables that the adaptation adds. Each has an initial value."""
        self.scales: dict[int, Any] = {}
        """Scales of quantised variables, by the index of the variable in ``own``."""
        counted = [*(self.decoding.own if self.decoding else ()), *self.extension.new, *self.reading.branches]
        self.added = sum(int(np.prod(v.shape)) for v in counted)
        """Parameters that the adaptation adds to the network. Heads are not counted, nor readings apart from their
        `branches`."""
        self.uncounted = {name for name, v in self._named_own() if id(v) not in set(map(id, counted))}
        """Names in `arrays` of the variables that ``added`` does not count."""
        deviations = {id(v): _deviation(v) for layer in (self.reading, self.head) for v in layer.glorot}
        deviations |= {id(v): self.extension.deviation for v in self.extension.new}
        self._initial_values = [(v.numpy(), deviations.get(id(v), 0.02)) for v in self.own]
        self.remembered = list(self.decoding.remembered) if self.decoding else []
        """Variables that training changes, but not by gradients."""
        self.learning = list({id(v): v for v in (*added, *self.extension.learning)}.values())
        options = {"weight_decay": settings.weight_decay, "clip": settings.clip, "dynamic": True, "adam": settings.adam}
        self.options = options
        """Options of its training steps."""
        self.step = self.new_step()
        self.first = self.adaptation.first(network, vocabulary, form, **options)
        self._forward: dict[bool, Traced] = {}
        self._evaluate: dict[bool, Traced] = {}
        self._functions: dict[Callable, Traced] = {}
        self._generators: dict[Writing, Generator] = {}
        self.set_prediction_settings(settings, 0)

    def new_step(self) -> Any:
        """A training step with optimizers of its own, and one for the second stage if that has its own variables."""
        step = self.adaptation.step(self.losses, self.learning, **self.options)
        if (above := self.adaptation.second(self.reading, self.head)) is None:
            return step
        return TwoSteps(step, self.adaptation.step(self.losses, above, **self.options))

    def reset(
        self, weights: Mapping[str, np.ndarray], seed: int, neighbours: Sequence[Mapping[str, np.ndarray]] = ()
    ) -> None:
        """Starts anew: assigns the given weights to the network and its neighbours, draws the adaptation's own from
        ``seed``, and resets the optimizer.

        Matrices are drawn from N(0, 0.02), as in BERT's heads, whatever they were built with. Matrices in the
        ``glorot`` of a layer have the variance of Glorot and Bengio, and new ones of an `Extension` have its
        ``deviation``. Vectors keep the values that they were built with.
        """
        self.weights_owner = None
        networks.assign(self.pretrained, weights)
        for network, given in zip(self.neighbours, neighbours, strict=True):
            networks.assign(network.loss.variables, given)
        rng = np.random.default_rng([seed, 1])
        for variable, (value, deviation) in zip(self.own, self._initial_values, strict=True):
            variable.assign(rng.normal(0.0, deviation, value.shape).astype(value.dtype) if value.ndim >= 2 else value)
        if self.decoding:
            self.decoding.begin()
        self.step.reset()

    @property
    def second(self) -> bool:
        """Whether training is in a second stage with variables of its own (`Adaptation.second`)."""
        return self.weights_owner is None and self.staged and self.step.second

    @property
    def staged(self) -> bool:
        """Whether the second stage of training has variables of its own (`Adaptation.second`)."""
        return isinstance(self.step, TwoSteps)

    @property
    def by_loss(self) -> bool:
        """Whether early stopping uses the loss."""
        return self.adaptation.by_loss(self)

    def rate(self, step: int, steps: int, settings: Settings) -> float:
        """The learning rate of ``step`` of ``steps``. Also selects the step of the current stage in a training with
        `TwoSteps`."""
        if self.staged:
            self.step.second = 0 < self.second_stage_start(steps, settings) <= step
        return self.adaptation.rate(self.step, step, steps, settings)

    def make(
        self, rows: Sequence[InputRow], settings: Settings, seed: tuple[int, int]
    ) -> tuple[Sequence[InputRow], float]:
        """Returns the rows that a step trains on, and the FLOPs of making them from ``rows``."""
        return self.adaptation.make(self, rows, settings, seed)

    def ready(self, step: int) -> bool:
        """Whether training may end with the weights after ``step``."""
        return True

    def second_stage_start(self, steps: int, settings: Settings) -> int:
        """The first of ``steps`` that belongs to a second stage of training; 0 for a single stage."""
        return self.adaptation.second_stage_start(steps, settings)

    def set_prediction_settings(self, settings: Settings, seed: int) -> None:
        """Sets the ``settings`` of later predictions, and the ``seed`` of their samples."""
        self.settings = settings
        self.writing, self._longest, self._seed = writing_of(settings), settings.target_length - 1, seed

    def forward_flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of one forward pass over ``rows``; with a decoder, over their whole targets, too."""
        if self.decoding:
            return self.decoder_flops(self.decoding, rows)
        return self._reading_flops(rows) + self.reading.flops(rows) + self._extension_flops(rows)

    def answering_flops(self, rows: Sequence[InputRow], outputs: Sequence[np.ndarray]) -> float:
        """FLOPs of predicting ``rows``. With a decoder, ``outputs`` are the generated ids."""
        if self.decoding:
            return self.decoder_flops(self.decoding, rows, outputs, self.writing.beam)
        return self.forward_flops(rows)

    def training_flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of one step on ``rows``. The backward pass costs twice the forward pass. It does not enter a frozen
        encoder; in a partly frozen one, it computes no gradients of the frozen kernels."""
        if self.second:
            return self.forward_flops(rows) + 3 * self.reading.second_flops(rows)
        spared = 2 if self.freezes else 0 if self.extension.whole else 1
        computed = self.forward_flops(rows) - self.adaptation.skipped_flops(self, rows)
        return 3 * computed - (spared * self._reading_flops(rows) if spared else 0)

    def _reading_flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of the encoder. It does not read rows again that have their `LAYERS`."""
        unread = [row for row in rows if LAYERS not in row.arrays]
        return self.encoder_flops(unread) if unread else 0.0

    def _extension_flops(self, rows: Sequence[InputRow]) -> float:
        return self.extension.flops_per_token * sum(row.tokens for row in rows) if self.extension.flops_per_token else 0

    def state(self) -> list[np.ndarray]:
        return [v.numpy() for v in self.learning]

    def restore(self, state: list[np.ndarray]) -> None:
        for variable, value in zip(self.learning, state, strict=True):
            variable.assign(value)

    def memory(self) -> list[np.ndarray]:
        """Variables other than weights that the next steps depend on."""
        return [v.numpy() for v in self.remembered]

    def recall(self, memory: list[np.ndarray]) -> None:
        for variable, value in zip(self.remembered, memory, strict=True):
            variable.assign(value)

    def named_variables(self) -> list[tuple[str, Any]]:
        """(name in `arrays`, variable) of all variables of the network and the adaptation."""
        return [*((variable.path, variable) for variable in self.pretrained), *self._named_own()]

    def _named_own(self) -> list[tuple[str, Any]]:
        own = [(f"adapted/{i:03d}", variable) for i, variable in enumerate(self.own)]
        return own + [(f"adapted/{i:03d}_scale", variable) for i, variable in self.scales.items()]

    def update_variables(self, replaced: Mapping[int, tuple[Any, Any]]) -> None:
        """Updates the lists of variables after layers have replaced variables that they were built with. ``replaced``
        maps the `id` of a replaced variable to the new kernel and its scales."""
        for place, variable in enumerate(self.own):
            if id(variable) in replaced:
                self.own[place], self.scales[place] = replaced[id(variable)]
        own = {id(variable) for variable in (*self.own, *self.scales.values())}
        self.pretrained = [variable for variable in self.network.loss.variables if id(variable) not in own]

    def arrays(self) -> dict[str, np.ndarray]:
        """All weights by name, for a checkpoint: those of the network, its neighbours and the adaptation."""
        found = {name: variable.numpy() for name, variable in self.named_variables()}
        for number, other in enumerate(self.neighbours, 1):
            weights = networks.weights(other.loss.variables)
            found |= {_neighbour_variable(number, name): value for name, value in weights.items()}
        return found

    def assign(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Sets all weights to the arrays that `arrays` returned."""
        networks.assign(self.pretrained, arrays)
        for number, other in enumerate(self.neighbours, 1):
            theirs = _neighbour_variable(number, "")
            given = {name.removeprefix(theirs): array for name, array in arrays.items() if name.startswith(theirs)}
            networks.assign(other.loss.variables, given)
        for name, variable in self._named_own():
            variable.assign(arrays[name])

    def forward(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """The head's output for a batch; for generation, the ids [B, S] of the best text."""
        if self.decoding:
            write = partial(self.write, self.writing, longest=self._longest, seed=self._seed)
            return self.decoding.written(batch, write)
        read = LAYERS in batch
        if read not in self._forward:
            self._forward[read] = as_graph(self.predicted, batch)
        return self._forward[read]({k: tf.convert_to_tensor(v) for k, v in batch.items()}).numpy()

    def answered(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """The output for a batch that the codec reads."""
        return self.adaptation.numbers(self, batch)

    def run(self, function: Callable, batch: Mapping[str, np.ndarray], number: float = 0.0) -> Any:
        """Returns ``function(self, batch, number)``, an array or a nest of arrays. The function is traced once for all
        batches and numbers."""
        if function not in self._functions:
            self._functions[function] = as_graph(partial(function, self), batch, np.float32(number))
        inputs = {k: tf.convert_to_tensor(v) for k, v in batch.items()}
        found = self._functions[function](inputs, tf.constant(number, tf.float32))
        return tf.nest.map_structure(lambda x: x.numpy(), found)

    def write(self, writing: Writing, inputs: Mapping[str, np.ndarray], longest: int, seed: int) -> np.ndarray:
        """Returns the ids [B, S] of the best text of at most ``longest`` tokens for each row of ``inputs``. Reads
        ``tokens`` [B, T] and the encoder's channels. Samples depend on ``seed``."""
        if writing not in self._generators:
            self._generators[writing] = Generator(self.decoding, self.vocabulary, writing)
        channels = {name: inputs[name] for name in self.reads if name in inputs and name not in TEXT}
        return self._generators[writing](inputs["tokens"], longest, seed, channels).ids[:, 0]

    def mean_loss(self, rows: Sequence[InputRow], size: int = 64) -> float:
        """The loss on ``rows`` without dropout, a mean over batches."""
        if self.second not in self._evaluate:
            self._evaluate[self.second] = as_graph(lambda b: self.losses(b, None)["loss"], stack(rows[:1]))
        evaluate = self._evaluate[self.second]
        batches = [stack(rows[i : i + size]) for i in range(0, len(rows), size)]
        return float(np.mean([evaluate({k: tf.convert_to_tensor(v) for k, v in b.items()}).numpy() for b in batches]))

    def loss(self, batch: Mapping[str, Any]) -> tf.Tensor:
        """The loss of a ``batch`` of tensors without dropout. Its gradients also pass through a frozen encoder."""
        return self.adaptation.loss(self, self._outputs(batch, None, through=True), batch, None)

    def losses(self, batch: Mapping[str, Any], seed: Any) -> dict[str, Any]:
        """The "loss" that training minimises. Without dropout if ``seed`` is None, and in a second stage with variables
        of its own."""
        seed = None if self.second else seed
        if self.decoding:
            return {"loss": self.adaptation.loss(self, self.decoding.decode(batch, seed), batch, seed)}
        encoding = self.encoded(batch, seed)
        loss = self.adaptation.loss(self, self.head_output(encoding, batch, seed), batch, seed)
        inner = self.adaptation.layer_loss(self, encoding, batch)
        return {"loss": loss if inner is None else loss + inner}

    def _outputs(self, batch: Mapping[str, Any], seed: Any, through: bool = False) -> Any:
        """The head's output. With ``through``, gradients also pass through a frozen encoder."""
        if self.decoding:
            return self.decoding.decode(batch, seed)
        return self.head_output(self.encoded(batch, seed, through), batch, seed)

    def encoded(self, batch: Mapping[str, Any], seed: Any = None, through: bool = False) -> Encoding:
        """The encoding of ``batch``. With ``through``, gradients also pass through a frozen encoder."""
        if LAYERS in batch:
            return self._known(batch)
        encoding = self.network.encoder(self._texts(batch), seed=seed)
        return _stop_gradients(encoding) if (self.freezes or self.second) and not through else encoding

    def _known(self, batch: Mapping[str, Any]) -> Encoding:
        """The encoding of rows that have their `LAYERS`, without a pooled vector."""
        *rest, _ = shape(batch[LAYERS])
        width = self.network.encoder.width
        texts = tf.reshape(batch[LAYERS], [-1, rest[-1], self.reading.read * width])  # as `_texts`
        layers = tf.split(texts, self.reading.read, axis=-1)
        return Encoding(layers[-1], None, tuple(layers))

    def head_output(self, encoding: Encoding, batch: Mapping[str, Any], seed: Any = None) -> Any:
        """The head's output for the ``encoding`` of ``batch``."""
        inputs, others = self._texts(batch), []
        for number, other in enumerate(self.neighbours, 1):
            theirs = {name: batch[f"{name}_{number}"] for name in CHANNELS if f"{name}_{number}" in batch}
            others.append(_stop_gradients(other.encoder(theirs)))
        reading = self.reading(encoding, {**batch, **inputs}, *others)
        read = enumerate((reading.tokens, reading.pooled))
        tokens, pooled = (dropout(x, self.head_dropout, seed, _HEAD + number) for number, x in read)
        return self.head(reading._replace(tokens=tokens, pooled=pooled), batch)

    def _texts(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The `channels` of ``batch`` with one text in each row: texts side by side, [B, C, T], become [B * C, T]."""
        inputs = self.channels(batch)
        if len(inputs["tokens"].shape) == 3:
            inputs = {name: tf.reshape(value, [-1, *shape(value)[2:]]) for name, value in inputs.items()}
        return inputs

    def channels(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays of ``batch`` that the encoder reads."""
        return {name: value for name, value in batch.items() if name in CHANNELS}

    def predicted(self, batch: Mapping[str, Any]) -> Any:
        """The computation of `forward`, with tensors."""
        return self.head.predicted(self._outputs(batch, None), batch)


def writing_of(settings: Settings) -> Writing:
    """How texts are generated with these ``settings``: one sample, or the best text of a beam search."""
    return Writing(
        beam=1 if settings.sample else settings.beam,
        length_penalty=settings.length_penalty,
        coverage=settings.coverage,
        no_repeat_ngram=settings.no_repeat_ngram,
        sample=bool(settings.sample),
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
    )


def _stop_gradients(encoding: Encoding) -> Encoding:
    """The same ``encoding``, without gradients to the encoder."""
    return Encoding(*tf.nest.map_structure(tf.stop_gradient, tuple(encoding)))


def _deviation(matrix: Any) -> float:
    """Standard deviation of the initial values of ``matrix`` [..., inputs, outputs] (Glorot and Bengio, 2010, equation
    12)."""
    return (2 / sum(matrix.shape[-2:])) ** 0.5


def _neighbour_variable(number: int, name: str) -> str:
    """The name among all weights of the variable ``name`` of the ``number``-th neighbour."""
    return f"beside_{number}/{name}"


def _example(form: Form, neighbours: int) -> dict[str, np.ndarray]:
    """A minimal batch, with which the variables are created."""
    tokens = np.full((2, 2, 8) if form in (Form.CHOICE, Form.FEW_SHOT, Form.RANKING) else (2, 8), 5, np.int32)
    scalar = np.zeros(2, np.int32)
    beside = {f"firsts_{number}": tokens * 0 for number in range(neighbours + 1)}
    for number in range(1, neighbours + 1):
        beside |= {f"tokens_{number}": tokens, f"segments_{number}": tokens * 0}
    return beside | {
        "tokens": tokens, "segments": tokens * 0, "inside": tokens * 0 + 1, "tags": tokens * 0,
        "label": scalar, "choice": scalar, "answer": scalar, "starts": tokens * 0, "ends": tokens * 0 + 1,
        "marks": np.zeros((2, 2, 2), np.int32), "classes": scalar[:, None], "others": scalar[:, None],
        "task": scalar, "places": tokens * 0,
        "unused": np.zeros((2, 4096), np.float32),
    }  # fmt: skip
