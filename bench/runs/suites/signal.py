"""Tasks that show the effect of 1e12 to 1e14 FLOPs of pre-training, where the scores of whole benchmarks do not.

    ptmbench run signal --out runs/signal
    ptmbench run signal --data DIR --sizes mini --flops 1e14 --out runs/signal

The first line runs on the embedded microworld, which has no dependency treebank.

docs/signal.md explains what each of these instruments measures, its chance level and its cost. Encoders stay frozen,
and a small head learns from at most 500 examples. So a score depends on the pre-trained weights, or on the random
weights of the twin, which is evaluated in the same way. Minimal pairs and bits per byte need no training.

The models are the rows of the survey's table 2 that learn from running text, and ELMo.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="minimal pairs, frozen features from 500 examples, and bits per byte, for small budgets",
    models=("elmo", "gpt", "gpt2", "bert", "infoword", "roberta", "xlnet", "electra", "unilm", "mass", "bart", "t5"),
    sizes=("tiny",),
    tasks=(
        "blimp-100",
        "ud_ewt-500",
        "ud_ewt-heads-500",
        "conll2003-500",
        "sst2-500",
        "mrpc-500",
        "rte-500",
        "bits_per_byte",
        "bits_per_byte-pseudo",
    ),
    adaptations=("features",),
    budget=Budget(flops=1e13),
    corpus=("corpora/english/corpus.txt", "corpus/*.txt"),
    recipe={"length": 64},
    settings={
        "": {"length": 64, "batch": 16},
        "language_modelling": {"length": 64, "stride": 32, "batch": 32},
    },
    embedded=True,
)
