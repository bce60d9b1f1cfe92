"""Files for tests."""

from pathlib import Path


def written(path: Path, text: str) -> Path:
    """``path``, now a file with ``text`` in UTF-8."""
    path.write_text(text, encoding="utf-8")
    return path
