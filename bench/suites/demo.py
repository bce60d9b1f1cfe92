"""The first thing to run: five models, their random twins and two baselines on the embedded microworld, in minutes on
two cores.

    python -m bench run demo

Sequences are short because the world's sentences are, and batches small because so little text pays for few steps:
BERT-tiny at 0.6 million tokens reaches an MLM loss of 3.1 in 1200 steps of 16 x 32 tokens, and of 4.7 in 400 steps of
32 x 64 or so.
"""

from bench.budget import Budget
from bench.suites import Suite

SUITE = Suite(
    summary="five models and their random twins on the embedded microworld, in minutes on two cores",
    models=("bert", "gpt", "elmo", "electra", "word2vec"),
    tasks=("cola", "sst2", "conll2003", "squad11", "wikitext2"),
    budget=Budget(tokens=600_000),
    corpus=("corpus/*.txt",),
    vocabulary=1200,
    recipe={"length": 32, "batch": 16, "learning_rate": 2e-3},
    settings={"": {"length": 64, "learning_rate": 1e-3, "epochs": 4}},
    embedded=True,
)
