"""Settings of frozen features: only a small head learns, which takes larger and more steps."""

from dataclasses import dataclass

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.settings import Learning


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """`Learning` with other defaults."""

    FREEZES = True
    learning_rate: float = settings.setting(2e-3)
    epochs: int = settings.positive(8)
    patience: int = settings.setting(3)
