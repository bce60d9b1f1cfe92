"""Cross-lingual transfer (survey, section 4.2): models learn a task in English and are tested in other languages.

    ptmbench run crosslingual --data DIR --models bert --out runs/crosslingual

XNLI and XQuAD zero-shot, and XNLI also trained on translations. The corpus has English, German and Chinese text, with
one vocabulary. Give more text with --corpus.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="XNLI and XQuAD, zero-shot and on translations, by models of several languages",
    models=("bert", "gpt", "electra"),
    sizes=("mini",),
    tasks=("xnli", "xnli-zh", "xnli-zh-translated", "xnli_zh", "xquad_en", "xquad_de", "xquad_zh"),
    budget=Budget(tokens=20_000_000),
    corpus=(
        "wikitext-2/wiki.train.tokens",
        "multi30k/train.en*",
        "multi30k/train.de*",
        "zh_corpus/*.txt",
        "corpus/*.txt",
    ),
)
