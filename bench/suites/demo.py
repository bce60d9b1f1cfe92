"""The first thing to run: six models, their random twins and two baselines on the embedded microworld, in minutes on
two cores.

python -m bench run demo
"""

from bench.budget import Budget
from bench.suites import Suite

SUITE = Suite(
    summary="six models and their random twins on the embedded microworld, in minutes on two cores",
    models=("bert", "gpt", "elmo", "electra", "t5", "word2vec"),
    tasks=("cola", "sst2", "stsb", "rte", "conll2003", "squad11", "copa", "wikitext2"),
    budget=Budget(tokens=1_000_000),
    corpus=("corpus/*.txt",),
    vocabulary=1000,
    recipe={"length": 64, "batch": 32},
    settings={"": {"length": 64}},
    embedded=True,
)
