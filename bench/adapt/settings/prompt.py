"""Settings of prompts (`bench.adapt.prompt`)."""

from collections.abc import Sequence
from dataclasses import dataclass

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.effort import Network, Split
from ptmbench.bench.adapt.settings import Settings
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    """What a prompt says, and how answers to it compare."""

    shots: int = settings.setting(0)
    """Solved examples in a prompt."""
    per_token: int = settings.switch(1)
    """1: answers compare by the mean over their tokens; 0: by the sum, which favours short ones."""

    layers: str = settings.one_reading("the model reads on as it learnt to")

    def tokens(self, task: Task, train: Split, report: Split, others: Sequence[Split] = ()) -> tuple[float, float]:
        """Nothing is learnt; there is a row for each answer, as long as its solved examples make it."""
        each = min(report.tokens * (1 + self.shots), self.length)
        return 0.0, report.examples * each * max(len(task.labels), 2)

    def flops(self, network: Network, form: Form) -> tuple[float, float]:
        return 0.0, network.likelihood(self.length)
