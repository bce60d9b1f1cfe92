"""Summaries (survey, section 7.6) of e-mails, news and chats: generated, or extracted from the text's sentences.

    ptmbench run summarization --data DIR --models t5,bart,bert --out runs/summarization

Encoder-decoders generate summaries themselves, encoders with a new decoder (seq2seq). extract selects sentences. The
baselines are the first sentences of the text (`lead`) and the best possible selection of sentences (`oracle`).
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="summaries, written by encoder-decoders or chosen among the text's sentences",
    models=("t5", "bart", "pegasus", "bert"),
    sizes=("mini",),
    tasks=("aeslc", "cnn_dailymail", "xsum", "gigaword", "samsum", "dialogsum"),
    adaptations=("finetune", "seq2seq", "extract"),
    budget=Budget(tokens=20_000_000),
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
)
