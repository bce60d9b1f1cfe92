"""Converts `Example.channels` (languages, entity mentions, pictures) to arrays of a row, aligned with the tokens.

Codecs call it: they make a `Text` of the ids of each input (`texts`, `words`, `context`), slice and join it like a
list, and lay it out (`bench.adapt.heads.layout`).

The tokenizer has the annotation layers of its training text and the number of features of its pictures. Every row gets
an array for each of these layers, with zeros for missing annotations, and the arrays of a picture, with no regions if
the example has no picture. So all tasks of a form share one traced step. Heads pass all channels to the encoder, which
reads the channels that it knows (`models.channels`).
"""

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ptmbench.bench.errors import NotApplicable
from ptmbench.models.channels import CHANNELS, WIDTHS, media
from ptmbench.models.text.template import Template
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Mention


class Annotation(NamedTuple):
    """The annotation of a text in one layer."""

    whole: int
    """Number of the symbol of the whole text, also for the special tokens around it; 0 for none."""
    tokens: np.ndarray
    """int32 [N], the number of each token, in the format of `models.text.annotations`."""


class Picture(NamedTuple):
    """The picture or sound of a text. Slicing the text does not change it."""

    arrays: dict[str, np.ndarray]
    """float32 [R, W], by channel; R is 0 without a picture."""
    named: np.ndarray
    """bool [N, R], whether each of the N tokens mentions each region."""


@dataclass(frozen=True, eq=False)
class Text(Sequence[int]):
    """The ids of a text, the annotations of its tokens by layer, and its picture. Slicing and ``+`` work as for
    lists."""

    ids: list[int]
    layers: dict[str, Annotation] = field(default_factory=dict)
    picture: Picture | None = None
    """None if the tokenizer was trained on a text without pictures."""

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids)

    def __getitem__(self, place):
        if not isinstance(place, slice):
            return self.ids[place]
        layers = {name: Annotation(whole, tokens[place]) for name, (whole, tokens) in self.layers.items()}
        picture = self.picture and self.picture._replace(named=self.picture.named[place])
        return Text(self.ids[place], layers, picture)

    def __add__(self, other: "Text") -> "Text":
        return joined((self, other))

    def filled(self, ids: Iterable[int]) -> "Text":
        """A text of other ``ids``, such as special tokens or masks, each with the annotation of the whole text."""
        ids = list(ids)
        whole = {name: Annotation(n, np.full(len(ids), n, np.int32)) for name, (n, _) in self.layers.items()}
        picture = self.picture
        if picture is not None:
            picture = picture._replace(named=np.zeros((len(ids), picture.named.shape[1]), bool))
        return Text(ids, whole, picture)

    def hidden(self, places: Iterable[int], mask: int) -> "Text":
        """The text with the id ``mask`` at ``places``, where tokens have the annotation of the whole text. A mention
        that loses a token is removed as a whole, because its symbol would reveal what is hidden."""
        places = list(places)
        ids, layers = self.ids.copy(), {}
        for place in places:
            ids[place] = mask
        for name, (whole, tokens) in self.layers.items():
            shown = tokens.copy()
            for place in places:
                begin, end = _mention(tokens, place)
                shown[begin:end] = whole
            layers[name] = Annotation(whole, shown)
        picture = self.picture
        if picture is not None:
            named = picture.named.copy()
            named[places] = False
            picture = picture._replace(named=named)
        return Text(ids, layers, picture)

    def only(self, reads: Collection[str]) -> "Text":
        """The text with those channels that a model ``reads``. Channels that it does not read then make no
        difference."""
        layers = {name: one for name, one in self.layers.items() if name in reads}
        picture = self.picture
        if picture is not None:
            arrays = {name: array for name, array in picture.arrays.items() if name in reads}
            known = "regions" in arrays and "alignments" in reads
            named = picture.named if known else np.zeros((len(self.ids), len(arrays.get("regions", ()))), bool)
            picture = Picture(arrays, named) if arrays else None
        return Text(self.ids, layers, picture)

    @property
    def key(self) -> Hashable:
        """Differs for texts that differ in a token or in a channel."""
        arrays = self.channels()
        return tuple(self.ids), *((name, array.shape, array.tobytes()) for name, array in sorted(arrays.items()))

    def channels(self) -> dict[str, np.ndarray]:
        """The arrays of a row except ``tokens`` and ``segments``: int32 [T] for each layer, float32 [R, W] for each
        channel of a picture, and ``alignments`` int32 [R, W], the positions of the tokens that mention each region,
        padded with -1."""
        found = {name: tokens for name, (_, tokens) in self.layers.items()}
        if self.picture is None:
            return found
        found |= self.picture.arrays
        if "regions" in found:
            places = [np.flatnonzero(tokens) for tokens in self.picture.named.T]
            found["alignments"] = np.full((len(places), max(map(len, places), default=0)), -1, np.int32)
            for row, own in zip(found["alignments"], places, strict=True):
                row[: len(own)] = own
        return found


