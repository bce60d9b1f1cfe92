"""A ladder of budgets: the same models pre-trained with 1e12, 1e13 and 1e14 FLOPs, and the score against the FLOPs.

    ptmbench run ladder --data DIR --out runs/ladder
    ptmbench run ladder --data DIR --out runs/ladder --models bert,gpt --flops 1e15
    ptmbench run ladder --flops 1e10,4e10,1.6e11 --sizes tiny

The second line adds a budget for a few models in the same folder. The third is for the embedded microworld, which has
no UD treebank. BERT and GPT are pre-trained twice with each budget, so that their intervals include the variance
between pre-trainings. The steps of fine-tuning are limited, as in `table2`. Sentiment is learnt from 500 examples;
docs/signal.md gives the reason. docs/ladder.md explains how to read the curves.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="a ladder of budgets: seven models pre-trained with 1e12, 1e13 and 1e14 FLOPs",
    models=("bert", "roberta", "electra", "xlnet", "gpt", "t5", "elmo"),
    sizes=("mini",),
    tasks=("blimp-30", "ud_ewt", "conll2003", "sst2-500", "bits_per_byte", "bits_per_byte-pseudo"),
    budget=(Budget(flops=1e12), Budget(flops=1e13), Budget(flops=1e14)),
    pretrainings={"bert": 2, "gpt": 2},
    corpus=("corpora/english/corpus.txt", "corpus/*.txt"),
    settings={
        "": {"batch": 16, "max_steps": 400},
        "tagging": {"batch": 32, "max_steps": 600, "learning_rate": 1e-3},
    },
    embedded=True,
)
