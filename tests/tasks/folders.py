"""Test helpers for tasks: access to real data sets next to the repository, and files written by hand."""

import json
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def real(*parts: str) -> Path:
    """Returns the path of a file or folder of real data. Skips the test if it is missing."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no real data: ../shared/data/{'/'.join(parts)} is missing")
    return path


def write_rows(path: Path, *rows: object) -> Path:
    """Writes each of ``rows`` to a line of ``path``: strings unchanged, other objects as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
