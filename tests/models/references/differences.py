"""The largest differences found, for the table at the end of a run."""

import os

LARGEST: dict[tuple[str, str], float] = {}
"""By (test, "vectors", "gradient" or "loss")."""


def noted(what: str, gap: float) -> float:
    """``gap``, kept if no larger one of this kind was found by the test that is running."""
    key = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0], what
    LARGEST[key] = max(float(gap), LARGEST.get(key, 0.0))
    return float(gap)
