"""Data sets for the tests of tasks: real ones beside the repository, and official layouts written by hand."""

import json
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def real(*parts: str) -> Path:
    """A file or folder of real data; the test is skipped where there is none."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no real data: ../shared/data/{'/'.join(parts)} is missing")
    return path


def write_rows(path: Path, *rows: object) -> Path:
    """Each of ``rows`` a line of ``path``: texts as they are, others as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
