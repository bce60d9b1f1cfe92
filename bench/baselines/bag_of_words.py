"""Linear models over words, and simple methods for other forms.

These are TF-IDF with logistic or ridge regression, the most frequent tag of each word, the answer of the nearest
training example, or the words that are nearest to those of the question (`bench.baselines._spans`).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ptmbench.bench.baselines import _spans
from ptmbench.bench.baselines._shared import check_targets, classified, most_common
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.bits_per_byte import byte_nats
from ptmbench.tasks.task import Example, Question, Task

LABEL = "bag of words"


def by_default(task: Task) -> bool:
    return True


def _vectors(train: Sequence[Any], examples: Sequence[Any]) -> tuple[Any, Any]:
    """TF-IDF of each text as sparse matrices. Pairs also have their absolute difference and their dot product."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(token_pattern=r"\S+", sublinear_tf=True, min_df=1)
    vectorizer.fit([text for e in train for text in e.inputs])

    def transform(rows: Sequence[Example]) -> Any:
        parts = [vectorizer.transform([e.inputs[i] for e in rows]) for i in range(len(rows[0].inputs))]
        if len(parts) == 2:
            parts += [abs(parts[0] - parts[1]), parts[0].multiply(parts[1]).sum(axis=1)]
        return hstack([part if hasattr(part, "tocsr") else np.asarray(part) for part in parts]).tocsr()

    return transform(train), transform(examples)


def _logistic(answers: Sequence[str], train: Sequence[Question], asked: Sequence[Question]) -> np.ndarray:
    """Probabilities of ``answers`` to each of ``asked``, [N, C], by logistic regression on TF-IDF."""
    from sklearn.linear_model import LogisticRegression

    gold = [str(question.gold) for question in train]
    shares, seen = np.zeros((len(asked), len(answers))), set(gold)
    if len(seen) < 2:  # fewer than two classes: the only one, or all equal
        shares[:, [place for place, answer in enumerate(answers) if not seen or answer in seen]] = 1.0
        return shares / shares.sum(axis=1, keepdims=True)
    x, y = _vectors(train, asked)
    model = LogisticRegression(C=4.0, max_iter=1000).fit(x, gold)
    shares[:, [answers.index(answer) for answer in model.classes_]] = model.predict_proba(y)
    return shares


def _ridge(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[float]:
    from sklearn.linear_model import Ridge

    gold = np.array([e.gold for e in train], float)
    x, y = _vectors(train, examples)
    return [float(v) for v in np.clip(Ridge(alpha=1.0).fit(x, gold).predict(y), gold.min(), gold.max())]


def _tag_of_word(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[list[str]]:
    """The most frequent tag of each word, and the most frequent tag of all for unknown words."""
    counts: dict[str, Counter] = defaultdict(Counter)
    for example in train:
        for word, tag in zip(example.inputs, example.gold, strict=True):
            counts[word][tag] += 1
    usual = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    other = most_common([tag for e in train for tag in e.gold])
    return [[usual.get(word, other) for word in e.inputs] for e in examples]


def _words_of_choices(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[int]:
    """The choice most likely to be right, by logistic regression on (context, choice) pairs that are right or wrong."""
    pairs = [
        [Example(id="", inputs=(e.inputs[0], c), gold=str(int(k == e.gold))) for k, c in enumerate(e.inputs[1:])]
        for e in train
    ]
    asked = [[Example(id="", inputs=(e.inputs[0], c)) for c in e.inputs[1:]] for e in examples]
    from sklearn.linear_model import LogisticRegression

    flat = [pair for row in pairs for pair in row]
    x, y = _vectors(flat, [pair for row in asked for pair in row])
    right = LogisticRegression(C=4.0, max_iter=1000).fit(x, [p.gold for p in flat]).predict_proba(y)[:, 1]
    edges = np.cumsum([len(row) for row in asked])[:-1]
    return [int(np.argmax(scores)) for scores in np.split(right, edges)]


def _nearest_class(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """The class whose solved texts are nearest to the query by TF-IDF. The training texts give the weights of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(token_pattern=r"\S+", sublinear_tf=True)
    vectorizer.fit(dict.fromkeys(str(text) for example in train for text in example.inputs))
    found = []
    for query, *solved in (example.inputs for example in examples):
        near = vectorizer.transform(solved) @ vectorizer.transform([query]).T  # [N K, 1]
        sums: Counter = Counter()
        for text, value in zip(solved, near.toarray()[:, 0], strict=True):
            sums[text.name] += float(value)
        found.append(sums.most_common(1)[0][0])
    return found


def _nearest_target(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """The target of the training source that is nearest by the cosine of TF-IDF vectors."""
    check_targets(train)
    from sklearn.neighbors import NearestNeighbors

    x, y = _vectors(train, examples)
    nearest = NearestNeighbors(n_neighbors=1, metric="cosine").fit(x).kneighbors(y, return_distance=False)[:, 0]
    return [train[i].gold[0] for i in nearest]


def _unigrams(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[tuple[float, int, int]]:
    """(nats, words, characters) of each text by unigrams with add-one smoothing. All unknown words share one entry of
    the vocabulary. If the task counts bytes, this entry is followed by the word's bytes
    (`tasks.metrics.bits_per_byte`)."""
    counts = Counter(word for e in train for word in e.inputs[0].split())
    total = sum(counts.values()) + len(counts) + 1
    scored = []
    for text in (e.inputs[0] for e in examples):
        words = text.split()
        nats = -sum(math.log((counts[word] + 1) / total) for word in words)
        if task.extra.get("bytes"):
            nats += sum(byte_nats(word) for word in words if word not in counts)
        scored.append((nats, len(words), len(text)))
    return scored


PREDICTORS = {
    Form.CLASSIFICATION: partial(classified, _logistic),
    Form.REGRESSION: _ridge,
    Form.TAGGING: _tag_of_word,
    Form.CHOICE: _words_of_choices,
    Form.SPAN: _spans.nearest,
    Form.GENERATION: _nearest_target,
    Form.LANGUAGE_MODELLING: _unigrams,
    Form.FEW_SHOT: _nearest_class,
}
