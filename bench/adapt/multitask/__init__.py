"""Multi-task learning: tasks share a network, each has its own recurrent layer and head, and they train in turns.

Liu, Qiu and Huang (2016), the shared-layer architecture (model III). x_t is the lowest layer of the encoder (the
token vectors) and s_t its top layer. h_t and c_t are the state of the recurrent layer of task m. Its weights belong
to m alone:

    g_t = s(W_g x_t + U_g h_{t-1})                        how much of its own past comes in
    v_t = s(W_g x_t + V_g s_t)                            how much of the shared layer does
    a_t = tanh(W_a x_t + g_t * U_a h_{t-1} + v_t * V_a s_t)
    c_t = s(W_f x_t + U_f h_{t-1}) * c_{t-1} + s(W_i x_t + U_i h_{t-1}) * a_t
    h_t = s(W_o x_t + U_o h_{t-1}) * tanh(c_t)

The head of m reads h_t after the last token. A batch has texts of one task. The tasks come in random order, each in
proportion to the size of its training set (``joint_epochs``). Then the cell's own task is trained alone, from the
weights that were best for it (the paper's fine-tuning). Only this task is scored. Of the paper's three architectures,
this one has a shared layer that can be pre-trained. LM-LSTM and SA-LSTM correspond to the paper's "+ LM" row, their
random twins to the row without it. Without ``auxiliary`` tasks the same network learns a single task, with as many
passes over its texts.

Differences from the paper:

- The shared layer is the encoder of the model. An LSTM language model reads from left to right; the paper's shared
  layer reads in both directions, as ELMo does.
- All tasks share the token vectors.
- The cells have biases, and no connections from the cell state to the gates.
- The optimizer is AdamW, as in every adaptation. Its momentum still moves the layer of a task a little during the
  steps of other tasks.
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
class MultitaskSettings(Learning):
    """Settings of an adaptation whose network learns several tasks in turns, and then the cell's own task alone.
    ``epochs`` counts the passes over the own task after the joint passes. ``max_steps`` limits each part."""

    auxiliary: str = settings.names("", "tasks", baked=True)
    """The auxiliary tasks, whose training examples alternate with the examples of the cell's own task. The own task
    may be among them, so that one setting serves all cells. If empty, the same network learns the own task alone."""
    joint_epochs: int = settings.positive(4)
    """Passes over the training sets of all tasks, before the cell's own task is trained alone."""

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.auxiliary.split("+") if name)

    def of(self, task: str) -> "MultitaskSettings":
        return replace(super().of(task), auxiliary="+".join(name for name in self.others if name != task))

    def joint(self) -> "MultitaskSettings":
        return replace(self, epochs=self.joint_epochs)

    def tokens(self, task: Task, train: Split, report: Split, others: Sequence[Split] = ()) -> tuple[float, float]:
        """The tokens of the joint passes over all training sets and of the passes over the cell's own one, and the
        tokens to answer."""
        learnt, answered = super().tokens(task, train, report)
        free = replace(self.joint(), max_steps=0)
        rows = [free.rows_read(split) for split in (train, *others)]
        jointly = sum(n * min(split.tokens, self.length) for n, split in zip(rows, (train, *others), strict=True))
        if self.max_steps:
            jointly *= min(1.0, self.max_steps * self.batch / sum(rows))
        return learnt + jointly, answered


@dataclass(frozen=True, kw_only=True)
class Own(MultitaskSettings):
    """The layer of a task starts from random weights, which needs a higher learning rate than a head does."""

    VERSION = 3  # 3: version 2 of `Learning`; 2: recurrent layers initialised with the variance of Glorot and Bengio
    learning_rate: float = settings.setting(1e-3)
    head_dropout: float = settings.share(0.0, baked=True)
    """No dropout, as in the paper."""
    layers: str = settings.one_reading("the lowest and the top layer are read")

    def forward(self, network: Network) -> float:
        return super().forward(network) + self.length * self.layer_flops(network.shape.width)

    def layer_flops(self, width: int) -> float:
        """FLOPs per token of the layer of a task: five matrix products with the token vector, five with the layer's own
        state and two with the shared layer, all of size ``width`` x ``width``."""
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
