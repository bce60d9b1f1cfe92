"""Records the largest difference of each test, for the table at the end of a run."""

import os

LARGEST: dict[tuple[str, str], float] = {}
"""Differences by test and by kind: "vectors", "gradient" or "loss"."""


def noted(what: str, gap: float) -> float:
    """Records ``gap`` if it is the running test's largest of this kind. Returns ``gap``."""
    key = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0], what
    LARGEST[key] = max(float(gap), LARGEST.get(key, 0.0))
    return float(gap)
