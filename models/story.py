"""The docstrings that open the files of models and objectives, taken apart for readers. No code is run."""

import ast
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Story:
    """The parts of a docstring. Formulas keep their lines, paragraphs do not."""

    summary: str
    """The first paragraph."""
    text: tuple[str, ...]
    """The other paragraphs in order, without citation, taxonomy and formulas."""
    formula: str
    """The indented paragraphs: the loss."""
    nearest: str
    """What sets a model apart from its nearest relative; "" in files of objectives."""

    def relatives(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """The names among ``known`` that the paragraph on the nearest relative mentions in backticks."""
        found = re.findall(r"`(\w+)`", self.nearest)
        return tuple(dict.fromkeys(name for name in found if name in known))


_NEAREST = "Nearest relative: "


def read(path: Path) -> Story:
    """The story of the file ``path``, which has to be Python with a docstring."""
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
