"""Matching: chooses the candidate summary whose vector is nearest to the text (MATCHSUM).

Zhong et al. (2020); survey, section 7.6. `bench.adapt.extract` is trained first, from the same weights. Candidates are
made of the sentences with its highest scores.

Extraction takes the best sentences one by one. Here candidates are judged as wholes, because good sentences can say the
same thing twice. One encoder reads the text and each candidate separately.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Split
from ptmbench.bench.adapt.extract import Own as Extract
from ptmbench.bench.adapt.settings import Learning
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """A row has a text and about twenty summaries, all padded to the longest, so a batch has few rows."""

    WRITES = False
    length: int = settings.positive(256)
    epochs: int = settings.positive(3)
    batch: int = settings.positive(4)
    learning_rate: float = settings.setting(1e-4)
    sentences: int = settings.setting(0)
    """Sentences of a candidate, or one less; 0: as many as the task's ``lead`` baseline takes, but at least 2."""
    ranked: int = settings.positive(5)
    """Number of sentences with the highest scores that candidates are made of."""
    margin: float = settings.setting(0.01)
    """How much nearer to the text a candidate should be than the next worse one."""
    gold_margin: float = settings.setting(0.0)
    """How much nearer than any candidate the reference should be."""
    inter_layers: int = settings.setting(2)
    """Layers over sentence vectors in the adaptation `extract`, which is trained first and scores the sentences."""
    extract_epochs: int = settings.positive(4)
    """Epochs of `extract`."""
    extract_batch: int = settings.positive(16)
    """Texts in a training step of `extract`."""
    extract_rate: float = settings.setting(3e-4)
    """Peak learning rate of `extract`."""

    def tokens(self, task: Task, train: Split, report: Split, others: Sequence[Split] = ()) -> tuple[float, float]:
        """Tokens of a text, its candidates and, in training, its reference. All are padded to the length of the
        text."""
        learnt, answered = super().tokens(task, train, report)
        most = max(2, self.sentences or task.extra.get("lead", 0))
        candidates = sum(math.comb(self.ranked, size) for size in (most - 1, most))
        return learnt * (2 + candidates), answered * (1 + candidates)

    def extract(self) -> Extract:
        """The settings of the extraction that scores the sentences."""
        return Extract(
            epochs=self.extract_epochs,
            batch=self.extract_batch,
            learning_rate=self.extract_rate,
            warmup=self.warmup,
            weight_decay=self.weight_decay,
            **{name: getattr(self, name) for name in ("beta1", "beta2", "epsilon", "bias_correction")},
            clip=self.clip,
            dropout=self.dropout,
            length=self.length,
            patience=self.patience,
            evaluations=self.evaluations,
            max_steps=self.max_steps,
            selection=self.selection,
            sentences=self.sentences,
            inter_layers=self.inter_layers,
        )


class Matching(Adaptation):
    summary = "extraction, then all weights learn which candidate summary lies nearest to the text"
    settings = Own
    heads = {Form.GENERATION: "match.head"}

    def reading(self, encoder: Any, settings: Any, *others: Any) -> Any:
        from ptmbench.bench.adapt.finetune.network import Reading

        return Reading(encoder, settings)


ADAPTATION = Matching()
