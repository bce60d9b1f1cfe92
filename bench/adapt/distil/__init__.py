"""Distillation: a student learns a task from the gold answers and from an adapted teacher's soft targets.

Hinton, Vinyals and Dean (2015), "Distilling the Knowledge in a Neural Network", section 2. With the student's logits z,
the teacher's logits v, and equation 1 for both,

    q_i = exp(z_i / T) / sum_j exp(z_j / T)        p_i = exp(v_i / T) / sum_j exp(v_j / T)
    soft = T^2 sum_i p_i log(p_i / q_i)            loss = alpha soft + (1 - alpha) hard

``hard`` is the loss of fine-tuning, at temperature 1. The gradients of soft targets shrink by 1 / T^2; the factor T^2
keeps the two terms in proportion at any temperature. The paper writes the cross-entropy of p and q, which differs from
the divergence by the entropy of p, a constant.

``match=logits`` is the loss of Tang, Lu, Liu, Mou, Vechtomova and Lin (2019), "Distilling Task-Specific Knowledge from
BERT into Simple Neural Networks", section 3.2: soft = sum_i (z_i - v_i)^2. It has no temperature.

Forms: in classification the sums run over the classes of the task, and the loss is a mean over texts. In tagging it is
a mean over words, at their first tokens. In regression soft = (z - v)^2 for the single score, under either ``match``.

The student is the model of the row, with pre-trained or random weights. A small pre-trained Transformer is thus
"pre-trained distillation" (Turc et al., 2019, "Well-Read Students Learn Better"), and a recurrent model with random
weights is BERT-to-LSTM (Tang et al.).

The teacher (``teacher=bert-mini``) is a row, too. It is fine-tuned on the same task with the same seed, once for all
its students, with the settings of `finetune` in this run. It may also be a checkpoint that a user gives, with another
tokenizer, because it predicts whole texts and, in tagging, whole words. It predicts each training example once, without
dropout. In Tang et al. and Turc et al. it also predicts many more texts, which bring most of their improvement. Two
settings add such texts. ``unlabelled`` takes them from the training examples of the task that ``train_limit`` leaves
out, without their gold answers, for all forms (Turc et al.'s unlabelled transfer set). The teacher's prediction takes
the place of the gold answer in ``hard``; Turc et al. have no ``hard``, which is ``alpha=1``. ``augment`` changes words
as TinyBERT does, for classification and regression (`bench.adapt.distil.augmentation`).

Controls: ``alpha=0`` trains the student alone for as many steps; no teacher is trained then, and the scores equal those
of `finetune`. ``shuffle=examples`` exchanges the teacher's outputs between training examples. ``shuffle=labels``
exchanges them between examples with the same gold answer: they then only show what the teacher predicts for a class on
average. Unlabelled examples count as examples with the answer that the teacher predicts.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Split
from ptmbench.bench.adapt.settings import Learning
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task

A_TEACHER = "a model and its size, such as bert-mini, or the name of a given checkpoint"


def is_teacher(value: str) -> bool:
    """Whether ``value`` has the format of the setting ``teacher``. `bench.runs.run` checks that there is such a model
    or checkpoint."""
    return bool(re.fullmatch(r"[\w.-]+", value))


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """Settings of fine-tuning, with the teacher and its weight."""

    teacher: str = settings.setting("bert-mini", A_TEACHER, is_teacher)
    """The model and size of the teacher: "bert-mini", or "random-bert-mini" for random weights. Also the name of a
    checkpoint that a user gives."""
    alpha: float = settings.setting(0.5, "from 0 to 1", lambda value: 0 <= value <= 1, baked=True)
    """Weight of the teacher in the loss; 0 trains the student alone."""
    temperature: float = settings.positive(2.0, baked=True)
    """T, the temperature of the softmax of teacher and student in training."""
    match: str = settings.one_of("probabilities", "probabilities", "logits", baked=True)
    """Outputs of the teacher to match: probabilities by their divergence, or logits by squared differences."""
    shuffle: str = settings.one_of("", "", "examples", "labels")
    """A control: the teacher's outputs are exchanged between all training examples, or between those with the same gold
    answer."""
    crf: int = settings.setting(0, "0: tags are judged one by one", lambda value: value == 0, sparing=True)

    unlabelled: int = settings.setting(0, sparing=True)
    """Maximum number of training examples beyond ``train_limit`` that are used without their gold answers."""
    augment: int = settings.setting(0, sparing=True)
    """N_a, the number of changed copies of each training example. The teacher labels them, too."""
    augment_by: str = settings.one_of("model", "model", "vectors", "random", "copies", sparing=True)
    """Source of replacements: the teacher's predictions and similar word vectors, these vectors alone, random words, or
    no replacements."""
    augment_share: float = settings.setting(0.4, "from 0 to 1", lambda value: 0 <= value <= 1, sparing=True)
    """p_t, the probability that a word of a copy is replaced."""
    augment_choices: int = settings.positive(15, sparing=True)
    """K, the number of words from which a replacement is drawn."""
    augment_vectors: str = settings.setting("glove", "a model with word vectors", bool, sparing=True)
    """The model whose word vectors determine which words are similar."""

    def of(self, task: str) -> "Own":
        """With ``alpha=0``, there is no teacher, and no texts are added."""
        return self if self.alpha else replace(self, teacher="", unlabelled=0, augment=0)

    def models(self, form: Form) -> Mapping[str, str]:
        vectors = self.augment and self.augment_by in ("model", "vectors")
        return {self.augment_vectors: ""} if vectors else {}

    def teacher_rows(self, split: Split) -> float:
        """Rows that the teacher reads: each row, its copies, and one more for each word that it predicts. These are
        estimated as two of five tokens."""
        predicted = 0.4 * split.tokens * self._kept(split) if self.augment and self.augment_by == "model" else 0.0
        return super().teacher_rows(split) + predicted

    def _limited(self, split: Split) -> float:
        return self._kept(split) * (1 + self.augment)

    def _kept(self, split: Split) -> float:
        """Rows of the training set and of unlabelled examples, without copies."""
        labelled = super()._limited(split)
        return labelled + min(self.unlabelled * split.rows, split.examples * split.rows - labelled)


class Distil(Adaptation):
    summary = "all weights of a student learn from the gold answers and from a fine-tuned teacher (soft targets)"
    teaching = "finetune"
    settings = Own
    reads_encoders = False
    heads = {form: f"heads.{form}" for form in (Form.CLASSIFICATION, Form.REGRESSION, Form.TAGGING)}

    def reading(self, encoder: Any, settings: Any, *others: Any) -> Any:
        from ptmbench.bench.adapt.finetune.network import Reading

        return Reading(encoder, settings)

    def enlarged(
        self,
        task: Task,
        examples: Sequence[Example],
        settings: Any,
        seed: int,
        pretrained: Any,
        others: Sequence[Any],
    ) -> tuple[Sequence[Example], float]:
        if not settings.augment:
            return examples, 0.0
        from ptmbench.bench.adapt.distil.candidates import augmented

        return augmented(task, examples, settings, seed, pretrained, next(iter(others), None))

    def taught(
        self, teacher: Any, student: Any, rows: Sequence[Any], examples: Sequence[Any], settings: Any, seed: int
    ) -> tuple[Sequence[Any], float]:
        from ptmbench.bench.adapt.distil.targets import taught

        read, outputs, flops = teacher.read(examples, during="teach")
        return taught(rows, read, outputs, examples, settings.shuffle, seed), flops

    def loss(self, adapted: Any, numbers: Any, batch: Mapping[str, Any], seed: Any) -> Any:
        """Batches without the array ``teacher`` have the loss of fine-tuning, because the teacher labels only the
        training set."""
        from ptmbench.bench.adapt.distil.network import soft

        hard, own = super().loss(adapted, numbers, batch, seed), adapted.settings
        if "teacher" not in batch:
            return hard
        return own.alpha * soft(numbers, batch, own.temperature, own.match) + (1 - own.alpha) * hard


ADAPTATION = Distil()
