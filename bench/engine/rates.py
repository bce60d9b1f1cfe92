"""Learning rate schedules: a linear warm-up to the peak, then one of several curves."""

import math
from collections.abc import Callable

SCHEDULES: dict[str, Callable[[float, float], float]] = {
    "linear": lambda gone, since: 1.0 - gone,
    "cosine": lambda gone, since: 0.5 * (1.0 + math.cos(math.pi * gone)),
    "constant": lambda gone, since: 1.0,
    "inverse_sqrt": lambda gone, since: since**-0.5,
}
"""The learning rate after the warm-up, as a share of the peak, by name. A schedule is a function of the share of the
steps after the warm-up that are done, and of the step in units of the warm-up's length. Sources: Devlin et al. (2019)
for "linear"; Loshchilov & Hutter (2017), equation 5, for "cosine"; Vaswani et al. (2017), equation 3, for
"inverse_sqrt"."""


def rate_at(step: int, steps: int, *, peak: float, warmup: float, schedule: str = "linear") -> float:
    """The learning rate at ``step`` (from 0) of ``steps``. It rises to ``peak`` over the share ``warmup`` of the steps,
    and then follows ``schedule``."""
    rising = max(1, round(steps * warmup))
    if step < rising:
        return peak * (step + 1) / rising
    gone = min(1.0, (step - rising) / max(1, steps - rising))
    return peak * SCHEDULES[schedule](gone, (step + 1) / rising)
