"""The survey's table 3 from one teacher, on one machine: transforms and students of a fine-tuned BERT.

    ptmbench run table3 --data DIR --out runs/table3
    ptmbench run table3 --out runs/table3

The second line runs on the embedded microworld. The teacher is a BERT mini. It is fine-tuned, and compressed like the
model of the suite `compression`. `STUDENTS` are the ways in which a BERT tiny learns from it, with random or with
pre-trained weights. Where a task has more than 4,000 training examples, students also learn from 20,000 others without
labels. A convolutional and a recurrent network with the depth and width of BERT tiny learn the teacher's logits.

`PRETRAINED` are made small in pre-training. Five learn from the teacher, and some of them also from the fine-tuned
teacher. MobileBERT learns from a teacher of its own, IB-BERT; the plain `mobilebert` has the FLOPs of both. ALBERT has
no teacher: its layers share their weights.

A student may be good because of its teacher, or because of the compute that the teacher took. So each student has a
baseline: a plain BERT tiny with the same total cost in FLOPs. For students with random weights, the baseline is
pre-trained with the FLOPs of the teacher's pre-training; for pre-trained students, with twice as many. Its number of
fine-tuning epochs accounts for the training of teacher and student. No training stops early, so costs are as planned.

With this budget the teacher reads 4.8 million tokens and a plain BERT tiny 33 million. On held-out text, the loss of
the teacher is 5.19 and that of BERT tiny 3.83, and BERT tiny scores more on CoNLL-2003. Larger budgets were not run.
--flops gives all models one budget, so pre-trained students then have no baseline of their cost.

Latency at batch 1, 8 and 32 and memory are measured for every model. docs/compression.md says how to read the board.
"""

from typing import TYPE_CHECKING

from ptmbench import models
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite, compression
from ptmbench.bench.runs.suites.compression import ADAPTATIONS, CORPUS, EPOCHS, LENGTH, TASKS, TRANSFORMS, VOCABULARY
from ptmbench.models.text.tokenizers import Vocabulary

if TYPE_CHECKING:
    from ptmbench.bench.runs.artefacts import Cell

MODEL, TEACHER, STUDENT = "bert", "mini", "tiny"
BUDGET = Budget(flops=1e14)
TWICE = Budget(flops=2e14)
_TAUGHT = f"teacher={MODEL}-{TEACHER}"
_TASKS = "sst2+mrpc+rte"

STUDENTS = (
    f"distil:{_TAUGHT}",
    f"distil:{_TAUGHT}+match=logits",
    f"distil:{_TAUGHT}+shuffle=labels",
    f"distil:{_TAUGHT}+unlabelled=20000",
    f"distil:{_TAUGHT}+unlabelled=20000+shuffle=labels",
    f"mtdnn:{_TAUGHT}+auxiliary={_TASKS}",
    f"mtdnn:{_TAUGHT}+auxiliary={_TASKS}+shuffle=labels",
)
"""Adaptations by which students learn, with controls."""
HIDDEN_STATE_STUDENTS = (
    f"pkd:{_TAUGHT}",
    f"pkd:{_TAUGHT}+shuffle=labels",
    f"tinybert:{_TAUGHT}+inner_epochs={EPOCHS}",
    f"tinybert:{_TAUGHT}+inner_epochs={EPOCHS}+shuffle=labels",
)
"""Adaptations by which students learn from hidden states and attention, with controls."""
LIGHT = (f"distil:{_TAUGHT}+temperature=1",)
"""The adaptation of LightPAFF, with the loss of its pre-training."""
PRETRAINED = {
    "distilbert": HIDDEN_STATE_STUDENTS,
    "tinybert": HIDDEN_STATE_STUDENTS[2:],
    "minilm": (),
    "lightpaff": LIGHT,
    "dualtrain": (),
    "mobilebert_pkt": (),
    "mobilebert": (),
    "albert": (),
}
"""Models that are made small in pre-training, at the teacher's size, each with its adaptations other than
fine-tuning."""

OTHER_NETWORKS = ("blend_cnn", "elmo")
"""The networks of Transformer-to-CNN and BERT-to-LSTM. They learn from random weights, as `ALONE_AND_TAUGHT` says."""
ALONE_AND_TAUGHT = ("finetune", STUDENTS[1])


def _epochs() -> int:
    """Returns the epochs of a baseline that cost as much as fine-tuning teacher and student, and the teacher's
    predictions. A training step costs three forward passes, a prediction one (`bench.adapt.adapted`)."""
    module = models.load(MODEL)
    each = [
        module.describe(module.SIZES[size], Vocabulary(size=VOCABULARY)).encoder_flops(LENGTH)
        for size in (TEACHER, STUDENT)
    ]
    ratio = each[0] / each[1]
    return round(EPOCHS * (1 + ratio) + ratio / 3)


BASELINE = f"finetune:epochs={_epochs()}"


def keeps(cell: "Cell") -> bool:
    """Whether ``cell`` is part of the table: the teacher is compressed, and students learn from it or alone."""
    row, adaptation = cell.row, cell.adaptation
    if row.model in OTHER_NETWORKS:
        return row.kind == "random" and row.size == STUDENT and not cell.transforms and adaptation in ALONE_AND_TAUGHT
    if row.model in PRETRAINED:
        there = row.kind == "pretrained" and row.size == TEACHER and not cell.transforms
        return there and adaptation in ("finetune", *PRETRAINED[row.model])
    if adaptation in (*HIDDEN_STATE_STUDENTS, *LIGHT):
        return False
    if row.size == TEACHER:
        compressed = adaptation in ("finetune", *ADAPTATIONS) and compression.keeps(cell)
        return row.kind == "pretrained" and compressed
    if row.size != STUDENT:
        return True
    if cell.transforms or adaptation in ADAPTATIONS:
        return False
    if cell.chosen_by == TWICE.short():
        return adaptation == BASELINE
    return adaptation != BASELINE or row.kind == "pretrained"


SUITE = Suite(
    summary="the survey's table 3: a fine-tuned BERT compressed in every way, and small models of the same cost",
    models=(MODEL, *PRETRAINED, *OTHER_NETWORKS),
    sizes=(TEACHER, STUDENT),
    tasks=TASKS,
    adaptations=("finetune", BASELINE, *ADAPTATIONS, *STUDENTS, *HIDDEN_STATE_STUDENTS, *LIGHT),
    transforms=TRANSFORMS,
    budget=BUDGET,
    budgets={f"{MODEL}-{STUDENT}": (BUDGET, TWICE), f"mobilebert-{TEACHER}": (TWICE,)},
    corpus=CORPUS,
    vocabulary=VOCABULARY,
    recipe={"length": LENGTH},
    settings={
        "": {"length": LENGTH, "batch": 16, "epochs": EPOCHS, "patience": 1000, "train_limit": 4000},
        "classification": {"learning_rate": 5e-4},
        "tagging": {"learning_rate": 1e-3},
    },
    keeps=keeps,
    profile=True,
    embedded=True,
)
