"""Settings of fine-tuning (`bench.adapt.finetune`)."""

from dataclasses import dataclass

from ptmbench.bench.adapt.settings import Learning


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """`Learning`, with its defaults."""
