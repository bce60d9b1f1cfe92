"""Predictors: adapted models that predict examples, for the evaluation of cells and for ``predict``.

`Trained` is a trained network with a head. It is saved with the state of its codec, so `load` restores it without the
training set. `UntrainedPredictor` is a network that was not trained.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench import tasks
from ptmbench.bench.adapt import built, heads, loop, neighbours, shapes, transforms
from ptmbench.bench.adapt import load as adaptation_of
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.asking import AnsweringInput
from ptmbench.bench.adapt.contract import Adaptation, Answers
from ptmbench.bench.adapt.gradients import input_gradients
from ptmbench.bench.adapt.heads import Codec, InputRow
from ptmbench.bench.adapt.neighbours import Neighbour
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.adapt.shapes import Shape
from ptmbench.bench.engine import checkpoint, packing
from ptmbench.bench.engine.checkpoint import Checkpoint, CheckpointError
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task

CODEC = "codec.json"
"""The file of a checkpoint with the states of its codecs."""


@dataclass(kw_only=True)
class Trained:
    """A network trained on ``task``, with a head, by the adaptation ``method``.

    The network is shared: it keeps its weights until another predictor trains it or assigns its own. A predictor with
    ``weights`` assigns them before it predicts.
    """

    own: Neighbour
    """Model, shape and tokenizer of the network."""
    others: tuple[Neighbour, ...] = ()
    """Model, shape and tokenizer of each extra encoder."""
    task: Task
    method: str
    settings: Settings
    seed: int
    codec: Codec
    weights: Mapping[str, np.ndarray] | None = None
    """The weights in the format of checkpoints, perhaps packed (`bench.engine.packing`); None for the network's own."""
    chain: tuple[transforms.ChosenTransform, ...] = ()
    """The transforms applied to ``weights``, in their order."""
    changed: tuple[str, ...] = ()
    """Names of the arrays that a transform has changed."""
    shape: Shape | None = None
    """The shape of the encoder's stack after a transform that has changed it; None for the model's own shape."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """The checkpoint of the adapted model before all transforms, for the manifest."""
    first: "Trained | None" = None
    """The predictor whose predictions the codec needs before it makes rows."""

    def __post_init__(self) -> None:
        self._network = built.adapted(
            *self.own,
            self.task.form,
            self.method,
            self.codec.outputs,
            self.settings,
            self.others,
            self.chain,
            self.shape,
        )
        if self.weights is None:
            self._network.weights_owner = self

    @property
    def learning(self) -> Adapted:
        """The network with its current weights, during training."""
        return self._network

    @property
    def network(self) -> Adapted:
        """The network with the weights of this predictor. Raises `RuntimeError` if they are lost."""
        if self._network.weights_owner is not self:
            if self.weights is None:
                raise RuntimeError(
                    "This predictor's network has been trained again. Save a predictor before the "
                    "next training if it is used later."
                )
            self._network.assign(packing.unpacked(self.weights))
            self._network.weights_owner = self
        self._network.set_prediction_settings(self.settings, self.seed)
        return self._network

    def answer(self, examples: Sequence[Example]) -> Answers:
        flops = self._follow(examples)
        rows = self._rows(examples)
        with phase("evaluate"):
            outputs = self._outputs(rows)
            predictions = self.codec.predictions(examples, rows, outputs)
        probabilities = self.codec.probabilities(examples, rows, outputs)
        extra_costs = adaptation_of(self.method).extra_costs(self._network, rows, outputs)
        return Answers(predictions, probabilities, flops + self._flops(rows, outputs), extra_costs)

    def rows(self, examples: Sequence[Example]) -> list[InputRow]:
        """The rows that the network reads for ``examples``."""
        self._follow(examples)
        return self._rows(examples)

    def flops(self, examples: Sequence[Example]) -> list[float]:
        before, rows = self._follow(examples), self._rows(examples)
        outputs = self._outputs(rows)
        found, common = np.zeros(len(examples)), before
        for row, output in zip(rows, outputs, strict=True):
            own = self._flops([row], [output])
            if row.example < 0:  # candidates, which all examples share
                common += own
            else:
                found[row.example] += own
        return (found + common / max(1, len(examples))).tolist()

    def gradients(self, examples: Sequence[Example]) -> list[np.ndarray]:
        self._follow(examples)
        return [input_gradients(self.network, heads.stack([row], multiple=1)) for row in self._rows(examples)]

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        about = {
            "kind": "adapted",
            "model": self.own.model,
            "shape": asdict(self.own.shape),
            "task": self.task.name,
            "task_version": self.task.version,
            "adaptation": self.method,
            "settings": adaptation_settings.recorded(self.settings),
            "seed": self.seed,
            **about,
        }
        if self.chain:
            made = {"changed": list(self.changed), "of": dict(self.source)}
            if self.shape:
                made["shape"] = self.shape.stored()
            about["transform"] = transforms.joined([one.recorded() for one in self.chain]) | made
        states = {"codec": self.codec.state()}
        if self.first:
            states["first"] = self.first.codec.state()
        texts = {"tokenizer.json": self.own.tokenizer.to_json(), CODEC: json.dumps(states, ensure_ascii=False)}
        if self.others:
            about["neighbours"] = [{"model": other.model, "shape": asdict(other.shape)} for other in self.others]
            texts |= {neighbours.file_of(n): other.tokenizer.to_json() for n, other in enumerate(self.others, 1)}
        checkpoint.write(folder, about=about, arrays=self.stored(), texts=texts)

    def stored(self) -> dict[str, Mapping[str, np.ndarray]]:
        """The arrays of the checkpoint by file name, without the suffix."""
        weights = self.weights if self.chain else self.network.arrays()
        return {"weights": weights} | ({"first": self.first.weights} if self.first else {})

    def follow(self, codec: Codec, examples: Sequence[Example], during: str = "evaluate") -> float:
        """Predicts ``examples`` in the phase ``during``, passes the outputs to ``codec``, and returns the FLOPs."""
        rows, outputs, flops = self.read(examples, during)
        with phase("encode"):
            codec.follow(examples, rows, outputs)
        return flops

    def read(
        self, examples: Sequence[Example], during: str = "evaluate", function: Callable | None = None
    ) -> tuple[Sequence[InputRow], list[Any], float]:
        """Returns the rows of ``examples``, the head's output for each row, and the FLOPs. The outputs are computed in
        the phase ``during``. A ``function`` of one forward pass (`Adapted.run`) replaces them with its own, by name."""
        rows = self._rows(examples)
        with phase(during):
            if function is None:
                outputs = self._outputs(rows)
                return rows, outputs, self._flops(rows, outputs)
            network = self.network
            outputs = loop.outputs(network, rows, self.codec.prediction_batch, partial(network.run, function))
        return rows, outputs, network.forward_flops(rows)

    def _follow(self, examples: Sequence[Example]) -> float:
        return self.first.follow(self.codec, examples) if self.first else 0.0

    def _rows(self, examples: Sequence[Example]) -> list[InputRow]:
        with phase("encode"):
            return self.codec.rows(examples)

    def _outputs(self, rows: Sequence[InputRow]) -> list[np.ndarray]:
        return loop.outputs(self.network, rows, self.codec.prediction_batch)

    def _flops(self, rows: Sequence[InputRow], outputs: Sequence[np.ndarray]) -> float:
        return adaptation_of(self.method).flops(self._network, rows, outputs)


@dataclass(frozen=True, kw_only=True)
class UntrainedPredictor:
    """A pre-trained network with an adaptation that trains nothing."""

    adaptation: Adaptation
    asked: AnsweringInput
    """The arguments of the adaptation; `answer` replaces its ``report``."""

    def answer(self, examples: Sequence[Example]) -> Answers:
        asked = replace(self.asked, report=examples)
        predictions, flops = self.adaptation.respond(asked)
        return Answers(predictions, None, flops, signatures=self.adaptation.signatures(asked))

    def flops(self, examples: Sequence[Example]) -> list[float]:
        return [self.answer([example]).flops for example in examples]

    def gradients(self, examples: Sequence[Example]) -> list[np.ndarray]:
        raise NotApplicable("no-loss", f"because the adaptation {self.adaptation.name} has no loss.")

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Writes nothing: the only weights are in the pre-trained checkpoint."""


