"""Multi30k (Elliott et al., 2016) translation, en-de and de-en.

python -m bench run multi30k --data DIR --out runs/multi30k
"""

from bench.budget import Budget
from bench.suites import Suite

SUITE = Suite(
    summary="Multi30k translation by encoder-decoder and decoder models",
    models=("t5", "gpt"),
    sizes=("mini",),
    tasks=("multi30k", "multi30k-de-en"),
    budget=Budget(tokens=20_000_000),
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
)