def joined(parts: Iterable[Text]) -> Text:
    """Joins one or more ``parts``. The whole text has a symbol if all parts have the same one, and a picture if all
    parts with a picture have the same one."""
    parts = list(parts)
    layers = {}
    for name in parts[0].layers:
        wholes, tokens = zip(*(part.layers[name] for part in parts), strict=True)
        layers[name] = Annotation(_only(wholes), np.concatenate(tokens))
    return Text([token for part in parts for token in part.ids], layers, _common([part.picture for part in parts]))


def texts(
    tokenizer: Tokenizer, example: Example, encoded: Sequence[list[int]], inputs: Sequence[str] | None = None
) -> list[Text]:
    """One text for each list of ids in ``encoded``: the first inputs of ``example``, or other ``inputs`` made from it,
    such as a question in other words. Other inputs have no mentions; they have the language of the example if that is
    the same for all its inputs."""
    inputs = example.inputs[: len(encoded)] if inputs is None else inputs
    same = tuple(inputs) == tuple(example.inputs[: len(inputs)])
    about = example if same else _without_mentions(example, len(inputs))
    offsets: Sequence[Sequence[tuple[int, int]]] = [[(0, 0)] * len(ids) for ids in encoded]
    if same and _mentions(tokenizer, about):
        offsets = [found for _, found in tokenizer.encode_with_offsets([str(text) for text in inputs])]
    return [
        annotated(tokenizer, about, ids, [number] * len(ids), places, of=[number])
        for number, (ids, places) in enumerate(zip(encoded, offsets, strict=True))
    ]


def words(tokenizer: Tokenizer, example: Example, ids: list[int], owners: Sequence[int]) -> Text:
    """One text of all inputs of ``example``, which are words. ``owners`` has the word of each token. A mention covers
    all tokens of its words."""
    offsets = [(0, len(example.inputs[word])) for word in owners] if tokenizer.numbers or tokenizer.widths else []
    return annotated(tokenizer, example, ids, owners, offsets, of=range(len(example.inputs)))


def in_words(
    tokenizer: Tokenizer, example: Example, ids: list[int], owners: Sequence[int], count: int | None = None
) -> Text:
    """One text of the first ``count`` inputs of ``example``, or of all, which were divided at white space and encoded
    word by word. ``owners`` has the word of each token. A mention covers all tokens of its words."""
    if not tokenizer.numbers and not tokenizer.widths:
        return Text(ids)
    inputs = example.inputs[:count]
    spans = [(number, *found.span()) for number, text in enumerate(inputs) for found in re.finditer(r"\S+", text)]
    placed = [spans[owner] for owner in owners]
    texts, offsets = [number for number, _, _ in placed], [(begin, end) for _, begin, end in placed]
    return annotated(tokenizer, example, ids, texts, offsets, of=range(len(inputs)))


def context(
    tokenizer: Tokenizer, example: Example, ids: list[int], offsets: Sequence[tuple[int, int]], first: int
) -> Text:
    """One text of the inputs of ``example`` from number ``first`` on, which were joined without a space and encoded.
    ``offsets`` are the characters of each token in the joined text."""
    pieces = range(first, len(example.inputs))
    if not tokenizer.numbers and not tokenizer.widths:
        return Text(ids)
    begins = np.cumsum([0, *(len(example.inputs[piece]) for piece in pieces)])
    owners = np.maximum(np.searchsorted(begins[:-1], [begin for begin, _ in offsets], side="right") - 1, 0)
    inside = [(begin - begins[n], end - begins[n]) for n, (begin, end) in zip(owners, offsets, strict=True)]
    return annotated(tokenizer, example, ids, owners + first, inside, of=pieces)


