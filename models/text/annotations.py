"""Layers of annotation on a text: the entities, languages or word senses of its tokens.

A layer becomes an array int32 [N], parallel to the N token ids of a corpus. It is 0 at tokens without annotation, k at
the first token of a span with the k-th symbol (counted from 1), and -k at the other tokens of the span. If a span
crosses the end of a sentence, its tokens in the next sentence have -k. The spans come from sidecar files
(`models.text.sidecars`).

A tokenizer knows the symbols of the text that it was trained on (`symbols_of`). Symbols that it does not know are
ignored. The layer of word alignments has places in the translation and not symbols (`models.channels.CHANNELS`).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np

from ptmbench.models.channels import ALIGNED, WIDTHS, media
from ptmbench.models.text import media as stored
from ptmbench.models.text import vectors
from ptmbench.models.text.layouts import read_line
from ptmbench.models.text.media import Pictures
from ptmbench.models.text.pieces import SIDECAR, CorpusError, Part, expand, file_hash, pieces
from ptmbench.models.text.sidecars import Line, Sidecar, Span, read
from ptmbench.models.text.tokenizers import Tokenizer

Numbers = Mapping[str, Mapping[str, int]]
"""Layer to symbol to number, from 1."""


def symbols_of(files: Sequence[Path]) -> dict[str, tuple[str, ...]]:
    """Returns all symbols in the sidecars of ``files``, by layer, sorted; {} without sidecars.

    A layer with vectors has only the symbols that have a vector. Raises `CorpusError` if none of them has one, and if a
    sidecar annotates lines after the end of its text.
    """
    found: dict[str, set[str]] = {}
    for side in filter(None, map(read, expand(files))):
        for name in side.layers:
            found.setdefault(name, set()).update(side.default.get(name, ()))  # word alignments have no default
        _check_end(side)
        for line in side.lines.values():
            for name, value in line.layers.items():
                found[name].update([value] if isinstance(value, str) else [span.symbol for span in value])
    for name, folder in folders_of(files).items():
        found[name] &= vectors.indices(folder).keys()
        if not found[name]:
            raise CorpusError(f"No symbol of the layer '{name}' has a vector in {folder}. Name another folder.")
    return {name: tuple(sorted(found[name])) for name in sorted(found)}


def folders_of(files: Sequence[Path]) -> dict[str, Path]:
    """Returns the folders of vectors that the sidecars of ``files`` name, by layer.

    Raises `CorpusError` if two sidecars name different vectors for a layer.
    """
    found: dict[str, Path] = {}
    for side in filter(None, map(read, expand(files))):
        for name, folder in side.vectors.items():
            first = found.setdefault(name, folder)
            if first.resolve() != folder.resolve() and _sums(first) != _sums(folder):
                raise CorpusError(
                    f"{side.path} takes the vectors of the layer '{name}' from {folder}, and another sidecar takes "
                    f"others, from {first}. Name one folder in all sidecars of a corpus."
                )
    return found


def widths_of(files: Sequence[Path]) -> dict[str, int]:
    """Returns the number of features of the pictures or sounds that the sidecars of ``files`` name, by channel.

    Raises `CorpusError` if two files of pictures have different numbers of features.
    """
    found: dict[str, tuple[int, Path]] = {}
    for side in filter(None, map(read, expand(files))):
        if side.pictures is not None:
            for name, width in stored.pictures(side.pictures).widths.items():
                first, path = found.setdefault(name, (width, side.pictures))
                if first != width:
                    raise CorpusError(
                        f'"{name}" of {side.pictures} has {width} features, and "{name}" of {path} has {first}. '
                        "All pictures of a corpus need the same number of features. Compute them in the same way."
                    )
    return {name: width for name, (width, _) in found.items()}


def media_of(tokenizer: Tokenizer) -> dict[str, int]:
    """Returns the number of features of the pictures or sounds that ``tokenizer`` knows, by channel."""
    return {name: width for name, width in tokenizer.widths.items() if name in WIDTHS}


def tables(files: Sequence[Path], tokenizer: Tokenizer) -> dict[str, np.ndarray]:
    """Returns the vectors of the symbols that ``tokenizer`` knows: float32 [K + 1, W] by layer of ``files``.

    Raises `CorpusError` if they do not have the width that the tokenizer knows.
    """
    found = {}
    for name, folder in folders_of(files).items():
        if (known := tokenizer.widths.get(name)) is None:
            continue  # the tokenizer comes from text without vectors
        if (wide := vectors.width(folder)) != known:
            raise CorpusError(
                f"{folder} has vectors of width {wide}, and the tokenizer knows the layer '{name}' with vectors of "
                f"width {known}. Train the tokenizer on this text, or name vectors of that width."
            )
        found[name] = vectors.table(folder, tokenizer.symbols[name])
    return found


def _sums(folder: Path) -> list[bytes]:
    return list(map(file_hash, vectors.paths(folder)))


def values(piece: Sequence[Part], tokenizer: Tokenizer) -> Iterator[list[dict[str, np.ndarray]]]:
    """Yields the values of each document of ``piece``: for each sentence, int32 [tokens] by layer.

    The layers are those that ``tokenizer`` knows.
    """
    for part in piece:
        side = read(part.path)
        marks = locate_spans(part, side, tokenizer.numbers) if side is not None else {}
        seen = 0  # characters of the part up to here, without white space
        links = _links(part, side) if ALIGNED in tokenizer.symbols and part.layout == "pairs" else repeat(None)
        for document, pairs in zip(part.documents(), links, strict=False):
            rows, words = [], []
            for sentence, (_, offsets) in zip(document, tokenizer.encode_with_offsets(document), strict=True):
                places = seen + _ink_counts(sentence)[np.array(offsets, np.int64).reshape(-1, 2)]  # [tokens, 2]
                rows.append({name: _values(places, marks.get(name, _NONE)) for name in tokenizer.symbols})
                seen += len(sentence.replace(" ", ""))
                words.append([sentence.count(" ", 0, max(begin + 1, end)) for begin, end in offsets])
            if pairs is not None:
                for row, own, other, swapped in zip(rows, words, words[::-1], (False, True), strict=True):
                    row[ALIGNED] = _aligned(own, other, [(j, i) if swapped else (i, j) for i, j in pairs])
            yield rows


_NONE = np.zeros((0, 3), np.int64)


def _links(part: Part, side: Sidecar | None) -> Iterator[tuple[tuple[int, int], ...] | None]:
    """Yields the aligned words of each pair of ``part``, or None for a pair that is not annotated.

    Raises `CorpusError` for words that a text does not have.
    """
    for number, raw in enumerate(part.text.decode().removesuffix("\n").split("\n"), part.number):
        text = read_line(part.layout, raw)
        if text is None:
            continue
        line = side.lines.get(number) if side is not None else None
        if line is None or line.links is None:
            yield None
            continue
        sizes = [len(half.split()) for half in text.rstrip("\n").split("\t")]
        for link in line.links:
            if link[0] >= sizes[0] or link[1] >= sizes[1]:
                raise CorpusError(
                    f"{side.path}, line {line.number}: the words {link[0]}-{link[1]} are aligned, but line {number} of "
                    f"{part.path} has {sizes[0]} and {sizes[1]} words. Words are what white space divides, counted "
                    "from 0. Align the present text again."
                )
        yield line.links


def _aligned(own: Sequence[int], other: Sequence[int], links: Sequence[tuple[int, int]]) -> np.ndarray:
    """Returns the value of each token of a sentence in the layer of word alignments, int32 [tokens].

    ``own`` and ``other`` are the word numbers of the tokens of the sentence and of its translation. The value is the
    place, from 1, of the first token of the aligned word, or -1 if no word is aligned. If a word is aligned with
    several words, the middle one counts.
    """
    first = {word: place for place, word in reversed(list(enumerate(other, 1)))}
    beside: dict[int, list[int]] = {}
    for word, there in sorted(links):
        if there in first:
            beside.setdefault(word, []).append(first[there])
    found = {word: places[(len(places) - 1) // 2] for word, places in beside.items()}
    return np.array([found.get(word, -1) for word in own], np.int32)


def pictures(piece: Sequence[Part], tokenizer: Tokenizer) -> Iterator[dict[str, np.ndarray]]:
    """Yields the features [R, W] of each document's picture in ``piece``, by channel; R is 0 without a picture.

    Raises `CorpusError` for a document with two pictures, and if the number of features is not what ``tokenizer``
    knows.
    """
    empty = {name: np.zeros((0, 1), np.float32) for width in media_of(tokenizer) for name in media(width)}
    for part in piece:
        side = read(part.path)
        if side is None or side.pictures is None:
            yield from (empty for _ in part.documents())
            continue
        found = _fitting(stored.pictures(side.pictures), tokenizer)
        named, seen, at = _named(part, side), 0, 0
        for document in part.documents():
            seen += sum(len(sentence.replace(" ", "")) for sentence in document)
            here = at
            while at < len(named) and named[at][0] < seen:
                at += 1
            names = dict.fromkeys(line.picture for _, line in named[here:at])
            if len(names) > 1:
                raise CorpusError(
                    f"{side.path}, line {named[at - 1][1].number}: the document has the picture {list(names)[0]!r:.60} "
                    f"already, and gets {list(names)[-1]!r:.60}. A document has one picture: divide it."
                )
            yield found.of(next(iter(names), None))


def _named(part: Part, side: Sidecar) -> list[tuple[int, Line]]:
    """Returns the starts of the lines with a picture in ``part``, counted in characters without white space.

    Raises `CorpusError` for such a line without text.
    """
    found, seen = [], 0
    for number, raw in enumerate(part.text.decode().removesuffix("\n").split("\n"), part.number):
        line, text = side.lines.get(number), read_line(part.layout, raw)
        size = int(_ink_counts(text or "")[-1])
        if line is not None and line.picture is not None:
            if not size:
                raise CorpusError(
                    f"{side.path}, line {line.number}: the picture {line.picture!r:.60} belongs to line {number} of "
                    f"{part.path}, which has no text. Name a line of its document."
                )
            found.append((seen, line))
        seen += size
    return found


def _fitting(found: Pictures, tokenizer: Tokenizer) -> Pictures:
    for name, width in found.widths.items():
        if (known := tokenizer.widths.get(name, width)) != width:
            raise CorpusError(
                f'"{name}" of {found.path} has {width} features, and the tokenizer knows {known}. Train the tokenizer '
                "on this text, or compute the features as for the text that it was trained on."
            )
    return found


def locate_spans(part: Part, side: Sidecar, numbers: Numbers) -> dict[str, np.ndarray]:
    """Returns the spans of each layer in ``part``, int64 [S, 3]: first character, end, and the symbol's number.

    The end is past the last character. White space is not counted, because splitting into sentences changes only white
    space. Raises `CorpusError` for spans that do not agree with the text.
    """
    found: dict[str, list[tuple[int, int, int]]] = {name: [] for name in side.layers if name != ALIGNED}
    seen = 0
    for number, raw in enumerate(part.text.decode().removesuffix("\n").split("\n"), part.number):
        line, text = side.lines.get(number), read_line(part.layout, raw)
        if text is None:
            continue
        ink_counts = _ink_counts(text)
        for name in found:
            value = line.layers.get(name) if line is not None else None
            if value is None:
                spans = _whole(text, side.default.get(name, ()))
            elif isinstance(value, str):
                spans = _whole(text, (value,))
            else:
                spans = [_checked(span, text, side, line, name, part.path, number) for span in value]
            for span in spans:
                begin, end = ink_counts[span.begin], ink_counts[span.end]
                symbol = numbers.get(name, {}).get(span.symbol)
                if begin < end and symbol is not None:
                    found[name].append((seen + begin, seen + end, symbol))
        seen += int(ink_counts[-1])
    return {name: np.array(spans, np.int64).reshape(-1, 3) for name, spans in found.items()}


def _values(places: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """Returns the value of each token, int32 [tokens], from its place in ``places`` [tokens, 2] and ``marks`` [S, 3].

    ``marks`` are spans as in `locate_spans`.
    """
    result = np.zeros(len(places), np.int32)
    if not len(places):
        return result
    first = marks[:, 1].searchsorted(places[0, 0], side="right")
    last = marks[:, 0].searchsorted(places[-1, 1], side="left")
    for begin, end, number in marks[first:last]:
        # The marker of a space covers no character. It gets the value of the character after it.
        inside = (places[:, 0] < end) & (np.maximum(places[:, 1], places[:, 0] + 1) > begin) & (result == 0)
        result[inside] = -number
        if begin >= places[0, 0] and inside.any():
            result[inside.argmax()] = number
    return result


def _ink_counts(text: str) -> np.ndarray:
    """Returns the number of characters before each place that are not white space, int64 [characters + 1]."""
    return np.concatenate([[0], np.cumsum([not c.isspace() for c in text], dtype=np.int64)])


def _whole(text: str, symbols: Sequence[str]) -> list[Span]:
    """Returns one span for all of ``text``, or for two symbols one span before its tab and one after it."""
    if len(symbols) < 2:
        return [Span(0, len(text), symbol) for symbol in symbols]
    tab = text.index("\t")
    return [Span(0, tab, symbols[0]), Span(tab, len(text), symbols[1])]


def _checked(span: Span, text: str, side: Sidecar, line: Line, name: str, path: Path, number: int) -> Span:
    where = f"{side.path}, line {line.number}: the layer '{name}'"
    if span.end > len(text):
        raise CorpusError(
            f"{where} has the span [{span.begin}, {span.end}], but line {number} of {path} has {len(text)} characters. "
            "Annotate the present text again."
        )
    if span.text is not None and text[span.begin : span.end] != span.text:
        raise CorpusError(
            f"{where} says that [{span.begin}, {span.end}] is {span.text!r:.60}, but line {number} of {path} has "
            f"{text[span.begin : span.end]!r:.60} there. Offsets count characters from 0. Annotate the text again."
        )
    return span


def _check_end(side: Sidecar) -> None:
    """Raises `CorpusError` if ``side`` annotates lines after the end of its text."""
    text, last = side.path.with_name(side.path.name.removesuffix(SIDECAR)), max(side.lines, default=0)
    ends = [part.number + part.text.rstrip(b"\n").count(b"\n") for piece in pieces([text]) for part in piece]
    if last > max(ends):
        raise CorpusError(
            f"{side.path}, line {side.lines[last].number}: it annotates line {last}, but {text} ends with line "
            f"{max(ends)}. Annotate the present text again."
        )
