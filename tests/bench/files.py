"""Writes files for tests."""

from pathlib import Path


def written(path: Path, text: str) -> Path:
    """Writes ``text`` to ``path`` in UTF-8. Returns ``path``."""
    path.write_text(text, encoding="utf-8")
    return path
