"""Annotation of examples, token by token: what `Example.channels` gives becomes arrays of a row.

A tokenizer knows the annotation layers of the text that it was trained on. Every row that `annotation` and
`bench.adapt.heads.layout` make has an array for each of these layers, zeros where the example says nothing, so that all
tasks of a form share one traced step. Heads pass them on without knowing them; encoders read the channels that they
know (`models.channels`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ptmbench.models.text.template import Template
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Mention


class Annotation(NamedTuple):
    """What one layer says of an example's texts."""

    whole: list[int]
    """The number of the symbol of each whole text, 0 for none."""
    tokens: list[np.ndarray]
    """For each text the values int32 [tokens], as `models.text.annotations` has them."""


def annotation(
    example: Example, inputs: Sequence[str], texts: Sequence[Sequence[int]], tokenizer: Tokenizer
) -> dict[str, Annotation]:
    """The annotation of ``inputs`` by layer; ``texts`` are their ids. {} where ``tokenizer`` knows no layer."""
    found = {}
    for name, numbers in tokenizer.numbers.items():
        given = example.channels.get(name, ())
        whole = [numbers.get(one, 0) if isinstance(one, str) else 0 for one in given]
        values = [np.zeros(len(ids), np.int32) for ids in texts]
        if tuple(inputs) == tuple(example.inputs):
            for mention in (one for one in given if isinstance(one, Mention) and one.symbol in numbers):
                _mark(values[mention.text], inputs[mention.text], mention, numbers[mention.symbol], tokenizer)
        if len(whole) != len(texts):  # a question in other words than the example's is in its language all the same
            whole = [whole[0] if whole and len(set(whole)) == 1 else 0] * len(texts)
        found[name] = Annotation(whole, values)
    return found


def laid(
    annotated: dict[str, Annotation], template: Template, sizes: Sequence[int], length: int
) -> dict[str, np.ndarray]:
    """The annotation of a row of ``length`` tokens, in which ``sizes`` tokens of each text stand: int32 [T] by layer.
    The marks after a text belong to it, and the marks before the first text to the first."""
    begins = template.begins(sizes)
    edges = [0, *begins[1:], length]
    arrays = {}
    for name, (whole, tokens) in annotated.items():
        row = arrays[name] = np.zeros(length, np.int32)
        for place, number in enumerate(whole):
            row[edges[place] : edges[place + 1]] = number
        for begin, size, values in zip(begins, sizes, tokens, strict=True):
            row[begin : begin + size] = np.where(values[:size], values[:size], row[begin : begin + size])
    return arrays


def _mark(values: np.ndarray, text: str, mention: Mention, number: int, tokenizer: Tokenizer) -> None:
    """Writes ``number`` at the first token of ``mention`` and its negative at the others."""
    ((_, offsets),) = tokenizer.encode_with_offsets([text])
    inside = [place for place, (begin, end) in enumerate(offsets) if begin < mention.end and end > mention.begin]
    values[inside] = -number
    values[inside[:1]] = number
