"""How well texts were rewritten under another label: what a judge says of them, and how near they are to a reference
and to where they come from (Li et al., 2018, section 5; Wu et al., 2019, section 4).

The papers' judges are networks that were trained on the task's own training texts; this one is a linear classifier,
which is the same one in every run. BLEU is computed by `tasks.metrics.bleu` and not by the papers' script, so numbers
compare only within this project.
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
    """Tells the label of a text: logistic regression on TF-IDF of words and pairs of neighbours, learnt when it is
    first asked from what ``read()`` gives, (texts, labels)."""

    def __init__(self, read: Callable[[], tuple[Sequence[str], Sequence[str]]]):
        self.read = read

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """The label of each text."""
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
    """[N, 3 + 2 K]: texts that the judge finds as wanted, sources that it finds otherwise, one; then the statistics of
    BLEU with the references, and with the sources."""
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
"""{"accuracy", "judge", "bleu", "chrf", "ter", "self_bleu"} in percent: how many texts the judge finds as wanted, how
many sources it finds as they are, BLEU, chrF and TER with the references, and BLEU with the sources."""
