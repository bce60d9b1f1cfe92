"""Metrics of rewriting texts with another label: the labels predicted by a classifier (the judge), and BLEU with the
references and with the sources (Li et al., 2018, section 5; Wu et al., 2019, section 4).

The judges of the papers are networks trained on the task's training texts. This one is a linear classifier, which is
the same in every run. BLEU is computed by `tasks.metrics.bleu` and not by the papers' script, so values are comparable
only within this project.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ptmbench.tasks.forms import Rewriting
from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.bleu import bleu
from ptmbench.tasks.metrics.common import hypotheses, percent
from ptmbench.tasks.task import DataError


class Judge:
    """Predicts the labels of texts by logistic regression on TF-IDF of words and word bigrams.

    ``read()`` returns the training data (texts, labels). The classifier is trained at the first call.
    """

    def __init__(self, read: Callable[[], tuple[Sequence[str], Sequence[str]]]):
        self.read = read

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """The predicted label of each text."""
        vectorizer, model = self._learnt
        return [str(label) for label in model.predict(vectorizer.transform(texts))]

    @cached_property
    def _learnt(self) -> tuple[Any, Any]:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        texts, labels = self.read()
        if len({label for text, label in zip(texts, labels, strict=True) if text.split()}) < 2:
            raise DataError(
                "The classifier needs training texts of two labels, but the files have one. Fetch all files."
            )
        vectorizer = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)
        return vectorizer, LogisticRegression(C=4.0, max_iter=1000).fit(vectorizer.fit_transform(texts), labels)


def _statistics(gold: Sequence[Any], predictions: Sequence[str]) -> np.ndarray:
    """[N, 3 + 2 K]: whether the judge predicts the wanted label for the text, whether it predicts another label for the
    source, 1, then the statistics of BLEU with the references, and those of BLEU with the sources."""
    if not all(isinstance(one, Rewriting) for one in gold):
        raise DataError("References do not include the sentences to rewrite. Name the data set's folder as gold.")
    guesses = hypotheses(predictions)
    judged = np.zeros((len(gold), 3))
    for judge in {id(one.judge): one.judge for one in gold}.values():
        rows = [i for i, one in enumerate(gold) if one.judge is judge]
        wanted = np.array([gold[i].wanted for i in rows])
        judged[rows, 0] = np.array(judge([guesses[i] for i in rows])) == wanted
        judged[rows, 1] = np.array(judge([gold[i].source for i in rows])) != wanted
    judged[:, 2] = 1.0
    sources = [(one.source,) for one in gold]
    return np.concatenate([judged, bleu.statistics(gold, guesses), bleu.statistics(sources, guesses)], axis=1)


def _value(sums: np.ndarray) -> dict[str, float]:
    right, known, total = sums[:3]
    half = (len(sums) - 3) // 2
    return {
        "accuracy": percent(right, total),
        "judge": percent(known, total),
        **bleu.value(sums[3 : 3 + half]),
        "self_bleu": bleu.value(sums[3 + half :])["bleu"],
    }


rewriting = Additive(_statistics, _value, bleu.signatures)
"""{"accuracy", "judge", "bleu", "chrf", "ter", "self_bleu"} in percent. "accuracy" is the share of texts with the
wanted label according to the judge. "judge" is the judge's own accuracy on the sources. BLEU, chrF and TER compare with
the references, and "self_bleu" compares with the sources."""