def load(found: Checkpoint, settings: Settings | None = None) -> Trained:
    """The predictor that was saved in ``found``. ``settings`` replace the saved ones; they may differ from these only
    in the settings that `settings.answering` names.

    Raises `CheckpointError` for a checkpoint of an older version, which lacks the state of the codec.
    """
    if CODEC not in found.files:
        raise CheckpointError(
            f"{found.folder} lacks {CODEC}, which says what the network's numbers mean: an earlier version of ptmbench "
            "left it out. Run the cell again with --keep."
        )
    about, states = found.about, json.loads(found.path(CODEC).read_text(encoding="utf-8"))
    tokenizer = Tokenizer.load(found.path("tokenizer.json"))
    task = tasks.load(about["task"])
    own = Neighbour(about["model"], Size(**about["shape"]), tokenizer)

    def restored(
        name: str, arrays: str, method: str, settings: Settings, others: tuple[Neighbour, ...] = (), **more: Any
    ) -> Trained:
        codec = heads.of(task.form, method).Codec.restored(task, tokenizer, settings, states[name])
        if others:
            codec.join([other.tokenizer for other in others])
        common = {"own": own, "others": others, "task": task, "seed": about["seed"], **more}
        return Trained(**common, method=method, settings=settings, codec=codec, weights=found.arrays(arrays))

    settings = settings or adaptation_settings.read(about["adaptation"], about["settings"])
    more = {}
    if stored := about.get("transform"):
        chain = tuple(map(transforms.read, transforms.separated(stored)))
        more = {"chain": chain, "changed": tuple(stored.get("changed", ())), "source": stored["of"]}
        more["shape"] = shapes.read(stored["shape"]) if "shape" in stored else None
    made = restored("codec", "weights", about["adaptation"], settings, neighbours.load_saved(found), **more)
    if made.codec.first:
        made.first = restored("first", "first", *made.codec.first)
    return made
