"""A fixture that compares with references and stores their outputs, and a table of differences at the end of a run."""

import numpy as np
import pytest

from tests.models import frozen
from tests.models.references.differences import LARGEST, noted
from tests.models.test_frozen import OURS

_COLUMNS = ("vectors", "gradient", "loss")


@pytest.fixture
def hold(request):
    """Returns ``hold(name, about, shapes, expected, **given)``, which makes two comparisons (`tests.models.frozen`).

    It compares our outputs with ``expected``, the reference's current outputs, and these with the stored ones of the
    comparison ``name``. With ``--freeze``, it first stores the current outputs.
    """

    def compare(
        name: str, about: str, shapes: dict, expected: dict, deviation=0.1, tolerance=frozen.TOLERANCE, **given
    ) -> None:
        script = request.node.nodeid.partition("[")[0]
        new = frozen.Frozen(
            about=f"{about}; python -m pytest --freeze {script}",
            shapes={key: tuple(shape) for key, shape in shapes.items()},
            given={key: np.asarray(value) for key, value in given.items()},
            expected={key: _as_float32(value) for key, value in expected.items()},
            deviation=deviation,
            tolerance=tolerance,
        )
        noted("vectors", frozen.compare(OURS[name](new), new.expected, tolerance))
        if request.config.getoption("freeze"):
            frozen.write(name, new)
        kept = frozen.read(name)
        assert {key: tuple(shape) for key, shape in kept.shapes.items()} == new.shapes
        frozen.compare(new.expected, kept.expected, tolerance)

    return compare


def _as_float32(value) -> np.ndarray:
    """Returns ``value`` as an array, with floating-point numbers as float32."""
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def pytest_terminal_summary(terminalreporter) -> None:
    if not LARGEST:
        return
    terminalreporter.write_sep("=", f"largest differences in float32: {', '.join(_COLUMNS)}")
    for test in sorted({test for test, _ in LARGEST}):
        gaps = [LARGEST.get((test, what)) for what in _COLUMNS]
        shown = "  ".join("       " if gap is None else f"{gap:.1e}" for gap in gaps)
        terminalreporter.write_line(f"{shown}  {test.removeprefix('tests/models/references/')}")
