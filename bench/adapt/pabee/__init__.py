"""PABEE: a text leaves the network when several layers in a row have given the same answer.

Zhou, Xu, Ge, McAuley, Xu and Wei (2020), "BERT Loses Patience: Fast and Robust Inference with Early Exit", section 3.
Every layer has a classifier: dropout and a linear layer on the pooled vector that the network would give if this layer
were its last one. All layers share the network's pooler. Encoder and classifiers learn together,

    loss = sum_j j L_j / sum_j j        L_j: the cross-entropy of the classifier of layer j = 1 ... L

An answer begins at the first layer. A counter is 0 there. At each further layer it rises by 1 if the layer predicts the
same class as the layer before, and is reset to 0 otherwise. A text leaves as soon as the counter is ``unchanged``, the
paper's patience t, with the prediction of this layer. After the last layer all texts leave. With ``unchanged`` 0
all layers are computed and the last classifier answers.

Loss and rule follow the authors' code (JetRunner/PABEE). That code answers one text at a time; here texts of a
batch leave one by one. Its rule for regression is not implemented: this adaptation is for classification. Encoders
without a pooler give the vector that their head would read: of the first token, of the last one, or the mean.

Training does not depend on ``unchanged``, so a run trains once for all values. The score of the last classifier on the
selection split chooses the weights. ``unchanged=0`` is the control: the same network without early exit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.settings import Learning
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """Settings of fine-tuning, and the condition for leaving."""

    unchanged: int = settings.setting(2, answering=True)
    """A text leaves when this many layers in a row have repeated the answer of the layer before; 0: no early exit."""
    layers: str = settings.one_reading("every layer has a classifier")


class Pabee(Adaptation):
    summary = "classifiers at all layers learn together, and texts leave when layers in a row agree"
    settings = Own
    compression = "exit"
    heads = {Form.CLASSIFICATION: "fastbert.head"}

    def reading(self, encoder: Any, settings: Any, *others: Any) -> Any:
        from ptmbench.bench.adapt.pabee.network import Reading

        return Reading(encoder)

    def loss(self, adapted: Any, numbers: Any, batch: Mapping[str, Any], seed: Any) -> Any:
        from ptmbench.bench.adapt.pabee.network import weighted

        return weighted(numbers, batch["label"])

    def numbers(self, adapted: Any, batch: Mapping[str, Any]) -> Any:
        """The logits, followed by the number of their layer. During training, and
        with ``unchanged=0``, all rows go through to the last layer."""
        from ptmbench.bench.adapt.pabee.network import exit_logits

        if adapted.weights_owner is None or not adapted.settings.unchanged:
            return super().numbers(adapted, batch)
        return adapted.run(exit_logits, batch, adapted.settings.unchanged)

    def flops(self, adapted: Any, rows: Sequence[Any], outputs: Sequence[Any]) -> float:
        """FLOPs of the layers that each row went through. With early exit, they include the pooler of every layer."""
        from ptmbench.bench.adapt import exits

        every = adapted.settings.unchanged > 0
        spent = 0.0
        for row, output in zip(rows, outputs, strict=True):
            left = int(output[-1])
            spent += exits.flops(adapted, row, left) + (left - 1 if every else 0) * adapted.reading.pooler_flops
        return spent

    def extra_costs(self, adapted: Any, rows: Sequence[Any], outputs: Sequence[Any]) -> Mapping[str, float]:
        from ptmbench.bench.adapt import exits

        return exits.exit_costs(adapted, rows, outputs)


ADAPTATION = Pabee()
