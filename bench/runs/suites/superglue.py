"""SuperGLUE (Wang et al., 2019): the eight tasks and both diagnostic sets, by fine-tuning models pre-trained on the
same text.

    ptmbench run superglue --data DIR --models bert,gpt,elmo --seeds 3 --out runs/superglue

The official score is the mean over the eight tasks, where a task's two metrics are averaged first. It does not include
the diagnostic sets. Paragraphs of BoolQ and MultiRC are longer than GLUE's sentences, so classification reads 256
tokens.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="SuperGLUE by fine-tuning, models pre-trained on the data folder's English text",
    models=("bert", "gpt", "elmo", "electra", "t5", "word2vec"),
    sizes=("mini",),
    tasks=("boolq", "cb", "copa", "multirc", "record", "rte_superglue", "wic", "wsc", "axb", "axg"),
    budget=Budget(tokens=20_000_000),
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
    settings={"classification": {"length": 256}},
)
