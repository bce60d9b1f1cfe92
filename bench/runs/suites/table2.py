"""The survey's table 2 as one experiment: every pre-trained model at the same size, corpus, vocabulary and FLOPs.

    ptmbench run table2 --data DIR --out runs/table2
    ptmbench run table2 --data DIR --flops 1.3e18 --size small --strategy mirrored --recipe batch=256

The first line is for two cores and several evenings. It can be stopped at any time, and the same command resumes it.
The second is for accelerators. Its 1.3e18 FLOPs are about the budget of ELECTRA-small, four days on one V100 (1.4e18;
Clark et al., 2020, table 1). The steps of fine-tuning are limited, so that a cell takes minutes: compare scores with
each other, not with published ones. CoVe and BiSkip learn from pairs, so on running text they are not applicable, and
only their random twins are scored.
"""

from ptmbench import models
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="the survey's table 2: every model at one size, corpus, vocabulary and number of FLOPs",
    models=models.names(),
    sizes=("mini",),
    tasks=("cola", "sst2", "mrpc", "stsb", "rte", "wnli", "conll2003", "xquad_en"),
    budget=Budget(flops=3e13),
    corpus=("corpora/english/corpus.txt", "corpus/*.txt"),
    settings={
        "": {"batch": 16, "max_steps": 400},
        "tagging": {"batch": 32, "max_steps": 600, "learning_rate": 1e-3},
    },
)
