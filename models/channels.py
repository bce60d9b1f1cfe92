"""Channels: the named inputs of a network.

Corpora, codecs and batches pass channels on without interpreting them. A model's card lists the channels that its
encoder reads (``Card.reads``), and a task lists those that it requires (``Task.needs``). A task is not applicable to a
model that does not read all required channels.

An annotation layer of a corpus (`models.text.annotations`) becomes the channel of the same name.
"""

from collections.abc import Iterable
from typing import NamedTuple

TEXT = ("tokens", "segments")
"""The channels of an encoder that reads only text."""


class Channel(NamedTuple):
    """A named input. Axes: B batch, T tokens, R regions, A audio frames, F features, D width, W words. ``noun`` is its
    name in a sentence."""

    axes: str
    dtype: str
    noun: str

    @property
    def medium(self) -> str:
        """ "R" for channels of pictures, "A" for channels of sounds, "" for channels of texts."""
        return self.axes[1] if self.axes[1] in "RA" else ""


CHANNELS = {
    "tokens": Channel("BT", "int32", "text"),
    "segments": Channel("BT", "int32", "the numbers of texts"),
    "positions": Channel("BT", "int32", "positions"),
    "documents": Channel("BT", "int32", "the numbers of documents"),
    "attention": Channel("BTT", "int32", "an attention mask"),
    "languages": Channel("BT", "int32", "languages"),
    "entities": Channel("BT", "int32", "entities"),
    "senses": Channel("BT", "int32", "word senses"),
    "polarities": Channel("BT", "int32", "the polarity of words"),
    "parts_of_speech": Channel("BT", "int32", "parts of speech"),
    "word_alignments": Channel("BT", "int32", "word alignments"),
    "vectors": Channel("BTD", "float32", "vectors in place of tokens"),
    "regions": Channel("BRF", "float32", "image regions"),
    "boxes": Channel("BR4", "float32", "the boxes of image regions"),
    "alignments": Channel("BRW", "int32", "the words of image regions"),
    "frames": Channel("BAF", "float32", "audio frames"),
}
"""All channels by name.

``positions`` count from 0. A token sees only tokens with the same number in ``documents``, and those with a 1 in
``attention`` [B, queries, keys]. ``languages``, ``entities`` and other annotations have the number of a symbol at the
first token of the annotated text, its negative at the other tokens, and 0 elsewhere. ``boxes`` are left, top, right and
bottom as fractions of the picture; a box of zeros is padding, and so is its region. ``alignments`` are the positions of
the tokens that name a region, then -1. ``word_alignments`` are k at the tokens of a word that is aligned with the k-th
token of the translation, counted from 1. They are -1 at other words, and 0 in texts without alignments.
"""

ALIGNED = "word_alignments"
"""The layer of parallel corpora whose values are positions in the translation instead of symbols."""


def media(width: str) -> tuple[str, ...]:
    """Returns the float channels of the medium whose features are in the channel ``width``: "regions" and "boxes" for
    "regions"."""
    medium = CHANNELS[width].medium
    return tuple(name for name, one in CHANNELS.items() if one.medium == medium and one.dtype == "float32")


WIDTHS = tuple(name for name, one in CHANNELS.items() if one.medium and one.axes.endswith("F"))
"""The channels with features of pictures or sounds. A tokenizer stores the number of features F of each."""


def lacking(reads: Iterable[str], needs: Iterable[str]) -> str:
    """Returns why a model that ``reads`` these channels cannot do a task that ``needs`` others, as "because ..."; "" if
    it can."""
    missing = [CHANNELS[name].noun for name in needs if name not in set(reads)]
    return f"because this model does not read {' or '.join(missing)}." if missing else ""
