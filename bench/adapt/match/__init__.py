"""Matching: chooses the candidate summary whose vector is nearest to the text (MATCHSUM).

Zhong et al. (2020); survey, section 7.6. `bench.adapt.extract` learns first, from the same weights, and its scores say
what candidates are made of.

Both judge sentences of the text. Extraction takes the best ones, one by one; here candidates are judged as wholes, for
good sentences can say the same thing twice. Text and candidate become vectors of one encoder, each on its own.
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
    """A row is a text and some twenty summaries, all of them filled up to the longest: few rows make a batch."""

    WRITES = False
    length: int = settings.positive(256)
    epochs: int = settings.positive(3)
    batch: int = settings.positive(4)
    learning_rate: float = settings.setting(1e-4)
    sentences: int = settings.setting(0)
    """Sentences of a candidate, or one less; 0: as many as the task's first-sentences row has, but not only one."""
    ranked: int = settings.positive(5)
    """Number of sentences with the highest scores that candidates are made of."""
    margin: float = settings.setting(0.01)
    """How much nearer to the text a candidate should be than the next worse one."""
    gold_margin: float = settings.setting(0.0)
    """How much nearer than any candidate the reference should be."""
    inter_layers: int = settings.setting(2)
    extract_epochs: int = settings.positive(4)
    extract_batch: int = settings.positive(16)
    extract_rate: float = settings.setting(3e-4)
    """What `bench.adapt.extract` learns by, which scores the sentences first."""

    def tokens(self, task: Task, train: Split, report: Split, others: Sequence[Split] = ()) -> tuple[float, float]:
        """Of a text, its candidates and, to learn from, its reference: all as long as the text, to which they are
        filled up."""
        learnt, answered = super().tokens(task, train, report)
        most = max(2, self.sentences or task.extra.get("lead", 0))
        candidates = sum(math.comb(self.ranked, size) for size in (most - 1, most))
        return learnt * (2 + candidates), answered * (1 + candidates)

    def extract(self) -> Extract:
        """The settings that sentences are scored with."""
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
