"""The survey's table 3 from one teacher, on one machine: transforms and students of a fine-tuned BERT.

    ptmbench run table3 --data DIR --out runs/table3
    ptmbench run table3 --out runs/table3

The second line runs on the embedded microworld. The teacher is BERT mini. It is fine-tuned, and each of `TRANSFORMS`
and `ADAPTATIONS` compresses it. Each of `STUDENTS` is BERT tiny, which learns from it: from random weights, and
pre-trained. `OTHERS` learn from the teacher in pre-training, and some of them again from its fine-tuned self. A
convolutional network of BERT tiny's depth and width learns its logits.

A student may be good because of its teacher, or because of what the teacher cost. So a plain BERT tiny of the same
total cost in FLOPs stands beside every student. Beside students with random weights it is pre-trained with the FLOPs
that the teacher's pre-training takes, and beside pre-trained students with twice as many. Either is fine-tuned for as
many epochs as pay for the teacher's and the student's training. No training stops early, so costs are as planned.

The teacher needs the budget: after 1e12 FLOPs on the microworld, BERT mini had an F1 of 26 on CoNLL-2003, and a plain
BERT tiny of the same cost 36 (three seeds). --flops gives all models one budget, so pre-trained students then have no
plain model of their cost.

Latency at batch 1, 8 and 32 and memory are measured for every model. docs/compression.md says how to read the board.
"""

from typing import TYPE_CHECKING

from ptmbench import models
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite
from ptmbench.models.text.tokenizers import Vocabulary

if TYPE_CHECKING:
    from ptmbench.bench.runs.artefacts import Cell

MODEL, TEACHER, STUDENT = "bert", "mini", "tiny"
EPOCHS, LENGTH, VOCABULARY = 3, 64, 4000
BUDGET = Budget(flops=1e13)
TWICE = Budget(flops=2e13)
_TAUGHT = f"teacher={MODEL}-{TEACHER}"
_TASKS = "sst2+mrpc+rte"

TRANSFORMS = (
    "prune:sparsity=0",  # trained as long as the pruned models, and not pruned
    "prune",
    "prune:sparsity=0.8",
    "prune:pattern=2:4",
    "heads",
    "heads:by=random",
    "ffn",
    "ffn:by=random",
    "layers",
    "layers:epochs=1",
    "layers:by=alternate",
    "theseus",
    "theseus:replacing=1",  # its small layers trained as long, without those that they replace
    "gates",
    "adabert:layers=4+width=64",
    "int8",
    "qat",
    "qbert",
    "qbert:by=random",
    "prune:sparsity=0.8+int8",
    "layers:epochs=1+int8",
)
"""What compresses the teacher, with controls."""
DROPPED = "layerdrop"
ADAPTATIONS = ("fastbert", "pabee", DROPPED, "sparse", "sparse:by=random")
"""Adaptations of the teacher's model that compress it while they train it, with a control. After `DROPPED` every other
layer is taken out, as after plain fine-tuning."""
STUDENTS = (
    f"distil:{_TAUGHT}",
    f"distil:{_TAUGHT}+match=logits",
    f"distil:{_TAUGHT}+shuffle=labels",
    f"mtdnn:{_TAUGHT}+auxiliary={_TASKS}",
    f"mtdnn:{_TAUGHT}+auxiliary={_TASKS}+shuffle=labels",
)
"""How students learn, with controls."""
INNER = (
    f"pkd:{_TAUGHT}",
    f"pkd:{_TAUGHT}+shuffle=labels",
    f"tinybert:{_TAUGHT}+inner_epochs={EPOCHS}",
    f"tinybert:{_TAUGHT}+inner_epochs={EPOCHS}+shuffle=labels",
)
"""How students learn from hidden states and attention, with controls."""
LIGHT = (f"distil:{_TAUGHT}+temperature=1",)
"""How LightPAFF learns tasks: by the loss of its pre-training."""
OTHERS = {"distilbert": INNER, "tinybert": INNER[2:], "minilm": (), "lightpaff": LIGHT, "dualtrain": ()}
"""Models whose pre-training has the teacher too, at the teacher's size, and how they learn tasks besides
fine-tuning."""

CONVOLUTIONAL = "blend_cnn"
CONVOLVED = ("finetune", STUDENTS[1])
"""The network of Transformer-to-CNN, and how it learns from random weights: alone, and from the logits of the
teacher."""


def _epochs() -> int:
    """Epochs of a plain student that cost as much as the fine-tuning of teacher and student and the questions to the
    teacher. A step of training takes three forward passes, a question one (`bench.adapt.adapted`)."""
    module = models.load(MODEL)
    each = [
        module.describe(module.SIZES[size], Vocabulary(size=VOCABULARY)).encoder_flops(LENGTH)
        for size in (TEACHER, STUDENT)
    ]
    ratio = each[0] / each[1]
    return round(EPOCHS * (1 + ratio) + ratio / 3)


ALONE = f"finetune:epochs={_epochs()}"


def keeps(cell: "Cell") -> bool:
    """Whether ``cell`` is part of the table: the teacher is transformed, the small model is taught or learns alone."""
    row, adaptation = cell.row, cell.adaptation
    if row.model == CONVOLUTIONAL:
        return row.kind == "random" and row.size == STUDENT and not cell.transforms and adaptation in CONVOLVED
    if row.model in OTHERS:
        there = row.kind == "pretrained" and row.size == TEACHER and not cell.transforms
        return there and adaptation in ("finetune", *OTHERS[row.model])
    if adaptation in (*INNER, *LIGHT):
        return False
    if row.size == TEACHER:
        if adaptation == "finetune":
            return row.kind == "pretrained"
        without = not cell.transforms or (adaptation == DROPPED and cell.transform == "layers:by=alternate")
        return row.kind == "pretrained" and adaptation in ADAPTATIONS and without
    if row.size != STUDENT:
        return True
    if cell.transforms or adaptation in ADAPTATIONS:
        return False
    if cell.chosen_by == TWICE.short():
        return adaptation == ALONE
    return adaptation != ALONE or row.kind == "pretrained"


SUITE = Suite(
    summary="the survey's table 3: a fine-tuned BERT compressed in every way, and small models of the same cost",
    models=(MODEL, *OTHERS, CONVOLUTIONAL),
    sizes=(TEACHER, STUDENT),
    tasks=("sst2", "mrpc", "rte", "conll2003"),
    adaptations=("finetune", ALONE, *ADAPTATIONS, *STUDENTS, *INNER, *LIGHT),
    transforms=TRANSFORMS,
    budget=BUDGET,
    budgets={f"{MODEL}-{STUDENT}": (BUDGET, TWICE)},
    corpus=("corpora/english/corpus.txt", "corpus/*.txt"),
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
