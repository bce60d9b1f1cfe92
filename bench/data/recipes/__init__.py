"""Named corpora as Python: one file per recipe, each with a ``RECIPE``. The folder is the registry.

A recipe states the files of a corpus, how they are cleaned, and which of them are held out. `bench.data.making` makes
the corpus. ``sums/`` has one file per source, with the path of each of its files below the data folder and the SHA-256
of its text. For a gzip file, that is the sum of the unpacked text, because versions of gzip write different bytes.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ptmbench.bench.errors import BrokenFile, UsageError
from ptmbench.models._importing import imported


@dataclass(frozen=True, kw_only=True)
class Source:
    """Text files from one publisher."""

    name: str
    title: str
    licence: str
    url: str
    files: Mapping[str, str]
    """The SHA-256 of each file's text by its path below the data folder, in the order in which they are read."""
    clean: Callable[[Iterable[str]], Iterator[list[str]]]
    """A function of `bench.data.cleaning`: from the lines of a file to documents, which are lists of paragraphs."""


@dataclass(frozen=True, kw_only=True)
class CorpusRecipe:
    """The sources of a corpus and the rules by which it is made."""

    summary: str
    version: int
    """Raised whenever the recipe would give another corpus."""
    sources: tuple[Source, ...]
    """In order of preference: if two sources have the same text, it is kept from the first."""
    held_out: tuple[str, ...] = ()
    """Paths of source files that are written to the held-out text."""
    twice: float = 0.5
    """A file is removed if more than this share of its words stands in one earlier file."""
    repeated: float = 0.8
    """A paragraph is removed if at least this share of its words stands in earlier paragraphs or in held-out text. From
    0.8 on, Touvron et al. (2023b, appendix A.6) call an example contaminated."""
    sha256: str = ""
    """Expected SHA-256 of the corpus; "" if it is not compared."""


def listed(name: str) -> dict[str, str]:
    """Reads ``sums/NAME.txt``: the SHA-256 of each file of the source ``name``, by its path."""
    lines = (Path(__file__).parent / "sums" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return {path: sha256 for sha256, path in (line.split("  ", 1) for line in lines)}


def names() -> tuple[str, ...]:
    """Every recipe's name, sorted."""
    return tuple(sorted(file.stem for file in Path(__file__).parent.glob("[!_.]*.py")))


def load(name: str) -> CorpusRecipe:
    """The recipe called ``name``.

    Raises `UsageError` with the nearest names if there is none, and `BrokenFile` if its file cannot be imported or has
    no ``RECIPE``.
    """
    if name not in names():
        near = difflib.get_close_matches(name.lower(), names(), n=3) or names()
        raise UsageError(f"There is no corpus '{name}'. Nearest: {', '.join(near)}. `ptmbench ls corpora` shows all.")
    path = Path(__file__).parent / f"{name}.py"
    recipe = getattr(imported(f"ptmbench.bench.data.recipes.{name}", path, BrokenFile), "RECIPE", None)
    if not isinstance(recipe, CorpusRecipe):
        raise BrokenFile(f"{path} has no RECIPE, a bench.data.recipes.CorpusRecipe. Add one, or move the file.")
    return recipe
