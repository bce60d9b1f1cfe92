"""The suite of `tox -e regress`, this project's own gate: small budgets, five seeds, a few minutes on two cores.

    ptmbench run regress --no-baselines --out runs/regress
    ptmbench gate tests/regress runs/regress

A word-vector model, a decoder and an encoder learn the microworld's two easiest tasks within this budget. So a change
that breaks pre-training, fine-tuning or scoring lowers the scores. With fewer than five seeds, Student's t has too few
degrees of freedom to detect a difference.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="three tiny models on two tasks of the microworld, for the gate on the project itself",
    models=("bert", "gpt", "word2vec"),
    tasks=("sst2", "conll2003"),
    seeds=5,
    budget=Budget(tokens=300_000),  # with equal FLOPs, word vectors would take forty times the steps of a Transformer
    corpus=("corpus/*.txt",),
    vocabulary=1200,
    recipe={"length": 32, "batch": 8},
    settings={
        "": {"length": 64, "learning_rate": 1e-3, "train_limit": 500},
        "tagging": {"learning_rate": 2e-3, "epochs": 10},  # with fewer epochs, word vectors differ by 17 points of F1
    },
    embedded=True,
)
