"""One model compressed in every way that needs no second model, with controls.

    ptmbench evaluate CHECKPOINT --suite compression --data DIR --out runs/compression
    ptmbench run compression --data DIR --out runs/compression

The first line compresses a checkpoint: a published model or one that was pre-trained here. The second line pre-trains a
BERT mini first. The model is fine-tuned, and `TRANSFORMS` compress the result; `ADAPTATIONS` compress it while it is
fine-tuned. Training transforms have two epochs, except for the searches. The learning rates are those of published
models; --set learning_rate=5e-4 is the rate of the suite `table3`.

The suite `table3` adds the students, which learn from a BERT mini.
"""

from typing import TYPE_CHECKING

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

if TYPE_CHECKING:
    from ptmbench.bench.runs.artefacts import Cell

EPOCHS, LENGTH, PAIR_LENGTH, VOCABULARY = 3, 64, 128, 4000
CORPUS = ("corpora/english/corpus.txt", "corpus/*.txt")
TASKS = ("sst2", "mrpc", "rte", "conll2003")

TRANSFORMS = (
    "prune:sparsity=0+epochs=2",  # control: trained as long as the pruned models, but not pruned
    "prune:epochs=2",
    "prune:sparsity=0.8+epochs=2",
    "prune:pattern=2:4+epochs=2",
    "prune:pattern=4x1+epochs=2",
    "heads",
    "heads:by=random",
    "ffn",
    "ffn:by=random",
    "layers",
    "layers:epochs=1",
    "layers:by=alternate",
    "theseus:epochs=2",
    "theseus:replacing=1+epochs=2",  # control: small layers, trained as long without the layers that they replace
    "gates:epochs=2",
    "heads:share=0.6+epochs=2",  # controls: about as many heads as gates remove, by importance and at random
    "heads:share=0.6+epochs=2+by=random",
    "dynabert+subnetwork:width=0.5",
    "dynabert:width_epochs=0+depth_epochs=0+subnetwork:width=0.5+epochs=6",  # control: the sub-network trained alone
    "nasbert",
    "nasbert:by=random",
    "adabert:layers=4+width=64",
    "adabert:layers=4+width=64+by=random",
    "int8",
    "qat:epochs=2",
    "qbert:epochs=2",
    "qbert:epochs=2+by=random",
    "heads+int8",
    "ffn+int8",
    "layers:epochs=1+int8",
    "prune:sparsity=0.8+epochs=2+int8",
)
"""Transforms that compress a fine-tuned model, with controls."""
DROPPED = "layerdrop"
ADAPTATIONS = ("fastbert", "pabee", "pabee:unchanged=0", DROPPED, "sparse", "sparse:by=random")
"""Adaptations that compress the model during training, with controls."""


def keeps(cell: "Cell") -> bool:
    """Whether ``cell`` is part of the comparison. Every transform follows fine-tuning, whatever its settings. After
    `DROPPED`, every other layer is removed; the other adaptations are not transformed. A random twin of a run is
    fine-tuned alone."""
    if cell.row.kind == "random" and not cell.pretraining:
        return cell.method == "finetune" and not cell.transforms
    if cell.method == DROPPED:
        return cell.transform in ("", "layers:by=alternate")
    return cell.method == "finetune" or not cell.transforms


SUITE = Suite(
    summary="one model compressed in every way, with controls; made for `evaluate CHECKPOINT --suite compression`",
    models=("bert",),
    sizes=("mini",),
    tasks=TASKS,
    adaptations=("finetune", *ADAPTATIONS),
    transforms=TRANSFORMS,
    budget=Budget(flops=1e14),
    corpus=CORPUS,
    vocabulary=VOCABULARY,
    recipe={"length": PAIR_LENGTH},
    settings={
        "": {"length": LENGTH, "batch": 16, "epochs": EPOCHS, "patience": 1000, "train_limit": 4000},
        "mrpc": {"length": PAIR_LENGTH},
        "rte": {"length": PAIR_LENGTH},
        "classification": {"learning_rate": 5e-5},
        "tagging": {"learning_rate": 1e-4},
    },
    keeps=keeps,
    profile=True,
    embedded=True,
)