class Quote(NamedTuple):
    """A piece of a text that was composed for an example. ``text`` begins at the character ``begin`` of the example's
    input ``number``; if that is None, it is from no input."""

    text: str
    example: Example
    number: int | None = None
    begin: int = 0

    def stripped(self) -> "Quote":
        """The piece without white space at its ends."""
        before = len(self.text) - len(self.text.lstrip())
        return self._replace(text=self.text.strip(), begin=self.begin + before)


def spelled(quotes: Sequence[Quote]) -> str:
    """The text of all ``quotes``, joined."""
    return "".join(quote.text for quote in quotes)


def quoted(tokenizer: Tokenizer, quotes: Sequence[Quote], ids: list[int]) -> Text:
    """One text of ``quotes``. ``ids`` are the encoding of their `spelled` text. Tokens that are from no input have the
    annotation of their whole example."""
    if not tokenizer.numbers and not tokenizer.widths:
        return Text(ids)
    ((_, offsets),) = tokenizer.encode_with_offsets([spelled(quotes)])
    begins = np.cumsum([0, *(len(quote.text) for quote in quotes)])
    owners = np.maximum(np.searchsorted(begins[:-1], [begin for begin, _ in offsets], side="right") - 1, 0)
    parts = [] if ids else [whole_of(tokenizer, quotes[0].example)]
    for owner, group in groupby(range(len(ids)), lambda place: int(owners[place])):
        places, (_, example, number, begin) = list(group), quotes[owner]
        own = [ids[place] for place in places]
        if number is None:
            parts.append(whole_of(tokenizer, example).filled(own))
            continue
        moved = begin - int(begins[owner])
        inside = [(offsets[place][0] + moved, offsets[place][1] + moved) for place in places]
        parts.append(annotated(tokenizer, example, own, [number] * len(own), inside, of=[number]))
    return joined(parts)


def whole_of(tokenizer: Tokenizer, example: Example) -> Text:
    """An empty text with the annotation and the picture of ``example`` as a whole."""
    return annotated(tokenizer, example, [], [], [], of=range(len(example.inputs)))


def without_picture(example: Example) -> Example:
    """``example`` without its picture or sound."""
    kept = {name: given for name, given in example.channels.items() if name not in (*_PICTURES, "alignments")}
    return replace(example, channels=kept)


def candidate_of(example: Example, text: str) -> Example:
    """An example that is the candidate ``text`` of ``example``. Its symbol in a channel is the one after the symbols of
    the inputs, if there is one. Other annotations of an example do not apply to its candidates."""
    after = len(example.inputs)
    given = {name: one[after] for name, one in example.channels.items() if name not in _PICTURES and len(one) > after}
    spoken = {name: (one,) for name, one in given.items() if isinstance(one, str)}
    return Example(id="", inputs=(text,), channels=spoken)


def annotated(
    tokenizer: Tokenizer,
    example: Example,
    ids: list[int],
    owners: Sequence[int],
    offsets: Sequence[tuple[int, int]],
    of: Sequence[int],
) -> Text:
    """A text of the inputs ``of`` the example. ``owners`` has the input of each token, and ``offsets`` the characters
    of the token in that input. Raises `NotApplicable` for a picture whose number of features differs from the
    tokenizer's."""
    layers = {}
    for name, numbers in tokenizer.numbers.items():
        given = example.channels.get(name, ())
        spoken = [numbers.get(one, 0) if isinstance(one, str) else 0 for one in given]
        spoken += [0] * (max(of, default=0) + 1 - len(spoken))
        tokens = np.array([spoken[owner] for owner in owners], np.int32)
        for one in given:
            if isinstance(one, Mention) and one.text in of and one.symbol in numbers:
                inside = _inside(one, owners, offsets)
                tokens[inside] = -numbers[one.symbol]
                tokens[inside[:1]] = numbers[one.symbol]
        layers[name] = Annotation(_only([spoken[number] for number in of]), tokens)
    return Text(ids, layers, _picture(tokenizer, example, owners, offsets))


