"""Vectors of single words (survey, section 2.2): similarity and analogy questions, without training.

    ptmbench run words --data DIR --models word2vec,glove,fasttext,elmo,bert --out runs/words

A word's vector is read from the embedding, the top layer or all layers (--set layers=embedding|top|all).
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="similarity and analogies of words, of models as they are",
    models=("word2vec", "cbow", "glove", "fasttext", "elmo", "bert", "gpt"),
    sizes=("mini",),
    tasks=("word_similarity", "word_analogy"),
    budget=Budget(tokens=20_000_000),
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
)
