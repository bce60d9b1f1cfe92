"""The most frequent answer of the training set for all examples, or the mean if answers are numbers.

If the training file is missing, it is the most frequent answer of the dev split, or else of the reported split itself.
In the last case, no constant answer can be better. The row's label names the split.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.bench.baselines import Training
from ptmbench.bench.baselines._shared import check_targets, most_common
from ptmbench.tasks.forms import Form, Rank
from ptmbench.tasks.metrics.ranks import rank
from ptmbench.tasks.task import Example, Task

LABEL = "majority"


def by_default(task: Task) -> bool:
    return True


def _constant(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[Any]:
    return [most_common([e.gold for e in train])] * len(examples)


def _mean(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[float]:
    return [float(np.mean([e.gold for e in train]))] * len(examples)


def _constant_tag(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[list[str]]:
    tag = most_common([tag for e in train for tag in e.gold])
    return [[tag] * len(e.inputs) for e in examples]


def _constant_text(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    check_targets(train)
    return [most_common([e.gold[0] for e in train])] * len(examples)


def _first_class(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """The class of the first solved text: no class is more frequent than another."""
    return [example.inputs[1].name for example in examples]


def _usual_candidates(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[Rank]:
    """Ranks candidates by how often they are the answer of training examples with the same last text, the relation."""
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


def _usual_words(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[Rank]:
    """Ranks words by how often they are the answer of their relation among ``examples`` themselves. This is Freq of
    Petroni et al. (2019), section 4.2, a baseline that has seen the answers."""
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


def _usual_span(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """The most frequent answer of ``train`` for every question; "" stands for no answer."""
    answers = [e.gold[0].text if e.gold else "" for e in train]
    return [most_common(answers) if answers else ""] * len(examples)


PREDICTORS = {
    Form.CLASSIFICATION: _constant,
    Form.REGRESSION: _mean,
    Form.TAGGING: _constant_tag,
    Form.CHOICE: _constant,
    Form.SPAN: _usual_span,
    Form.GENERATION: _constant_text,
    Form.CLOZE: _usual_words,
    Form.FEW_SHOT: _first_class,
    Form.RANKING: _usual_candidates,
}
TRAINING = dict.fromkeys(PREDICTORS, Training.REPLACEABLE) | {Form.FEW_SHOT: Training.UNUSED}
