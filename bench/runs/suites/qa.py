"""Questions whose answer is a span of a text (survey, section 7.2), by fine-tuning: SQuAD 1.1 and 2.0, CoQA, HotpotQA.

    ptmbench run qa --data DIR --models bert,electra --seeds 3 --out runs/qa

Long texts are read in windows of 256 tokens with a stride of 128. The answer is the best span of all windows. If the
full SQuAD 2.0 is missing, squad20_cs224n trains on one half of its dev set and reports the other.
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="answers as spans: SQuAD 1.1 and 2.0, CoQA, HotpotQA, by fine-tuning",
    models=("bert", "gpt", "elmo", "electra", "word2vec"),
    sizes=("mini",),
    tasks=("squad11", "squad20", "squad20_cs224n", "xquad_en", "coqa", "hotpotqa"),
    budget=Budget(tokens=20_000_000),
    corpus=("wikitext-2/wiki.train.tokens", "books_en/*_*.txt", "corpus/*.txt"),
)
