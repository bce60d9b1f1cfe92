"""GLUE (Wang et al., 2019): the nine tasks and the diagnostic set, by fine-tuning models pre-trained on the same text.

    ptmbench run glue --data DIR --models bert,gpt,elmo --seeds 3 --out runs/glue

The models pre-train on the unlabelled English text in the data folder: WikiText-2's training articles and plain-text
books.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="GLUE by fine-tuning, models pre-trained on the data folder's English text",
    models=("bert", "gpt", "elmo", "electra", "t5", "word2vec"),
    sizes=("mini",),
    tasks=("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli_mm", "qnli", "rte", "wnli", "ax"),
    budget=Budget(tokens=20_000_000),
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
)
