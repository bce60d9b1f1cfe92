"""The table at the end: how far our networks are from their references; and the arrays that are kept of references."""

import numpy as np
import pytest

from tests.models import frozen
from tests.models.references.differences import LARGEST, noted
from tests.models.test_frozen import OURS

_COLUMNS = ("vectors", "gradient", "loss")


@pytest.fixture
def hold(request):
    """``hold(name, about, shapes, expected, **given)`` compares our network with what the reference computed just now,
    and that with what is kept under ``name``; with ``--freeze`` it is kept instead (`tests.models.frozen`)."""

    def held(
        name: str, about: str, shapes: dict, expected: dict, deviation=0.1, tolerance=frozen.TOLERANCE, **given
    ) -> None:
        script = request.node.nodeid.partition("[")[0]
        new = frozen.Frozen(
            about=f"{about}; python -m pytest --freeze {script}",
            shapes={key: tuple(shape) for key, shape in shapes.items()},
            given={key: np.asarray(value) for key, value in given.items()},
            expected={key: _small(value) for key, value in expected.items()},
            deviation=deviation,
            tolerance=tolerance,
        )
        noted("vectors", frozen.compare(OURS[name](new), new.expected, tolerance))
        if request.config.getoption("freeze"):
            frozen.write(name, new)
        kept = frozen.read(name)
        assert {key: tuple(shape) for key, shape in kept.shapes.items()} == new.shapes
        frozen.compare(new.expected, kept.expected, tolerance)

    return held


def _small(value) -> np.ndarray:
    """Floating point numbers as float32."""
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def pytest_terminal_summary(terminalreporter) -> None:
    if not LARGEST:
        return
    terminalreporter.write_sep("=", f"largest differences in float32: {', '.join(_COLUMNS)}")
    for test in sorted({test for test, _ in LARGEST}):
        found = [LARGEST.get((test, what)) for what in _COLUMNS]
        shown = "  ".join("       " if gap is None else f"{gap:.1e}" for gap in found)
        terminalreporter.write_line(f"{shown}  {test.removeprefix('tests/models/references/')}")
