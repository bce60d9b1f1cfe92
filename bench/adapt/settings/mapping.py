"""Settings of a map between the vectors of words (`bench.adapt.mapping`)."""

from dataclasses import dataclass

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    """The map is found in one pass; the largest batches take the least time."""

    FREEZES = True
    epochs: int = settings.setting(1, "1: the map is found in one pass", lambda value: value == 1)
    batch: int = settings.positive(1024)
    layers: str = settings.one_of("embedding", "embedding", "top", "all", baked=True)
    """What a word's vector is the mean of: its embedding, what the top layer makes of it alone, or all layers."""
    mapped: int = settings.switch(1)
    """1: the vectors of questions are mapped; 0: they are compared with those of answers as they are."""
    csls: int = settings.switch(1)
    """1: cosines are corrected for words that are near to many (CSLS); 0: the nearest word is the answer."""
    neighbours: int = settings.positive(10)
    """Over how many neighbours CSLS takes its means."""
