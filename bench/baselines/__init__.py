"""Rows without a network: what a constant answer and a linear model over words reach. No TensorFlow.

A benchmark number means little without its floor. ``majority`` gives the training set's most frequent answer;
``bag-of-words`` is TF-IDF with logistic or ridge regression, the most frequent tag of each word, the nearest training
example's answer, or the words that stand nearest to the question's (`bench.baselines.spans`). ``fasttext-classifier``
learns vectors of words and word pairs with its softmax (`bench.baselines.fasttext`). ``lead`` and ``oracle`` are
sentences of the text that is to be summarised: the first ones, and those that come nearest to the summary, which is
about as far as choosing sentences can get. ``copy`` writes what is to be translated or rewritten as it is, and
``delete`` leaves out the words that say a text's label (`bench.attributes`).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench import attributes, summaries
from bench.adapt import NotApplicable
from bench.baselines import spans
from tasks.forms import Form, Rank
from tasks.metrics.ranks import rank
from tasks.task import Example, Question, Task

Predictor = Callable[[Task, Sequence[Example], Sequence[Example]], list[Any]]
"""(task, training examples, examples to predict) to predictions."""


def predict(name: str, task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[Any]:
    """Predictions of the baseline ``name``; `NotApplicable` where it has no meaning for the form."""
    predictor = _PREDICTORS[name].get(task.form)
    if predictor is None:
        raise NotApplicable("no-baseline", f"because {name} has no meaning for a {task.form} task.")
    return predictor(task, train, examples)


def _most_common(values: Sequence[Any]) -> Any:
    return Counter(values).most_common(1)[0][0]


def _constant(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[Any]:
    return [_most_common([e.gold for e in train])] * len(examples)


def _mean(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[float]:
    return [float(np.mean([e.gold for e in train]))] * len(examples)


def _constant_tag(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[list[str]]:
    tag = _most_common([tag for e in train for tag in e.gold])
    return [[tag] * len(e.inputs) for e in examples]


def _constant_text(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    _check_targets(train)
    return [_most_common([e.gold[0] for e in train])] * len(examples)


def _first_class(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """The class of the first solved text: no class is more frequent than another."""
    return [example.inputs[1].name for example in examples]


def _nearest_class(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """The class whose solved texts are nearest by TF-IDF, weighed by the words of the training texts."""
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


def _usual_candidates(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[Rank]:
    """Candidates by how often they are the answer in training where an example's last text, its relation, is the
    same."""
    counts: dict[str, Counter] = defaultdict(Counter)
    for example in train:
        counts[example.inputs[-1]][str(example.gold)] += 1
    number = {name: place for place, name in enumerate(examples[0].gold.candidates)}
    found = []
    for example in examples:
        scores, seen = np.zeros(len(number)), counts[example.inputs[-1]]
        scores[[number[name] for name in seen]] = list(seen.values())
        others = [number[name] for name in example.gold.others]
        best = seen.most_common(1)[0][0] if seen else None
        found.append(Rank(rank(scores, number[example.gold], others), best=best))
    return found


def _embedded(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[Rank]:
    from bench.baselines import embeddings

    return embeddings.ranks(train, examples)


def _usual_words(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[Rank]:
    """Words by how often they are the answer of their relation among ``examples`` themselves: Freq of Petroni et al.
    (2019), section 4.2, a floor that has seen the answers."""
    counts: dict[str | None, Counter] = defaultdict(Counter)
    for example in examples:
        counts[example.gold.kind][str(example.gold)] += 1
    number = {word: place for place, word in enumerate(examples[0].gold.candidates)}
    found = []
    for gold in (example.gold for example in examples):
        scores, seen = np.zeros(len(number)), counts[gold.kind]
        scores[[number[word] for word in seen]] = list(seen.values())
        others = [number[word] for word in gold.others]
        found.append(Rank(rank(scores, number[gold], others), best=seen.most_common(1)[0][0]))
    return found


def _sentences(row: str, task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """The summary of `summaries.ROWS` by that name; the oracle looks at the first reference."""
    if "lead" not in task.extra:
        raise NotApplicable("no-baseline", f"because {row} has no meaning where there is nothing to summarise.")
    return [summaries.ROWS[row](e.inputs[0], e.gold[0], task.extra["lead"]) for e in examples]


def _check_targets(train: Sequence[Example]) -> None:
    if not any(example.gold for example in train):
        raise NotApplicable("no-targets", "because nothing in its training set says what is to be written.")


def _sources(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    return [example.inputs[0] for example in examples]


def _less_attributes(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    if "polarities" not in task.extra:
        raise NotApplicable("no-baseline", "because delete has no meaning where texts have no label to exchange.")
    return attributes.without(task, train, examples)


def _vectors(train: Sequence[Any], examples: Sequence[Any]) -> tuple[Any, Any]:
    """TF-IDF of each text, and for pairs the size of their difference, as sparse matrices."""
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


Shares = Callable[[Sequence[str], Sequence[Question], Sequence[Question]], np.ndarray]
"""(answers, questions to learn from, questions to answer) to the probabilities of the answers, [N, C]."""


def _classified(shares_of: Shares, task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """A classifier for each list of answers that the task's questions have; most tasks have one list."""
    learned: dict[tuple[str, ...], list[Question]] = defaultdict(list)
    for question in (question for example in train for question in task.questions(example)):
        learned[question.answers].append(question)
    asked = [(i, question) for i, example in enumerate(examples) for question in task.questions(example)]
    found: list[Any] = [None] * len(asked)
    for answers in dict.fromkeys(question.answers for _, question in asked):
        places = [place for place, (_, question) in enumerate(asked) if question.answers == answers]
        shares = shares_of(answers, learned[answers], [asked[place][1] for place in places])
        for place, share in zip(places, shares, strict=True):
            found[place] = share
    of_example: list[list[Any]] = [[] for _ in examples]
    for (i, _), share in zip(asked, found, strict=True):
        of_example[i].append(share)
    return [task.chosen(shares) for shares in of_example]


