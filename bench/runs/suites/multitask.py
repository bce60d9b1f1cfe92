"""Multi-task learning with recurrent networks (Liu, Qiu and Huang, 2016): does a task learn from other tasks?

    ptmbench run multitask --data DIR --out runs/multitask

SST-2, SST-5, IMDb and TREC (film reviews and questions), each alone and together with the other three in turns. Both
use the same network and the same number of passes over the task's own texts (see `bench.adapt.multitask`). A
pre-trained model corresponds to the paper's shared layer that begins as a language model, and its random twin to the
one that does not. Fine-tuning is the network without task-specific layers. The paper uses SUBJ instead of TREC. If DIR
lacks one of the other tasks, the record says so. Then name only tasks that DIR has, or use the microworld:

    ptmbench run demo --models lm_lstm --tasks sst2,cola --adaptation multitask,multitask:auxiliary=sst2+cola
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="multi-task learning: each of four tasks alone and with the others, by recurrent networks",
    models=("lm_lstm", "sa_lstm"),
    sizes=("mini",),
    tasks=("sst2", "sst5", "imdb", "trec"),
    adaptations=("finetune", "multitask", "multitask:auxiliary=sst2+sst5+imdb+trec"),
    budget=Budget(tokens=20_000_000),
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
    settings={"": {"train_limit": 10_000}, "classification/finetune": {"learning_rate": 1e-3}},
)
