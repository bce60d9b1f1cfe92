"""Annotation of examples, token by token: what `Example.channels` gives becomes arrays of a row.

A tokenizer knows the annotation layers of the text that it was trained on. Codecs make a `Text` of the ids of each text
(`texts`, `words`, `context`), cut and join it like a list, and lay it out (`bench.adapt.heads.layout`). So every row
has an array for each layer of the tokenizer, zeros where the example says nothing, and all tasks of a form share one
traced step. Heads pass them on without knowing them; encoders read the channels that they know (`models.channels`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ptmbench.models.text.template import Template
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Mention


class Annotation(NamedTuple):
    """What one layer says of a text."""

    whole: int
    """The number of the symbol of the whole text, which special tokens around it have too; 0 for none."""
    tokens: np.ndarray
    """int32 [N], of each token, as `models.text.annotations` has them."""


@dataclass(frozen=True, eq=False)
class Text(Sequence[int]):
    """The ids of a text and the annotation of its tokens by layer. It is sliced and added like a list."""

    ids: list[int]
    layers: dict[str, Annotation] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids)

    def __getitem__(self, place):
        if not isinstance(place, slice):
            return self.ids[place]
        layers = {name: Annotation(whole, tokens[place]) for name, (whole, tokens) in self.layers.items()}
        return Text(self.ids[place], layers)

    def __add__(self, other: "Text") -> "Text":
        return joined((self, other))

    def filled(self, ids: Iterable[int]) -> "Text":
        """Other ``ids``, with the annotation of the whole text: special tokens beside it, a mask in it."""
        ids = list(ids)
        whole = {name: Annotation(n, np.full(len(ids), n, np.int32)) for name, (n, _) in self.layers.items()}
        return Text(ids, whole)


def joined(parts: Iterable[Text]) -> Text:
    """One text of one or more ``parts``. The whole has a symbol where all of them have the same one."""
    parts = list(parts)
    layers = {}
    for name in parts[0].layers:
        wholes, tokens = zip(*(part.layers[name] for part in parts), strict=True)
        layers[name] = Annotation(_only(wholes), np.concatenate(tokens))
    return Text([token for part in parts for token in part.ids], layers)


def texts(
    tokenizer: Tokenizer, example: Example, encoded: Sequence[list[int]], inputs: Sequence[str] | None = None
) -> list[Text]:
    """The ids ``encoded`` of the first inputs of ``example``, or of other ``inputs`` that are about it: a question in
    other words has no mentions, and it is in the language of the example where this has one language."""
    inputs = example.inputs[: len(encoded)] if inputs is None else inputs
    same = tuple(inputs) == tuple(example.inputs[: len(inputs)])
    about = example if same else _spoken(example, len(inputs))
    offsets: Sequence[Sequence[tuple[int, int]]] = [[(0, 0)] * len(ids) for ids in encoded]
    if same and any(isinstance(one, Mention) for name in tokenizer.numbers for one in about.channels.get(name, ())):
        offsets = [found for _, found in tokenizer.encode_with_offsets([str(text) for text in inputs])]
    return [
        annotated(tokenizer, about, ids, [number] * len(ids), places, of=[number])
        for number, (ids, places) in enumerate(zip(encoded, offsets, strict=True))
    ]


def words(tokenizer: Tokenizer, example: Example, ids: list[int], owners: Sequence[int]) -> Text:
    """One text of all inputs of ``example``, which are words. ``owners`` says which word each token is from; a mention
    in a word has all tokens of the word."""
    offsets = [(0, len(example.inputs[word])) for word in owners] if tokenizer.numbers else []
    return annotated(tokenizer, example, ids, owners, offsets, of=range(len(example.inputs)))


def context(
    tokenizer: Tokenizer, example: Example, ids: list[int], offsets: Sequence[tuple[int, int]], first: int
) -> Text:
    """One text of the inputs of ``example`` from the ``first`` on, which were joined without a space before they were
    encoded. ``offsets`` are those of the tokens in it."""
    pieces = range(first, len(example.inputs))
    if not tokenizer.numbers:
        return Text(ids)
    begins = np.cumsum([0, *(len(example.inputs[piece]) for piece in pieces)])
    owners = np.maximum(np.searchsorted(begins[:-1], [begin for begin, _ in offsets], side="right") - 1, 0)
    inside = [(begin - begins[n], end - begins[n]) for n, (begin, end) in zip(owners, offsets, strict=True)]
    return annotated(tokenizer, example, ids, owners + first, inside, of=pieces)


def annotated(
    tokenizer: Tokenizer,
    example: Example,
    ids: list[int],
    owners: Sequence[int],
    offsets: Sequence[tuple[int, int]],
    of: Sequence[int],
) -> Text:
    """The ids of a text that is made of the inputs ``of`` the example. ``owners`` says which input each token is from,
    and ``offsets`` which characters of it."""
    layers = {}
    for name, numbers in tokenizer.numbers.items():
        given = example.channels.get(name, ())
        spoken = [numbers.get(one, 0) if isinstance(one, str) else 0 for one in given]
        spoken += [0] * (max(of, default=0) + 1 - len(spoken))
        tokens = np.array([spoken[owner] for owner in owners], np.int32)
        for one in given:
            if isinstance(one, Mention) and one.text in of and one.symbol in numbers:
                _mark(tokens, one, numbers[one.symbol], owners, offsets)
        layers[name] = Annotation(_only([spoken[number] for number in of]), tokens)
    return Text(ids, layers)


def laid(parts: Sequence[Text], template: Template) -> Text:
    """The row of ``parts`` with the special tokens of ``template``. Those after a text have the annotation of the whole
    text, those before the first text the annotation of the whole first text."""
    row = [parts[0].filled(template.front)]
    for number, part in enumerate(parts, 1):
        row += [part, part.filled(template.middle if number < len(parts) else template.end)]
    return joined(row)


def _spoken(example: Example, count: int) -> Example:
    """``example`` without mentions: as many symbols of whole texts as ``count`` texts need."""
    channels = {}
    for name, given in example.channels.items():
        symbols = [one for one in given if isinstance(one, str)]
        if len(symbols) != count:
            symbols = [symbols[0]] * count if len(set(symbols)) == 1 else []
        channels[name] = symbols
    return Example(id=example.id, inputs=(), channels=channels)


def _only(numbers: Sequence[int]) -> int:
    return numbers[0] if len(set(numbers)) == 1 else 0


def _mark(tokens: np.ndarray, mention: Mention, number: int, owners: Sequence[int], offsets: Sequence) -> None:
    """Writes ``number`` at the first token of ``mention`` and its negative at the others."""
    inside = [
        place
        for place, (owner, (begin, end)) in enumerate(zip(owners, offsets, strict=True))
        if owner == mention.text and begin < mention.end and end > mention.begin
    ]
    tokens[inside] = -number
    tokens[inside[:1]] = number
