"""The part of a checkpoint's manifest about earlier pre-trainings: its base, its teacher, and their total cost.

`bench.runs.pretrain` writes it. A pre-training that two others need is counted once.
"""

from collections.abc import Mapping
from typing import Any

from ptmbench.bench.engine.checkpoint import Checkpoint

_COSTS = ("steps", "tokens", "flops", "seconds")


def manifest_entries(own: Mapping[str, Any], others: Mapping[str, Checkpoint | None]) -> dict[str, Any]:
    """Returns the manifest entries of a pre-training with the costs ``own``, made from ``others``, checkpoints by role:

    ROLE       the checkpoint with this role: its model, corpus and costs
    earlier    the costs of each earlier pre-training, by the SHA-256 of its weights
    including  the total of ``own`` and all ``earlier`` costs; None where one is unknown
    """
    there = {role: one for role, one in others.items() if one is not None}
    if not there:
        return {}
    earlier: dict[str, Any] = {}
    for one in there.values():
        earlier |= _before(one)
    rows = [own, *earlier.values()]
    known = {name: [row.get(name) for row in rows] for name in _COSTS}
    including = {name: None if None in values else sum(values) for name, values in known.items()}
    return {role: _about(one, own) for role, one in there.items()} | {"earlier": earlier, "including": including}


def _about(other: Checkpoint, own: Mapping[str, Any]) -> dict[str, Any]:
    names = ["model", "size", "corpus", "corpus_sha256", *_COSTS]
    if other.about.get("tokenizer") != own.get("tokenizer"):
        names.append("tokenizer")
    return {"weights_sha256": other.weights_sha256, **{name: other.about.get(name) for name in names}}


def _before(other: Checkpoint) -> dict[str, Any]:
    """The costs of ``other`` and of the pre-trainings before it, by the SHA-256 of their weights."""
    about = other.about
    if "including" in about and "earlier" not in about:  # an older version kept only the total
        return {other.weights_sha256: about["including"]}
    return {**about.get("earlier", {}), other.weights_sha256: {name: about.get(name) for name in _COSTS}}
