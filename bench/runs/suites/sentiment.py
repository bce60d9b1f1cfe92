"""Sentiment and topics of whole texts (survey, section 7.3), by fine-tuning.

    ptmbench run sentiment --data DIR --models bert,gpt --seeds 3 --set train_limit=20000 --out runs/sentiment

Reviews are long, so 256 tokens of each are read. Training sets have up to 1.4 million texts. On few cores, limit them;
the limit is recorded with the scores. Mask and infill rewrites a text with the other label:

    ptmbench run sentiment --data DIR --tasks sentiment_transfer --models bert --adaptation infill
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="sentiment and topics of sentences, reviews and news, by fine-tuning",
    models=("bert", "gpt", "elmo", "electra", "word2vec"),
    sizes=("mini",),
    tasks=("sst2", "sst5", "imdb", "yelp_polarity", "yelp_full", "ag_news", "dbpedia", "trec", "yahoo"),
    budget=Budget(tokens=20_000_000),
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
    settings={"classification": {"length": 256}},
)
