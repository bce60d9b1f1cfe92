"""The table at the end: how far our networks are from their references."""

import sys


def pytest_terminal_summary(terminalreporter) -> None:
    common = sys.modules.get("tests.models.references.common")
    if common is None or not common.LARGEST:
        return
    terminalreporter.write_sep("=", "largest absolute differences in float32, vectors and loss")
    for test in sorted({test for test, _ in common.LARGEST}):
        found = [common.LARGEST.get((test, what)) for what in ("vectors", "loss")]
        shown = "  ".join("       " if gap is None else f"{gap:.1e}" for gap in found)
        terminalreporter.write_line(f"{shown}  {test.removeprefix('tests/models/references/')}")