def laid(parts: Sequence[Text], template: Template) -> Text:
    """Joins ``parts`` with the special tokens of ``template``. Special tokens have the annotation of the whole text
    before them; at the start of the row, of the text after them."""
    row = [parts[0].filled(template.front)]
    for number, part in enumerate(parts, 1):
        row += [part, part.filled(template.middle if number < len(parts) else template.end)]
    return joined(row)


def _without_mentions(example: Example, count: int) -> Example:
    """``example`` without mentions: its picture, and the symbols of ``count`` whole texts."""
    channels: dict[str, Sequence] = {}
    for name, given in example.channels.items():
        if name in _PICTURES:
            channels[name] = given
            continue
        symbols = [one for one in given if isinstance(one, str)]
        if len(symbols) != count:
            symbols = [symbols[0]] * count if len(set(symbols)) == 1 else []
        channels[name] = symbols
    return Example(id=example.id, inputs=(), channels=channels)


_PICTURES = tuple(name for width in WIDTHS for name in media(width))
"""The channels of pictures and sounds."""


def _mention(values: np.ndarray, place: int) -> tuple[int, int]:
    """First and past-the-last token of the mention around ``place``. ``values`` are negative at all tokens of a mention
    except the first."""
    begin, end = place, place + 1
    while begin > 0 and values[begin] < 0:
        begin -= 1
    while end < len(values) and values[end] < 0:
        end += 1
    return begin, end


def _only(numbers: Sequence[int]) -> int:
    return numbers[0] if len(set(numbers)) == 1 else 0


def _mentions(tokenizer: Tokenizer, example: Example) -> bool:
    """Whether ``example`` has mentions in a layer of ``tokenizer``, or mentions of regions."""
    given = [one for name in tokenizer.numbers for one in example.channels.get(name, ())]
    return any(isinstance(one, Mention) for one in given) or (
        "regions" in tokenizer.widths and any(example.channels.get("alignments", ()))
    )


def _inside(mention: Mention, owners: Sequence[int], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """The tokens of ``mention``."""
    return [
        place
        for place, (owner, (begin, end)) in enumerate(zip(owners, offsets, strict=True))
        if owner == mention.text and begin < mention.end and end > mention.begin
    ]


def _picture(
    tokenizer: Tokenizer, example: Example, owners: Sequence[int], offsets: Sequence[tuple[int, int]]
) -> Picture | None:
    widths = {name: width for name, width in tokenizer.widths.items() if name in WIDTHS}
    if not widths:
        return None
    arrays = {}
    for features, width in widths.items():
        for name in media(features):
            axis = CHANNELS[name].axes[2]
            wanted = int(axis) if axis.isdigit() else width
            arrays[name] = np.asarray(example.channels.get(name, np.zeros((0, wanted))), np.float32)
            if arrays[name].shape[1] != wanted:
                raise NotApplicable(
                    "other-features",
                    f"because the task has {CHANNELS[name].noun} of {arrays[name].shape[1]} features, and this model "
                    f"was pre-trained with {wanted} features.",
                )
    named = np.zeros((len(owners), len(arrays.get("regions", ()))), bool)
    if "regions" in arrays:
        for region, mentions in enumerate(example.channels.get("alignments", ())):
            for mention in mentions:
                named[_inside(mention, owners, offsets), region] = True
    return Picture(arrays, named)


def _common(pictures: Sequence[Picture | None]) -> Picture | None:
    """The picture of a text whose parts have ``pictures``; no regions if these differ."""
    first = pictures[0]
    if first is None:
        return None
    seen = [one.arrays for one in pictures if any(map(len, one.arrays.values()))]
    if seen and all(_same(one, seen[0]) for one in seen):
        arrays = seen[0]
    else:
        arrays = {name: array[:0] for name, array in first.arrays.items()}
    named = np.zeros((sum(len(one.named) for one in pictures), len(arrays.get("regions", ()))), bool)
    begin = 0
    for one in pictures:
        if one.named.shape[1] == named.shape[1]:
            named[begin : begin + len(one.named)] = one.named
        begin += len(one.named)
    return Picture(arrays, named)


def _same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return all(array is other[name] or np.array_equal(array, other[name]) for name, array in one.items())
