"""Aspect-based sentiment (survey, section 7.3): the text alone, and with auxiliary sentences (Sun et al., 2019).

    ptmbench run absa --data DIR --models bert --seeds 3 --out runs/absa

SentiHood and SemEval-2014 task 4, each in five forms: the text alone, or with a question (QA) or a statement (NLI), and
with one example for each label (B) or one for all labels (M). In the paper auxiliary sentences gain about six points of
F1 with BERT-base.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="SentiHood and SemEval-2014, the text alone and with four kinds of auxiliary sentences",
    models=("bert", "gpt", "elmo", "word2vec"),
    sizes=("mini",),
    tasks=(
        *("sentihood", "sentihood-qa-m", "sentihood-nli-m", "sentihood-qa-b", "sentihood-nli-b"),
        *(
            "semeval14_restaurants",
            "semeval14_restaurants-qa-m",
            "semeval14_restaurants-nli-m",
            "semeval14_restaurants-qa-b",
            "semeval14_restaurants-nli-b",
        ),
    ),
    budget=Budget(tokens=20_000_000),
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
)
