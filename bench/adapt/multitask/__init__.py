"""Multi-task learning: tasks share a network, each has its own recurrent layer and head, and they train in turns.

Liu, Qiu and Huang (2016), the shared-layer architecture (model III). With x_t the lowest layer of the encoder, the
vectors of the tokens, s_t its top layer, and h_t, c_t the state of task m's own layer, whose weights are all m's:

    g_t = s(W_g x_t + U_g h_{t-1})                        how much of its own past comes in
    v_t = s(W_g x_t + V_g s_t)                            how much of the shared layer does
    a_t = tanh(W_a x_t + g_t * U_a h_{t-1} + v_t * V_a s_t)
    c_t = s(W_f x_t + U_f h_{t-1}) * c_{t-1} + s(W_i x_t + U_i h_{t-1}) * a_t
    h_t = s(W_o x_t + U_o h_{t-1}) * tanh(c_t)

and the head of m reads h_t after the last token. A batch has texts of one task, and the tasks come in random order,
each in proportion to its training set (``joint_epochs``). Then the cell's own task goes on alone, the paper's
fine-tuning, from what was best for it; only that one is scored. Of the paper's three architectures it is this one whose
shared layer can be pre-trained: LM-LSTM and SA-LSTM make its "+ LM" row, their random twins the one without. Without
``auxiliary`` tasks the same network learns a single task by as many passes over its texts.

Differences: the shared layer is whatever encoder the model has, from left to right with an LSTM language model, where
the paper's reads both ways (ELMo's does); all tasks share the vectors of tokens; the cells have biases, and no
connections to the gates; the optimizer is AdamW as in every adaptation, under which the layer of a task still moves
a little, by its momentum, in the steps of another.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Network, Split
from ptmbench.bench.adapt.settings import Learning
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Turns(Learning):
    """Settings of an adaptation whose network learns several tasks in turns, and then the cell's own task alone.
    ``epochs`` are passes over the cell's own task alone, after the joint passes; ``max_steps`` limits either part."""

    auxiliary: str = settings.names("", "tasks", baked=True)
    """The auxiliary tasks, whose training examples alternate with the examples of the cell's own task. The own task
    may be among them, so that one setting serves all cells. None: the same network for one task."""
    joint_epochs: int = settings.positive(4)
    """Passes over the training sets of all tasks, before the cell's own goes on alone."""

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.auxiliary.split("+") if name)

    def of(self, task: str) -> "Turns":
        return replace(super().of(task), auxiliary="+".join(name for name in self.others if name != task))

    def joint(self) -> "Turns":
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


@dataclass(frozen=True, kw_only=True)
class Own(Turns):
    """The layer of a task begins from random weights, which takes a larger rate than a head does."""

    VERSION = 3  # 3 as `Learning` has 2; 2 since its recurrent layers begin by the variance of Glorot and Bengio
    learning_rate: float = settings.setting(1e-3)
    head_dropout: float = settings.share(0.0, baked=True)
    """None, as in the paper."""
    layers: str = settings.one_reading("the lowest and the top layer are read")

    def forward(self, network: Network) -> float:
        return super().forward(network) + self.length * self.layer_flops(network.shape.width)

    def layer_flops(self, width: int) -> float:
        """FLOPs of a task's layer per token: five sums over the token's vector and the layer's own state, two over the
        shared one, all ``width`` wide."""
        return 2 * (5 + 5 + 2) * width * width


class Multitask(Adaptation):
    summary = "a shared network, a recurrent layer and a head for each task; tasks learn in turns, then one alone"
    systems = ("Multi-task FT",)
    settings = Own
    heads = {Form.CLASSIFICATION: "multitask.head"}

    def reading(self, encoder: Any, settings: Any, *others: Any) -> Any:
        from ptmbench.bench.adapt.multitask.network import Reading

        return Reading(encoder, settings)


ADAPTATION = Multitask()
