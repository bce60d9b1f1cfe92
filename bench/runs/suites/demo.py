"""The first suite to run: four models, their random twins and two baselines on the embedded microworld, in minutes on
two cores.

    ptmbench run demo

Every model is pre-trained with the same FLOPs. Sequences are short, like the microworld's sentences. Batches are small,
because the budget pays for few steps: at a peak learning rate of 2e-3, BERT-tiny reaches an MLM loss of 4.7 after 0.8
million tokens in batches of 32 x 64, and of 3.1 after 0.6 million in batches of 16 x 32. The labelled sets are cut to
500 examples, where pre-training has the largest effect.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="four models and their random twins on the embedded microworld, in minutes on two cores",
    models=("bert", "gpt", "elmo", "electra"),
    tasks=("cola", "sst2", "conll2003", "wikitext2"),
    budget=Budget(flops=1.5e12),
    corpus=("corpus/*.txt",),
    vocabulary=1200,
    recipe={"length": 32, "batch": 8},
    settings={"": {"length": 64, "learning_rate": 1e-3, "train_limit": 500}},
    embedded=True,
)
