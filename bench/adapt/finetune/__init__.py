"""Fine-tuning: all weights of the encoder are trained with the head (survey, section 4.3.1)."""

from typing import Any

from ptmbench.bench.adapt.contract import Adaptation


class FineTuning(Adaptation):
    summary = "all weights learn; the head reads the last layer, or what --set layers says"
    systems = ("Two-stage FT",)  # with ``after=TASK``

    def reading(self, encoder: Any, settings: Any, *others: Any) -> Any:
        from ptmbench.bench.adapt.finetune.network import Reading

        return Reading(encoder, settings)


ADAPTATION = FineTuning()