def _logistic(answers: Sequence[str], train: Sequence[Question], asked: Sequence[Question]) -> np.ndarray:
    """Probabilities of ``answers`` to each of ``asked``, [N, C], by logistic regression on TF-IDF."""
    from sklearn.linear_model import LogisticRegression

    gold = [str(question.gold) for question in train]
    shares, seen = np.zeros((len(asked), len(answers))), set(gold)
    if len(seen) < 2:  # nothing to tell apart: the one answer, or all alike
        shares[:, [place for place, answer in enumerate(answers) if not seen or answer in seen]] = 1.0
        return shares / shares.sum(axis=1, keepdims=True)
    x, y = _vectors(train, asked)
    model = LogisticRegression(C=4.0, max_iter=1000).fit(x, gold)
    shares[:, [answers.index(answer) for answer in model.classes_]] = model.predict_proba(y)
    return shares


def _fasttext(answers: Sequence[str], train: Sequence[Question], asked: Sequence[Question]) -> np.ndarray:
    """Probabilities of ``answers`` to each of ``asked``, [N, C], by `bench.baselines.fasttext`; all alike where
    there is nothing to learn from."""
    from bench.baselines import fasttext

    if not train:
        return np.full((len(asked), len(answers)), 1 / len(answers))
    gold = [answers.index(str(question.gold)) for question in train]
    return fasttext.shares([q.inputs for q in train], gold, [q.inputs for q in asked], len(answers))


def _ridge(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[float]:
    from sklearn.linear_model import Ridge

    gold = np.array([e.gold for e in train], float)
    x, y = _vectors(train, examples)
    return [float(v) for v in np.clip(Ridge(alpha=1.0).fit(x, gold).predict(y), gold.min(), gold.max())]


def _tag_of_word(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[list[str]]:
    """Each word's most frequent tag, the overall most frequent one for words never seen."""
    counts: dict[str, Counter] = defaultdict(Counter)
    for example in train:
        for word, tag in zip(example.inputs, example.gold, strict=True):
            counts[word][tag] += 1
    usual = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    other = _most_common([tag for e in train for tag in e.gold])
    return [[usual.get(word, other) for word in e.inputs] for e in examples]


def _words_of_choices(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[int]:
    """A logistic model over (context, choice) pairs, right or wrong; the choice that it finds most likely right."""
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


def _nearest_target(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """The target of the training source that shares most words."""
    _check_targets(train)
    from sklearn.neighbors import NearestNeighbors

    x, y = _vectors(train, examples)
    nearest = NearestNeighbors(n_neighbors=1, metric="cosine").fit(x).kneighbors(y, return_distance=False)[:, 0]
    return [train[i].gold[0] for i in nearest]


def _unigrams(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[tuple[float, int, int]]:
    """Unigram likelihood with add-one smoothing; all words never seen share one entry of the vocabulary."""
    counts = Counter(word for e in train for word in e.inputs[0].split())
    total = sum(counts.values()) + len(counts) + 1
    scored = []
    for text in (e.inputs[0] for e in examples):
        words = text.split()
        scored.append((-sum(math.log((counts[word] + 1) / total) for word in words), len(words), len(text)))
    return scored


_PREDICTORS: dict[str, dict[Form, Predictor]] = {
    "copy": {Form.GENERATION: _sources},
    "delete": {Form.GENERATION: _less_attributes},
    "embeddings": {Form.RANKING: _embedded},
    "fasttext-classifier": {Form.CLASSIFICATION: partial(_classified, _fasttext)},
    "majority": {
        Form.CLASSIFICATION: _constant,
        Form.REGRESSION: _mean,
        Form.TAGGING: _constant_tag,
        Form.CHOICE: _constant,
        Form.SPAN: spans.usual,
        Form.GENERATION: _constant_text,
        Form.CLOZE: _usual_words,
        Form.FEW_SHOT: _first_class,
        Form.RANKING: _usual_candidates,
    },
    "bag-of-words": {
        Form.CLASSIFICATION: partial(_classified, _logistic),
        Form.REGRESSION: _ridge,
        Form.TAGGING: _tag_of_word,
        Form.CHOICE: _words_of_choices,
        Form.SPAN: spans.nearest,
        Form.GENERATION: _nearest_target,
        Form.LANGUAGE_MODELLING: _unigrams,
        Form.FEW_SHOT: _nearest_class,
    },
    **{row: {Form.GENERATION: partial(_sentences, row)} for row in summaries.ROWS},
}
