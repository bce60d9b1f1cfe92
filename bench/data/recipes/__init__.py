"""Named corpora as Python: one file per recipe, each with a ``RECIPE``. The folder is the registry.

A recipe says which files a corpus is made of, how they are cleaned, and what is held out; `bench.data.making` makes it.
``sums/`` has a file per source that lists its files below the data folder, each with the SHA-256 of its text: of what a
gzip file unpacks to, because gzip itself writes other bytes from version to version.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ptmbench.bench.errors import BrokenFile, UsageError
from ptmbench.models._importing import imported


@dataclass(frozen=True, kw_only=True)
class Source:
    """Text files of one origin."""

    name: str
    title: str
    licence: str
    url: str
    files: Mapping[str, str]
    """The SHA-256 of each file's text by its path below the data folder, in the order in which they are read."""
    clean: Callable[[Iterable[str]], Iterator[list[str]]]
    """The lines of a file to documents, lists of paragraphs; a function of `bench.data.cleaning`."""


@dataclass(frozen=True, kw_only=True)
class CorpusRecipe:
    """How a corpus is made."""

    summary: str
    version: int
    """Raised whenever the corpus becomes another one."""
    sources: tuple[Source, ...]
    """Of text that two sources have, the first one's is kept."""
    held_out: tuple[str, ...] = ()
    """Files of the sources that are written to a file of their own, for measuring."""
    twice: float = 0.5
    """A file goes if so much of its words stands in one earlier file."""
    repeated: float = 0.8
    """A paragraph goes if so much of its words stands in earlier paragraphs or in held-out text (the share from which
    Touvron et al., 2023b, appendix A.6, call an example contaminated)."""
    sha256: str = ""
    """SHA-256 of the corpus that comes out; "" where it is not compared."""


def listed(name: str) -> dict[str, str]:
    """The files of the source ``name`` and the SHA-256 of their texts, from ``sums/``."""
    lines = (Path(__file__).parent / "sums" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return {path: sha256 for sha256, path in (line.split("  ", 1) for line in lines)}


def names() -> tuple[str, ...]:
    """Every recipe's name, sorted."""
    return tuple(sorted(file.stem for file in Path(__file__).parent.glob("[!_.]*.py")))


def load(name: str) -> CorpusRecipe:
    """The recipe called ``name``; `UsageError` with the nearest names when there is none, `BrokenFile` when its file
    cannot be imported or has no ``RECIPE``."""
    if name not in names():
        near = difflib.get_close_matches(name.lower(), names(), n=3) or names()
        raise UsageError(f"There is no corpus '{name}'. Nearest: {', '.join(near)}. `ptmbench ls corpora` shows all.")
    path = Path(__file__).parent / f"{name}.py"
    recipe = getattr(imported(f"ptmbench.bench.data.recipes.{name}", path, BrokenFile), "RECIPE", None)
    if not isinstance(recipe, CorpusRecipe):
        raise BrokenFile(f"{path} has no RECIPE, a bench.data.recipes.CorpusRecipe. Add one, or move the file.")
    return recipe
