"""Knowledge (survey, sections 3.3.2, 4.1): facts that a model knows, relations, types, and links of knowledge graphs.

    ptmbench run knowledge --data DIR --models bert,roberta --seeds 3 --out runs/knowledge

LAMA asks models without training, with the same candidate words for all of them. FewRel learns from episodes. Open
Entity classifies the type of an entity. WN18RR and FB15k-237 rank all entities as the end of a relation.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="facts, relations, types of entities and links of knowledge graphs",
    models=("bert", "gpt", "electra", "word2vec"),
    sizes=("mini",),
    tasks=("lama", "lama-google_re", "lama-conceptnet", "lama-squad", "fewrel", "open_entity", "wn18rr", "fb15k237"),
    budget=Budget(tokens=20_000_000),
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
)
