"""Feature extraction: the encoder is frozen; a scalar mix of its layers, or one of them, feeds a small head.

Survey, sections 4.2.2 and 4.3.1.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Split
from ptmbench.bench.adapt.settings import Learning
from ptmbench.bench.errors import NotApplicable
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """`Learning` with other defaults."""

    FREEZES = True
    learning_rate: float = settings.setting(2e-3)
    epochs: int = settings.positive(8)
    patience: int = settings.setting(3)

    def rows_read(self, split: Split) -> float:
        """The encoder reads each row once. This assumes that the vectors of all rows fit into `network.ROOM`."""
        return min(super().rows_read(split), self._limited(split))


class Features(Adaptation):
    summary = "frozen encoder; a scalar mix of all layers and a small head learn"
    settings = Own

    def head(self, form: Form) -> str:
        if form is Form.GENERATION:
            raise NotApplicable(
                "no-head", "because generation needs a decoder that is trained, and frozen features have no decoder."
            )
        return super().head(form)

    def reading(self, encoder: Any, settings: Any, *others: Any) -> Any:
        from ptmbench.bench.adapt.features.network import Reading

        return Reading(encoder, settings)

    def precompute_vectors(self, adapted: Any, rows: Any) -> tuple[Any, float]:
        from ptmbench.bench.adapt.features.network import read_once

        return read_once(adapted, rows)


ADAPTATION = Features()
