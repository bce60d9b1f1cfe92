"""A network under a head, traced once and used by every task of the form, every seed, and the random twin alike."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench import models
from ptmbench.bench import cost
from ptmbench.bench.adapt import NoDecoder, heads, load
from ptmbench.bench.adapt.heads import Row, stack
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.cost import Traced
from ptmbench.bench.engine import networks
from ptmbench.bench.engine.rates import rate_at
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.generate import Generator, Writing
from ptmbench.bench.neighbours import Neighbour
from ptmbench.models.architectures.parts import dropout
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks.forms import Form

_HEAD = 9000
"""The salt of the head's dropout, which no place inside an encoder has."""


class Adapted:
    """An encoder, a reading of it, a head, one training step and one forward function, all with free batch size and
    length."""

    def __init__(
        self,
        network: Any,
        vocabulary: Vocabulary,
        form: Form,
        adaptation: str,
        outputs: Hashable,
        settings: Settings,
        forward_flops: Callable[[Sequence[Row]], float],
        neighbours: Sequence[Any] = (),
    ):
        self.network, self.vocabulary, self.forward_flops = network, vocabulary, forward_flops
        self.neighbours = tuple(neighbours)
        """Networks that are read besides, and never learn."""
        self.frozen_flops = forward_flops
        """Of ``forward_flops``, those of an encoder that does not learn."""
        self.freezes = settings.FREEZES
        self.adaptation = load(adaptation)
        self.head = heads.of(form, adaptation).Head(outputs)
        self.decoding: Any = None
        """What writes: ``decode`` and ``writer`` of the network, or of the adaptation; None under other heads."""
        build = getattr(self.adaptation, "Decoding", None)
        if getattr(self.head, "writes", False):
            if build is None and network.decode is None:
                raise NoDecoder
            self.decoding = build(network, vocabulary, settings) if build else network
        network.encoder.dropout = 0.0 if self.freezes else settings.dropout
        for other in self.neighbours:
            other.encoder.dropout = 0.0
        self.head_dropout = getattr(settings, "head_dropout", 0.0)
        self.reading = self.adaptation.Reading(network.encoder, settings, *(o.encoder for o in self.neighbours))
        self.own: list[Any] = self.decoding.own if self.decoding and build else []
        """Variables that the adaptation adds, with a value to begin from."""
        if not self.decoding:
            self._outputs(_example(form, len(self.neighbours)), None)  # makes the variables of the reading and the head
            self.own = [*self.reading.trainable_variables, *self.head.trainable_variables]
        scaled = {id(v) for layer in (self.reading, self.head) for v in getattr(layer, "glorot", ())}
        self._beginning = [(v.numpy(), _deviation(v) if id(v) in scaled else 0.02) for v in self.own]
        self.remembered: list[Any] = getattr(self.decoding, "remembered", [])
        """Variables that no gradient changes, but training does."""
        self.learning = list(self.own)
        if not self.freezes:
            inside = network.loss if self.decoding and not self.own else network.encoder  # what writes is in the loss
            self.learning += inside.trainable_variables
        options = {"weight_decay": settings.weight_decay, "clip": settings.clip, "dynamic": True}
        options["adam"] = getattr(settings, "adam", None)  # nothing learns by it under other settings
        self.step = getattr(self.adaptation, "Step", TrainStep)(self._loss, self.learning, **options)
        # An adaptation may have the network learn something else first: (rows, settings, seed, bookmark) to a `Course`.
        first = getattr(self.adaptation, "First", None)
        self.first = first(network, vocabulary, form, **options) if first else None
        self.counts: Any = None
        """What has the ``decode_flops`` of ``decoding``."""
        self._forward: Any = None
        self._evaluate: Any = None
        self._generators: dict[Writing, Generator] = {}
        self.writes(settings, 0)

    def reset(
        self, weights: Mapping[str, np.ndarray], seed: int, neighbours: Sequence[Mapping[str, np.ndarray]] = ()
    ) -> None:
        """Begin anew: the weights of the network and its neighbours as given, the adaptation's own drawn from ``seed``
        (matrices by N(0, 0.02) as BERT's heads, those that a layer names in its ``glorot`` by the variance of Glorot
        and Bengio, whatever they were built with), the optimizer empty."""
        for network, given in zip((self.network, *self.neighbours), (weights, *neighbours), strict=True):
            networks.assign(network.loss.variables, given)
        rng = np.random.default_rng([seed, 1])
        for variable, (value, deviation) in zip(self.own, self._beginning, strict=True):
            variable.assign(rng.normal(0.0, deviation, value.shape).astype(value.dtype) if value.ndim >= 2 else value)
        if self.decoding and self.decoding is not self.network:
            self.decoding.begin()
        self.step.reset()

    def rate(self, step: int, steps: int, settings: Settings) -> float:
        """The learning rate of ``step`` of ``steps``."""
        own = getattr(self.adaptation, "rate", None)
        if own:
            return own(self.step, step, steps, settings)
        return rate_at(step, steps, peak=settings.learning_rate, warmup=settings.warmup)

    def make(self, rows: Sequence[Row], settings: Settings, seed: tuple[int, int]) -> tuple[Sequence[Row], float]:
        """What a step learns from, and the FLOPs of making it: ``rows``, or what the adaptation makes of them with the
        weights of the moment and the step's ``seed``."""
        own = getattr(self.adaptation, "make", None)
        return own(self, rows, settings, seed) if own else (rows, 0.0)

    def turn(self, steps: int, settings: Settings) -> int:
        """The step of ``steps`` that a second stage of training begins with; 0 where there is one stage."""
        own = getattr(self.adaptation, "turn", None)
        return own(steps, settings) if own else 0

    def writes(self, settings: Settings, seed: int) -> None:
        """From now on texts are written as ``settings`` say; samples follow from ``seed``."""
        self.writing, self._longest, self._seed = writing_of(settings), settings.target_length - 1, seed

    def training_flops(self, rows: Sequence[Row]) -> float:
        """FLOPs of one step on ``rows``: the backward pass takes twice the forward pass, and a frozen encoder none."""
        return 3 * self.forward_flops(rows) - (2 * self.frozen_flops(rows) if self.freezes else 0)

    def state(self) -> list[np.ndarray]:
        return [v.numpy() for v in self.learning]

    def restore(self, state: list[np.ndarray]) -> None:
        for variable, value in zip(self.learning, state, strict=True):
            variable.assign(value)

    def memory(self) -> list[np.ndarray]:
        """What besides weights the next steps depend on."""
        return [v.numpy() for v in self.remembered]

    def recall(self, memory: list[np.ndarray]) -> None:
        for variable, value in zip(self.remembered, memory, strict=True):
            variable.assign(value)

    def arrays(self) -> dict[str, np.ndarray]:
        """All weights by name, the networks' and the adaptation's own, for a checkpoint."""
        own = {f"adapted/{i:03d}": variable.numpy() for i, variable in enumerate(self.own)}
        for number, other in enumerate(self.neighbours, 1):
            own |= {_beside(number, name): value for name, value in networks.weights(other.loss.variables).items()}
        return networks.weights(self.network.loss.variables) | own

    def assign(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set all weights from what `arrays` gave."""
        networks.assign(self.network.loss.variables, arrays)
        for number, other in enumerate(self.neighbours, 1):
            theirs = _beside(number, "")
            given = {name.removeprefix(theirs): array for name, array in arrays.items() if name.startswith(theirs)}
            networks.assign(other.loss.variables, given)
        for i, variable in enumerate(self.own):
            variable.assign(arrays[f"adapted/{i:03d}"])

    def forward(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """The head's numbers for a batch; for generation, the ids [B, S] of the best text."""
        if written := getattr(self.decoding, "written", None):
            return written(batch)
        if self.decoding:
            return self.write(self.writing, batch["tokens"], self._longest, self._seed)
        if self._forward is None:
            specs = {k: tf.TensorSpec([None] * v.ndim, v.dtype) for k, v in batch.items()}
            self._forward = _traced(self._predicted, specs)
        return self._forward({k: tf.convert_to_tensor(v) for k, v in batch.items()}).numpy()

    def write(self, writing: Writing, tokens: np.ndarray, longest: int, seed: int) -> np.ndarray:
        """The ids [B, S] of the best text of at most ``longest`` tokens for each of ``tokens`` [B, T]; samples follow
        from ``seed``."""
        if writing not in self._generators:
            self._generators[writing] = Generator(self.decoding, self.vocabulary, writing)
        return self._generators[writing](tokens, longest, seed).ids[:, 0]

    def mean_loss(self, rows: Sequence[Row], size: int = 64) -> float:
        """The loss on ``rows`` without dropout, averaged over batches."""
        if self._evaluate is None:
            specs = {k: tf.TensorSpec([None] * v.ndim, v.dtype) for k, v in stack(rows[:1]).items()}
            self._evaluate = _traced(lambda b: self._loss(b, None)["loss"], specs)
        batches = [stack(rows[i : i + size]) for i in range(0, len(rows), size)]
        return float(
            np.mean([self._evaluate({k: tf.convert_to_tensor(v) for k, v in b.items()}).numpy() for b in batches])
        )

    def _loss(self, batch: Mapping[str, Any], seed: Any) -> dict[str, Any]:
        return {"loss": self.head.loss(self._outputs(batch, seed), batch)}

    def _outputs(self, batch: Mapping[str, Any], seed: Any) -> Any:
        if self.decoding:
            return self.decoding.decode(batch, seed)
        inputs = {name: batch[name] for name in ("tokens", "segments")}
        if len(inputs["tokens"].shape) == 3:  # texts side by side: [B, C, T] to [B * C, T]
            inputs = {name: tf.reshape(value, [-1, tf.shape(value)[-1]]) for name, value in inputs.items()}
        encoding = self.network.encoder(inputs, seed=seed)
        if self.freezes:
            encoding = _still(encoding)
        others = []
        for number, other in enumerate(self.neighbours, 1):
            others.append(_still(other.encoder({name: batch[f"{name}_{number}"] for name in ("tokens", "segments")})))
        reading = self.reading(encoding, {**batch, **inputs}, *others)
        read = enumerate((reading.tokens, reading.pooled))
        tokens, pooled = (dropout(x, self.head_dropout, seed, _HEAD + number) for number, x in read)
        return self.head(reading._replace(tokens=tokens, pooled=pooled), batch)

    def _predicted(self, batch: Mapping[str, Any]) -> Any:
        """The head's numbers as its codec reads them: some heads decide over a whole row here."""
        numbers, predicted = self._outputs(batch, None), getattr(self.head, "predicted", None)
        return numbers if predicted is None else predicted(numbers, batch)


def writing_of(settings: Settings) -> Writing:
    """How ``settings`` have a text written: one sample, or the best that a beam finds."""
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


@lru_cache(maxsize=4)
def adapted(
    model: str,
    shape: Size,
    tokenizer: Tokenizer,
    form: Form,
    adaptation: str,
    outputs: Hashable,
    settings: Settings,
    neighbours: tuple[Neighbour, ...] = (),
) -> Adapted:
    """The `Adapted` for these choices, built and traced once a process; ``settings`` as `baked`, so that cells share
    it."""
    network = networks.build(model, shape, tokenizer, 0, ending=True)
    module, vocabulary = models.load(model), tokenizer.vocabulary

    # What is above an embedding that is read is not in the graph.
    read = cost.embedding_flops if settings.layers == "embedding" else cost.encoder_flops

    def forward_flops(rows: Sequence[Row]) -> float:
        if made.decoding:
            return cost.decoder_flops(made.counts, shape, vocabulary, rows)
        beside = (
            read(models.load(other.model), other.shape, rows, f"tokens_{number}")
            for number, other in enumerate(neighbours, 1)
        )
        return read(module, shape, rows) + sum(beside)

    others = [networks.build(other.model, other.shape, other.tokenizer, 0) for other in neighbours]
    made = Adapted(network, vocabulary, form, adaptation, outputs, settings, forward_flops, others)
    if made.decoding:
        made.frozen_flops = partial(cost.encoder_flops, module, shape)
    elif own := getattr(made.reading, "flops_per_token", 0.0):  # a reading that is a network of its own
        made.forward_flops = lambda rows: forward_flops(rows) + own * sum(row.tokens for row in rows)
        made.frozen_flops = forward_flops
    elif own := getattr(made.reading, "flops_per_word", 0.0):
        made.forward_flops = lambda rows: forward_flops(rows) + own * sum(len(row.arrays["places"]) for row in rows)
        made.frozen_flops = forward_flops
    counted = getattr(made.decoding, "decode_flops", None)  # of a decoder that the model's own formula leaves out
    made.counts = SimpleNamespace(decode_flops=partial(counted, module)) if counted else module
    return made


@lru_cache(maxsize=8)
def random_weights(model: str, shape: Size, tokenizer: Tokenizer, seed: int) -> dict[str, np.ndarray]:
    """The weights that a run with ``seed`` begins from: those of a random twin."""
    keras.utils.clear_session(free_memory=False)
    return networks.weights(networks.build(model, shape, tokenizer, seed).loss.variables)


def _traced(function: Callable, *specs: Any) -> Traced:
    return Traced(lambda: tf.function(function, autograph=False).get_concrete_function(*specs))


def _still(encoding: Encoding) -> Encoding:
    """Nothing that is learnt from it reaches the encoder."""
    return Encoding(*tf.nest.map_structure(tf.stop_gradient, tuple(encoding)))


def _deviation(matrix: Any) -> float:
    """Of the initial values of ``matrix`` [inputs, outputs] (Glorot and Bengio, 2010, equation 12)."""
    return (2 / sum(matrix.shape)) ** 0.5


def _beside(number: int, name: str) -> str:
    """What a variable ``name`` of the ``number``-th neighbour is called among the weights of all."""
    return f"beside_{number}/{name}"


def _example(form: Form, neighbours: int) -> dict[str, np.ndarray]:
    """A batch of the smallest kind, to make variables with."""
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
