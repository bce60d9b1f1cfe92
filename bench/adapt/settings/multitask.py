"""Settings of learning several tasks in turns (`bench.adapt.multitask`), and the FLOPs of a task's own layer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.effort import Network, Split
from ptmbench.bench.adapt.settings import Learning
from ptmbench.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """The layer of a task begins from random weights, which takes a larger rate than those of a head. ``epochs`` are
    those of the cell's own task alone, after the others; ``max_steps`` holds for each of both."""

    VERSION = 3  # 3 as `Learning` has 2; 2 since its recurrent layers begin by the variance of Glorot and Bengio
    learning_rate: float = settings.setting(1e-3)
    head_dropout: float = settings.share(0.0, baked=True)
    """None, as in the paper."""
    beside: str = settings.names("", "tasks", baked=True)
    """The tasks whose training sets are learnt in turns with the cell's own, which may be among them; none: the same
    network for one task."""
    joint_epochs: int = settings.positive(4)
    """Passes over the training sets of all tasks, before the cell's own goes on alone."""
    layers: str = settings.one_reading("the lowest and the top layer are read")

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.beside.split("+") if name)

    def of(self, task: str) -> "Own":
        return replace(self, beside="+".join(name for name in self.others if name != task))

    def joint(self) -> "Own":
        return replace(self, epochs=self.joint_epochs)

    def tokens(self, task: Task, train: Split, report: Split, others: Sequence[Split] = ()) -> tuple[float, float]:
        """The training sets of all tasks in turns, then the cell's own once more."""
        learnt, answered = super().tokens(task, train, report)
        free = replace(self.joint(), max_steps=0)
        rows = [free.seen(split) for split in (train, *others)]
        jointly = sum(n * min(split.tokens, self.length) for n, split in zip(rows, (train, *others), strict=True))
        if self.max_steps:
            jointly *= min(1.0, self.max_steps * self.batch / sum(rows))
        return learnt + jointly, answered

    def forward(self, network: Network) -> float:
        return super().forward(network) + self.length * self.layer_flops(network.shape.width)

    def layer_flops(self, width: int) -> float:
        """FLOPs of a task's layer per token: five sums over the token's vector and the layer's own state, two over the
        shared one, all ``width`` wide."""
        return 2 * (5 + 5 + 2) * width * width
