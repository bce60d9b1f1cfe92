"""What a checkpoint says of the pre-trainings that it was made with: its base, its teacher, and what all of them cost.

`bench.runs.pretrain` writes it into the manifest. A pre-training that two others need is counted once.
"""

from collections.abc import Mapping
from typing import Any

from ptmbench.bench.engine.checkpoint import Checkpoint

_COSTS = ("steps", "tokens", "flops", "seconds")


def told(own: Mapping[str, Any], others: Mapping[str, Checkpoint | None]) -> dict[str, Any]:
    """What the manifest of a pre-training with the costs ``own`` says of ``others``, by their roles: each of them under
    its role, and

    earlier    the costs of each pre-training before it, by the sum of its weights
    including  the costs of all of these and its own; None where one is not known
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
    return {role: _about(one) for role, one in there.items()} | {"earlier": earlier, "including": including}


def _about(other: Checkpoint) -> dict[str, Any]:
    names = ("model", "size", "corpus", "corpus_sha256", *_COSTS)
    return {"weights_sha256": other.weights_sha256, **{name: other.about.get(name) for name in names}}


def _before(other: Checkpoint) -> dict[str, Any]:
    """The costs of ``other`` and of each pre-training before it, by the sum of its weights."""
    about = other.about
    if "including" in about and "earlier" not in about:  # of a version that kept nothing but the total
        return {other.weights_sha256: about["including"]}
    return {**about.get("earlier", {}), other.weights_sha256: {name: about.get(name) for name in _COSTS}}
