"""FastBERT: easy texts leave the network early, at a classifier after one of its layers. Liu et al. (2020), "FastBERT:
a Self-distilling BERT with Adaptive Inference Time", sections 3.1 to 3.3, equations 3 to 7.

Every layer has a branch, a small classifier over its vectors h_i. The branch of the last layer is the teacher, with
prediction p_t, all others are students, with predictions p_1 ... p_{L-1}. Training has two stages:

1. Encoder and teacher learn the task by cross-entropy, as in fine-tuning.
2. Both are frozen. The students learn from the same texts, without their labels:

    loss = sum_i D(p_i, p_t)        D(p_s, p_t) = sum_c p_s(c) log(p_s(c) / p_t(c))

An answer begins at the first layer. It is the prediction of the first branch that is certain enough, and no later layer
is computed for that text. With N classes:

    uncertainty(p) = sum_c p(c) log p(c) / log(1 / N)        a text leaves at layer i if uncertainty(p_i) < ``speed``

With ``speed`` 0 no text leaves: the teacher answers, and no other branch is computed.

A branch narrows h_i with tanh from D to W numbers, 768 to 128 in BERT-base, applies self-attention with
two heads, takes the first vector, and ends with a layer W to W, tanh, and a layer to the classes. Here W is a sixth of
D by default, so that branches stay small in small networks. Encoders that read from left to right take the vector of
the last token. Only the vector that is taken has a query: the result is the same, and keys and values are what costs.

Differences from the authors' code (autoliuweijie/FastBERT): it minimises sum_c p_t(c) log(p_t(c) / p_s(c)), which
``divergence=teacher`` chooses. It has dropout in the second stage; here there is none. It keeps the students of the
last pass; here those are kept whose loss on the selection split is lowest. It lets a text of uncertainty ``speed``
leave; here such a text stays, as in the paper.

Training does not depend on ``speed``, so a run trains once for all speeds. The task's score on the selection split
chooses the teacher. The gradients of a predictor come from the teacher's loss.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.settings import Learning
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """The teacher has as many epochs as fine-tuning, and the students have as many again; in the paper, these are 3 and
    5."""

    epochs: int = settings.positive(8)
    """Epochs of both stages together."""
    distilling: float = settings.share(0.5)
    """Share of the steps in which the students learn."""
    student_rate: float = settings.positive(10.0)
    """How many times higher the learning rate of the students is (authors' code)."""
    speed: float = settings.setting(0.5, "from 0 to 1", lambda value: 0 <= value <= 1, answering=True)
    """A text leaves at the first branch whose uncertainty is below it."""
    branch: int = settings.setting(0, baked=True)
    """W, the width of a branch; 0 is a sixth of the encoder's."""
    branch_heads: int = settings.positive(2, baked=True)
    """Heads of a branch's attention."""
    divergence: str = settings.one_of("student", "student", "teacher", baked=True)
    """Whose probabilities weigh the logarithms: the student's (the paper), or the teacher's (authors' code)."""
    layers: str = settings.one_reading("every layer has a branch")

    def branch_width(self, width: int) -> int:
        """W under an encoder that is ``width`` wide: a multiple of the number of heads."""
        heads = self.branch_heads
        return max(1, round((self.branch or width / 6) / heads)) * heads

    def branch_flops(self, width: int, length: float) -> float:
        """FLOPs of one branch over ``length`` tokens: narrowing, keys and values, and one query."""
        W = self.branch_width(width)
        return length * (2 * width * W + 4 * W * W + 4 * W) + 6 * W * W

    def flops(self, network: Network, form: Form) -> tuple[float, float]:
        """FLOPs of a step and of an answer. Exits are not known in advance, so an answer is counted without them."""
        read, students = self.forward(network), network.shape.layers - 1
        branch = self.branch_flops(network.shape.width, self.length)
        first, second = 3 * (read + branch), read + branch + 3 * students * branch
        learning = (1 - self.distilling) * first + self.distilling * second
        return learning, read + branch * (1 + (students if self.speed else 0))


class FastBert(Adaptation):
    summary = "after fine-tuning, small classifiers learn from the last one, and easy texts leave at a lower layer"
    settings = Own
    compression = "exit"
    heads = {Form.CLASSIFICATION: "fastbert.head"}

    def reading(self, encoder: Any, settings: Any, *others: Any) -> Any:
        from ptmbench.bench.adapt.fastbert.network import Reading

        return Reading(encoder, settings)

    def second(self, reading: Any, head: Any) -> Sequence[Any]:
        return [variable for layer in (*reading.students, head.students) for variable in layer.trainable_variables]

    def second_stage_start(self, steps: int, settings: Any) -> int:
        return max(1, steps - round(steps * settings.distilling))

    def rate(self, step: Any, number: int, steps: int, settings: Any) -> float:
        """Each stage has a warm-up of its own."""
        second_start = self.second_stage_start(steps, settings)
        if number < second_start:
            return super().rate(step, number, second_start, settings)
        return settings.student_rate * super().rate(step, number - second_start, steps - second_start, settings)

    def loss(self, adapted: Any, numbers: Any, batch: Mapping[str, Any], seed: Any) -> Any:
        from ptmbench.bench.adapt.fastbert.network import distilled

        if adapted.second:
            return distilled(numbers, adapted.settings.divergence)
        return super().loss(adapted, numbers, batch, seed)

    def by_loss(self, adapted: Any) -> bool:
        """The students are trained without labels, and also selected without them."""
        return adapted.second

    def numbers(self, adapted: Any, batch: Mapping[str, Any]) -> Any:
        """The logits, followed by the number of their layer. During training and with ``speed`` 0, these are the
        teacher's."""
        from ptmbench.bench.adapt.fastbert.network import exit_logits

        if adapted.weights_owner is None or not adapted.settings.speed:
            return super().numbers(adapted, batch)
        return adapted.run(exit_logits, batch, adapted.settings.speed)

    def flops(self, adapted: Any, rows: Sequence[Any], outputs: Sequence[Any]) -> float:
        """FLOPs of the layers up to those at which the rows left, and of all branches on the way. A pooler is always
        counted."""
        from ptmbench.bench.adapt import exits

        early, spent = adapted.settings.speed > 0, 0.0
        for row, output in zip(rows, outputs, strict=True):
            left = int(output[-1])
            spent += exits.flops(adapted, row, left) + (left if early else 1) * adapted.reading.branch_flops(row)
        return spent

    def extra_costs(self, adapted: Any, rows: Sequence[Any], outputs: Sequence[Any]) -> Mapping[str, float]:
        from ptmbench.bench.adapt import exits

        return exits.exit_costs(adapted, rows, outputs)


ADAPTATION = FastBert()
