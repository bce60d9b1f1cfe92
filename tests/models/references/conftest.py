"""The table at the end: how far our networks are from their references."""

from tests.models.references.differences import LARGEST

_COLUMNS = ("vectors", "gradient", "loss")


def pytest_terminal_summary(terminalreporter) -> None:
    if not LARGEST:
        return
    terminalreporter.write_sep("=", f"largest differences in float32: {', '.join(_COLUMNS)}")
    for test in sorted({test for test, _ in LARGEST}):
        found = [LARGEST.get((test, what)) for what in _COLUMNS]
        shown = "  ".join("       " if gap is None else f"{gap:.1e}" for gap in found)
        terminalreporter.write_line(f"{shown}  {test.removeprefix('tests/models/references/')}")
