"""Settings of prompts (`bench.adapt.prompt`)."""

from dataclasses import dataclass

from bench.adapt import settings
from bench.adapt.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    """What a prompt says, and how answers to it compare."""

    shots: int = settings.setting(0)
    """Solved examples in a prompt."""
    per_token: int = settings.switch(1)
    """1: answers compare by the mean over their tokens; 0: by the sum, which favours short ones."""
