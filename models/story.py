"""Parses the module docstrings of models and objectives into their parts for display. No code is executed."""

import ast
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Story:
    """The parts of a docstring. Formulas keep their line breaks, paragraphs do not."""

    summary: str
    """The first paragraph."""
    text: tuple[str, ...]
    """The other paragraphs in order, without the citation and taxonomy and without formulas."""
    formula: str
    """The indented paragraphs: the loss."""
    nearest: str
    """How a model differs from its nearest relative; "" in files of objectives."""

    def relatives(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the names among ``known`` that the paragraph on the nearest relative has in backticks."""
        found = re.findall(r"`(\w+)`", self.nearest)
        return tuple(dict.fromkeys(name for name in found if name in known))


_NEAREST = "Nearest relative: "


def read(path: Path) -> Story:
    """Reads the file ``path``, which has to be Python, and returns the parts of its docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_bytes(), str(path))) or ""
    first, *rest = docstring.split("\n\n")
    texts, formulas, nearest = [], [], ""
    for paragraph in rest:
        if paragraph.startswith("    "):
            formulas.append(textwrap.dedent(paragraph).rstrip())
        elif "\nTaxonomy: " not in paragraph:
            text, _, told = " ".join(paragraph.split()).partition(_NEAREST)
            texts += [text.strip()] * bool(text.strip())
            nearest = told or nearest
    return Story(summary=" ".join(first.split()), text=tuple(texts), formula="\n".join(formulas), nearest=nearest)
