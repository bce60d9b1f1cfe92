"""Settings of mask and infill (`bench.adapt.infill`)."""

from dataclasses import dataclass

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.settings import Learning


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """Sentences are short, and each has a few blanks to learn from."""

    WRITES = False
    epochs: int = settings.positive(6)
    learning_rate: float = settings.setting(3e-4)
    patience: int = settings.setting(2)
    length: int = settings.positive(64)
    beam: int = settings.setting(1, "1: every blank gets its likeliest piece", lambda value: value == 1)
    layers: str = settings.one_reading("the model fills blanks as it learnt to")
    salience: float = settings.setting(0.0)
    """From where on a run of words says the label (gamma of `bench.attributes`); 0 is the task's own."""
    smoothing: float = settings.positive(1.0)
    """lambda of `bench.attributes`."""
