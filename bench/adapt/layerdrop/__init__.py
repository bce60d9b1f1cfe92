"""LayerDrop: fine-tuning leaves out whole layers at random, so that layers can be taken out afterwards.

Fan, Grave and Joulin (2020), "Reducing Transformer Depth on Demand with Structured Dropout", section 3.2. In each
training step every layer f_i is left out with probability p = ``drop``, independently of the others:

    x_i = m_i f_i(x_{i-1}) + (1 - m_i) x_{i-1}        m_i ~ Bernoulli(1 - p)

A layer that is kept is not scaled, as in fairseq. Predictions use all layers. The trained model loses less than a plain
one when layers are removed without further training. The paper prunes every other layer
(``--transform layers:by=alternate``): with a share p of N layers, those at depths d = 0 mod floor(1 / p).

The paper drops layers in pre-training too, which a run here does not do. ``drop=0`` is plain fine-tuning.

Controls: the same ``layers`` transform after `finetune`, and ``layers:by=random`` after this one.

A layer that is left out is not computed. Training FLOPs are counted as their mean over the draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.finetune import FineTuning
from ptmbench.bench.adapt.settings import Learning
from ptmbench.bench.errors import NotApplicable


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """Settings of fine-tuning, and the share of layers that a step leaves out."""

    drop: float = settings.share(0.2, baked=True)
    """Probability that a training step leaves a layer out."""


class LayerDrop(FineTuning):
    summary = "all weights learn while whole layers are left out at random, so that layers can be removed afterwards"
    systems = ()
    settings = Own
    compression = "pruning"

    def extend(self, network: Any, decoding: Any, settings: Any) -> Any:
        from ptmbench.bench.adapt.layerdrop.network import LeavingOut
        from ptmbench.bench.adapt.parts import check_stepwise

        if decoding is not None:
            raise NotApplicable("decoder", "because a decoder answers this task, and only encoders leave layers out.")
        check_stepwise(network.encoder, "none of them can be left out")
        network.encoder.stack.detour = LeavingOut(settings.drop)
        return super().extend(network, decoding, settings)

    def skipped_flops(self, adapted: Any, rows: Sequence[Any]) -> float:
        stack = adapted.network.encoder.config.stack
        return adapted.settings.drop * sum(stack.flops(row.tokens, row.tokens) for row in rows)


ADAPTATION = LayerDrop()
