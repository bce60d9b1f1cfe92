"""Named entities (survey, section 7.4) in news, in web texts with new names, and in biomedical abstracts, by
fine-tuning.

    ptmbench run ner --data DIR --models bert,elmo --seeds 3 --out runs/ner

Scores are conlleval's F1 of whole entities. --set crf=1 adds a CRF over the tags. --set context=1 shows each sentence
with its neighbours. --models flair --tokenizer character --set length=512 --adaptation stacked is Flair's tagger, which
also reads GloVe word vectors.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="named entities of news, the web and biomedicine, by fine-tuning",
    models=("bert", "gpt", "elmo", "electra", "word2vec"),
    sizes=("mini",),
    tasks=("conll2003", "wnut17", "bc5cdr", "ncbi_disease", "jnlpba", "wikiann"),
    budget=Budget(tokens=20_000_000),
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
    settings={"tagging": {"epochs": 3, "learning_rate": 1e-3}},
)
