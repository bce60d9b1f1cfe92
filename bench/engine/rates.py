"""Learning rates over the course of a training: up to the peak over the warm-up, then one of several ways on. Pure."""

import math
from collections.abc import Callable

SCHEDULES: dict[str, Callable[[float, float], float]] = {
    "linear": lambda gone, since: 1.0 - gone,
    "cosine": lambda gone, since: 0.5 * (1.0 + math.cos(math.pi * gone)),
    "constant": lambda gone, since: 1.0,
    "inverse_sqrt": lambda gone, since: since**-0.5,
}
"""Name to the share of the peak rate, from the share of the steps after the warm-up that are gone, and from the step
in units of the warm-up's length. Devlin et al. (2019); Loshchilov & Hutter (2017), equation 5; none; Vaswani et al.
(2017), equation 3."""


def rate_at(step: int, steps: int, *, peak: float, warmup: float, schedule: str = "linear") -> float:
    """Learning rate at ``step`` (from 0) of ``steps``: up to ``peak`` over the share ``warmup`` of the steps, then on
    by ``schedule``."""
    rising = max(1, round(steps * warmup))
    if step < rising:
        return peak * (step + 1) / rising
    gone = min(1.0, (step - rising) / max(1, steps - rising))
    return peak * SCHEDULES[schedule](gone, (step + 1) / rising)
