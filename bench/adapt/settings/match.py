"""Settings of summaries by matching (`bench.adapt.match`)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.effort import Split
from ptmbench.bench.adapt.settings import Learning
from ptmbench.bench.adapt.settings.extract import Own as Extract
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
    """Sentences that candidates are made of: those of the highest scores."""
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
