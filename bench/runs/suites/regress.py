"""The suite of `tox -e regress`, this project's own gate: small budgets, five seeds, a few minutes on two cores.

    ptmbench run regress --no-baselines --out runs/regress
    ptmbench gate tests/regress runs/regress

Three models that learn the microworld's two easiest tasks within this budget, so that a change which breaks
pre-training, fine-tuning or scoring has something to lose: a word-vector model, a decoder and an encoder. Five seeds,
because fewer leave Student's t too few degrees of freedom to see anything.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="three tiny models on two tasks of the microworld, for the gate on the project itself",
    models=("bert", "gpt", "word2vec"),
    tasks=("sst2", "conll2003"),
    seeds=5,
    budget=Budget(tokens=300_000),  # by FLOPs word vectors would take forty times as many steps as a Transformer
    corpus=("corpus/*.txt",),
    vocabulary=1200,
    recipe={"length": 32, "batch": 8},
    settings={
        "": {"length": 64, "learning_rate": 1e-3, "train_limit": 500},
        "tagging": {"learning_rate": 2e-3, "epochs": 10},  # stopped earlier, word vectors differ by 17 points of F1
    },
    embedded=True,
)
