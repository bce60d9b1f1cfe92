"""MT-DNN and its distillation: tasks share an encoder, each has its own softmax, and each may have its own teacher.

Liu, He, Chen and Gao (2019a), "Multi-Task Deep Neural Networks for Natural Language Understanding", algorithm 1: each
batch has examples of one task, and batches of all tasks come in random order. Liu, He, Chen and Gao (2019b), "Improving
Multi-Task Deep Neural Networks via Knowledge Distillation for Natural Language Understanding", section 3 and figure 2:
a teacher is trained for each task and gives soft targets for its training examples. The loss of a task is then the
average of the losses with the gold answers and with the soft targets. With the classes C_t and the teacher of task t,
the logits z of the student for an example of t, and the logits v of that teacher,

    p_i = exp(v_i / T) / sum_{j in C_t} exp(v_j / T)        q_i = exp(z_i / T) / sum_{j in C_t} exp(z_j / T)
    soft = T^2 sum_{i in C_t} p_i log(p_i / q_i)            loss = alpha soft + (1 - alpha) hard

``hard`` is the cross-entropy with the gold answer, ``alpha=0.5`` is the paper's average, and T is 1. ``alpha=0`` is
MT-DNN without teachers. Without ``auxiliary`` tasks this is `distil` at T = 1 with ``joint_epochs`` more passes over
the examples. The teacher of every task is the model ``teacher``, fine-tuned on that task alone with the seed of the
cell. After the joint epochs, training continues on the cell's own task alone, with its teacher, from the weights that
were best for this task. Only this task is scored.

Differences from the papers: a teacher is one model, where theirs is an ensemble of MT-DNNs whose probabilities are
averaged. All tasks are classification, each with a softmax over the pooled vector; theirs have an answer network for
pairs of texts (SAN), a ranking loss for QNLI and a regression for STS-B. As in `multitask`, the student does not train
on a text of an auxiliary task if its cell is scored on the same text. The teacher of that task may have trained on it.

Controls: ``alpha=0`` learns the same tasks in as many steps without teachers. ``shuffle=examples`` and
``shuffle=labels`` exchange each teacher's outputs between the examples of its task, as in `distil`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import distil, multitask, settings
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(multitask.MultitaskSettings, distil.Own):
    """Settings of `distil`, with the auxiliary tasks of `multitask`."""

    temperature: float = settings.positive(1.0, baked=True)
    """T, the temperature of the softmax of teacher and student in training."""
    unlabelled: int = settings.setting(0, "0: no texts are added", lambda value: value == 0, sparing=True)
    augment: int = settings.setting(0, "0: no texts are added", lambda value: value == 0, sparing=True)


class MtDnn(distil.Distil):
    summary = (
        "a shared encoder and a softmax for each task; tasks learn in turns, each with a teacher of its own (MT-DNN)"
    )
    systems = ("Multi-task FT",)
    settings = Own
    heads = {Form.CLASSIFICATION: "multitask.head"}

    def taught(
        self, teacher: Any, student: Any, rows: Sequence[Any], examples: Sequence[Any], settings: Any, seed: int
    ) -> tuple[Sequence[Any], float]:
        from ptmbench.bench.adapt.distil.targets import taught
        from ptmbench.bench.adapt.mtdnn.targets import placed

        read, outputs, flops = teacher.read(examples, during="teach")
        return taught(rows, *placed(rows, read, outputs), examples, settings.shuffle, seed), flops


ADAPTATION = MtDnn()
