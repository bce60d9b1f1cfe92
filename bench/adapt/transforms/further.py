"""Further training of an adapted network by a transform: its settings, and the interface for the training loop.

This module does not import TensorFlow, because plans and cost estimates read the settings.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ptmbench.bench.adapt import load
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.engine.rates import rate_at
from ptmbench.tasks.forms import Form

if TYPE_CHECKING:
    import numpy as np

    from ptmbench.bench.adapt.adapted import Adapted
    from ptmbench.bench.adapt.heads import InputRow

LOGITS = (Form.CLASSIFICATION, Form.REGRESSION, Form.TAGGING)
"""Forms of tasks whose heads give logits for each text or token."""


def further_training_settings(own: Any, adaptation: Settings) -> Settings:
    """The settings of the ``adaptation`` with ``epochs``, ``max_steps`` and ``learning_rate`` of a transform's ``own``
    settings; a learning rate of 0 stands for the adaptation's."""
    rate = own.learning_rate or adaptation.learning_rate
    return replace(adaptation, epochs=own.epochs, max_steps=own.max_steps, learning_rate=rate)


def without_early_stopping(own: Any, adaptation: Settings) -> Settings:
    """Like `further_training_settings`, but without early stopping."""
    return replace(further_training_settings(own, adaptation), patience=10**12)


def no_lesson(adaptation: str, form: Form, forms: Sequence[Form] = LOGITS, lesson: str = "logits to learn from") -> str:
    """Why a transform cannot learn from the head of ``adaptation`` on a ``form`` task; "" if it can. It learns from a
    ``lesson`` that the heads of ``forms`` give."""
    if form in forms and load(adaptation).head(form) == f"heads.{form}":
        return ""
    return f"{adaptation} on a {form} task gives no {lesson}. Use it with finetune, for {', '.join(forms)} tasks."


class Learner:
    """The interface of `bench.adapt.loop.train` for further training of an ``adapted`` network.

    It has one stage with warm-up. If the second stage of the adaptation has variables of its own, such as the students
    of `fastbert`, it has both stages with their learning rates. ``step`` replaces the step of the network. Subclasses
    also save and restore the further state of their training.
    """

    def __init__(self, adapted: "Adapted", step: Any = None):
        self.adapted, self.step = adapted, step or adapted.step

    def make(
        self, rows: "Sequence[InputRow]", settings: Settings, seed: tuple[int, int]
    ) -> "tuple[Sequence[InputRow], float]":
        return self.adapted.make(rows, settings, seed)

    def training_flops(self, rows: "Sequence[InputRow]") -> float:
        return self.adapted.training_flops(rows)

    def ready(self, step: int) -> bool:
        return self.adapted.ready(step)

    def second_stage_start(self, steps: int, settings: Settings) -> int:
        return self.adapted.second_stage_start(steps, settings) if self.adapted.staged else 0

    def rate(self, step: int, steps: int, settings: Settings) -> float:
        if self.adapted.staged:
            return self.adapted.rate(step, steps, settings)
        return rate_at(step, steps, peak=settings.learning_rate, warmup=settings.warmup)

    def state(self) -> "list[np.ndarray]":
        return self.adapted.state()

    def restore(self, state: "Sequence[np.ndarray]") -> None:
        self.adapted.restore(state)

    def memory(self) -> "list[np.ndarray]":
        return self.adapted.memory()

    def recall(self, memory: "Sequence[np.ndarray]") -> None:
        self.adapted.recall(memory)
