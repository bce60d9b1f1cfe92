"""A reader for CoNLL-U, the format of Universal Dependencies: one word per line, ten columns, comments before a
sentence."""

import re
from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import lines, malformed

Word = tuple[str, str, int, str]
"""(word, part of speech (UPOS), number of its head from 1 or 0 for the root, relation to the head)."""


def sentences(path: Path) -> Iterator[tuple[int, str, str | None, list[Word]]]:
    """Yields (first line, id, document, words) for each sentence."""
    document, name, begin, words, count = None, "", 0, list[Word](), 0
    for number, line in lines(path):
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            document = value.strip() if key.strip() == "newdoc id" else document
            name = value.strip() if key.strip() == "sent_id" else name
        elif line.strip():
            columns = line.split("\t")
            if len(columns) != 10:
                raise malformed(path, number, f"ten columns were expected, not {len(columns)}.")
            begin = begin if words else number
            if columns[0] == str(len(words) + 1):
                if not re.fullmatch(r"\d{1,6}", columns[6]):
                    raise malformed(path, number, f"the head {columns[6]!r:.40} is not the number of a word.")
                words.append((columns[1], columns[3], int(columns[6]), columns[7]))
            elif not re.fullmatch(r"\d+[-.]\d+", columns[0]):
                raise malformed(path, number, f"{columns[0]!r:.40} is not the number of the next word.")
        elif words:
            yield begin, name or str(count), document, _checked(path, begin, words)
            name, words, count = "", [], count + 1
    if words:
        yield begin, name or str(count), document, _checked(path, begin, words)


def _checked(path: Path, line: int, words: list[Word]) -> list[Word]:
    for number, (word, _, head, _) in enumerate(words, start=1):
        if head > len(words) or head == number:
            raise malformed(path, line, f"{word!r:.40}, a word of this sentence, cannot have the head {head}.")
    return words
