"""TinyBERT's task distillation: a student imitates every layer of its teacher, then the teacher's soft targets.

Jiao et al. (2020), "TinyBERT: Distilling BERT for Natural Language Understanding", sections "Transformer Distillation"
and "TinyBERT Learning". Training has two stages:

1. ``inner_epochs`` over the training set, by the loss of `models.objectives.layer_distillation`: the hidden states of
   embeddings and layers, by a learned projection, and the attention scores before the softmax.
2. ``epochs`` over it, by the loss of `distil` with ``alpha=1`` and ``temperature=1``: soft targets, without gold
   answers. Weights are selected and training ends early as in `finetune`. The head and a new optimizer start here.

The first stage has a constant learning rate and passes on its last weights; its projection is discarded. The teacher
runs again in each of its steps, without dropout, so no hidden states of the training set are stored. The paper trains
20 epochs and 3, the authors' README 10 and 3. In regression, the second stage learns the teacher's scores; the authors'
code learns the gold scores there.

Student and teacher must have the same number of heads, and the teacher's layers must be a multiple of the student's.
The model `tinybert` has such sizes for `bert`. Without general distillation as its pre-training, a student is "TinyBERT
without general distillation".

``augment`` is the paper's data augmentation (`bench.adapt.distil.augmentation`). Both stages also learn from changed
copies of the training examples, ten to thirty of each in the authors' code.

Controls: ``alpha=0`` is the student alone, without the first stage; its scores equal `finetune`'s. With
``shuffle=examples`` or ``labels`` the student imitates, in both stages, what the teacher computes for another text. The
first stage compares only places that both texts have. Forms: classification and regression.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ptmbench.bench.adapt import distil, settings
from ptmbench.bench.adapt.effort import Split
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(distil.Own):
    """Settings of `distil`, and of the first stage."""

    teacher: str = settings.setting("bert-mini", distil.A_TEACHER, distil.is_teacher, baked=True)
    """Model and size of the teacher: "bert-mini", or "random-bert-mini" for random weights."""
    alpha: float = settings.setting(1.0, "from 0 to 1", lambda value: 0 <= value <= 1, baked=True)
    """Weight of the teacher in the loss of the second stage; 0 is the student alone, without a first stage."""
    temperature: float = settings.positive(1.0, baked=True)
    """T, the temperature of the softmax of teacher and student in the second stage."""
    inner_epochs: int = settings.positive(10)
    """Passes over the training set in the first stage."""
    map: str = settings.one_of("uniform", "uniform", "top", "bottom", baked=True)
    """Layers of the teacher that the student imitates: equally spaced, the last ones or the first ones."""

    def rows_read(self, split: Split) -> float:
        """Rows of ``split`` that are read in both stages."""
        return super().rows_read(split) + self._inner_rows(split)

    def teacher_rows(self, split: Split) -> float:
        """Rows that the teacher reads: those of every step of the first stage, and each row once for the second."""
        return super().teacher_rows(split) + self._inner_rows(split)

    def _inner_rows(self, split: Split) -> float:
        return replace(self, epochs=self.inner_epochs).rows_trained_on(split) if self.teacher else 0.0


class TinyBert(distil.Distil):
    summary = "all weights of a student learn a teacher's hidden states and attention, then its soft targets (TinyBERT)"
    settings = Own
    heads = {form: f"heads.{form}" for form in (Form.CLASSIFICATION, Form.REGRESSION)}

    def first(self, network: Any, vocabulary: Any, form: Form, **options: Any) -> Any:
        from ptmbench.bench.adapt.tinybert.network import First

        return First(network, **options)

    def taught(
        self, teacher: Any, student: Any, rows: Sequence[Any], examples: Sequence[Any], settings: Any, seed: int
    ) -> tuple[Sequence[Any], float]:
        from ptmbench.bench.adapt.distil.targets import taught
        from ptmbench.bench.adapt.tinybert.network import check

        read, outputs, flops = teacher.read(examples, during="teach")
        check(teacher.network.network.encoder, student.network.encoder, rows, read, settings.map)
        return taught(rows, read, outputs, examples, settings.shuffle, seed), flops


ADAPTATION = TinyBert()
