"""The survey's table 4 as an experiment: which layers of a model the head reads, frozen or fine-tuned.

    ptmbench run table4 --data DIR --out runs/table4

Embedding only, top layer or all layers (a scalar mix), as frozen features (FE) or fine-tuned (FT). The models are two
models of word vectors, ELMo, BERT and GPT, pre-trained with the same FLOPs. GloVe is the exception: with these FLOPs it
would pass 1,560 times over the 12.8 million counts of this corpus, in 20 million steps, so it has the 50 passes of its
paper. The survey names the common combinations; here all six are scored. Word vectors have one layer, so their three
rows of each kind differ only in how the head reads it (with "top", fine-tuning uses the model's own mean). Only the
form's head is trained from scratch; the survey assumes a task-specific network.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="the survey's table 4: embedding, top or all layers, as features or fine-tuned",
    models=("word2vec", "glove", "elmo", "bert", "gpt"),
    sizes=("mini",),
    tasks=("conll2003", "sst2", "mrpc", "sentihood"),
    adaptations=tuple(
        f"{way}:layers={layers}" for way in ("features", "finetune") for layers in ("embedding", "top", "all")
    ),
    budget=Budget(flops=3e13),
    budgets={"glove": Budget(flops=1e12)},  # 50 passes over 12.8 million counts, 1,536 FLOPs each
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
    settings={
        "": {"batch": 16, "max_steps": 400},
        "tagging": {"batch": 32, "max_steps": 600, "learning_rate": 1e-3},
        "tagging/features": {"learning_rate": 3e-3},
        "classification/features": {"learning_rate": 2e-3},
        # 84 % of the labels are "None". After 6,400 of the 15,008 questions a model predicts nothing else.
        "sentihood": {"batch": 64, "max_steps": 1000, "learning_rate": 1e-3},
        "sentihood/features": {"learning_rate": 2e-3},
    },
)
