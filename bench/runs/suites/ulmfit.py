"""ULMFiT's ablation (Howard & Ruder, 2018, tables 4 to 7): the method without each of its techniques, one at a time.

    ptmbench run ulmfit --data DIR --out runs/ulmfit

On TREC's six kinds of questions and SST-2's sentences, cut to 2000 examples, where the techniques matter most. LM-LSTM
is the "vanilla" language model of table 5, without the dropout of AWD-LSTM. The random twins are table 4's "without
pre-training", and plain fine-tuning is table 7's "full". Every ``--set`` of the adaptation works here too.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="ULMFiT's ablation: pre-training, language model, and each trick of fine-tuning taken away",
    models=("ulmfit", "lm_lstm"),
    sizes=("mini",),
    tasks=("trec", "sst2"),
    adaptations=(
        "ulmfit",
        "ulmfit:lm_epochs=0",
        "ulmfit:slanted=0",
        "ulmfit:discriminative=1",
        "ulmfit:unfreeze=0",
        "ulmfit:concat=0",
        "finetune",
    ),
    budget=Budget(flops=3e13),
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
    settings={"": {"batch": 16, "train_limit": 2000, "learning_rate": 1e-3}},
)
