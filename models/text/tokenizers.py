"""Converts text to token ids and back. One class has five kinds of tokenizer.

wordpiece  BERT's: splits at white space and punctuation, then longest match (Wu et al., 2016; Devlin et al., 2019)
bpe        GPT-2's: merges over UTF-8 bytes, so that no text is unknown (Radford et al., 2019, section 2.2)
unigram    SentencePiece's unigram language model over text with "▁" for spaces (Kudo, 2018)
word       the most frequent words and punctuation marks; everything else is [UNK]
character  the most frequent characters, with "▁" before each word

The `tokenizers` package does the work. This module adds:

- the same special ids in every kind, so that objectives do not depend on the kind
- special tokens that no text can spell
- the same vocabulary in every process
- offsets without white space and with combining accents
- a sealed JSON file
"""

import copy
import hashlib
import json
import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from ptmbench.models.channels import ALIGNED
from ptmbench.models.text.pieces import CorpusError
from ptmbench.models.text.template import BERT, Template
from ptmbench.models.text.tokenizer_kinds import SENTINELS, SPECIALS, SPELLINGS, make_reproducible, trainer, untrained

KINDS = ("wordpiece", "bpe", "unigram", "word", "character")
FORMAT = 1
"""Incremented whenever the same training text would give another tokenizer, or the file format changes."""

_SMALLEST = {"bpe": len(SPECIALS) + 256}


class TokenizerError(ValueError):
    """A tokenizer cannot be trained, read or written. The message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The number of ids, and the special ids, which are the same in every kind of tokenizer. Other tokens begin at 37.

    ``template`` is the layout of texts in downstream tasks; objectives have their own layouts. ``pieces`` are the
    spellings of the ids, for models that use them, or None if only the number of ids is known. ``absent`` are the
    special ids for which a published vocabulary has no token. A published model gives them no probability.
    """

    size: int
    pad: int = 0
    unk: int = 1
    cls: int = 2
    sep: int = 3
    mask: int = 4
    sentinels: range = range(5, 5 + SENTINELS)
    template: Template = BERT
    pieces: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    absent: tuple[int, ...] = ()
    symbols: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False, hash=False)
    """The symbols of each annotation layer, such as languages or entities (`models.text.annotations`). The first symbol
    has the number 1."""
    widths: Mapping[str, int] = field(default_factory=dict, repr=False, hash=False)
    """The widths of the symbols' vectors, for layers with vectors (`models.text.vectors`), and the numbers of features
    of pictures or sounds (`models.text.media`), by channel."""
    teacher: "Vocabulary | None" = field(default=None, repr=False, compare=False)
    """The teacher's vocabulary, if it differs from the student's (`models.card.Teacher.vocabulary`). It is present only
    in the student's pre-training."""

    @property
    def first(self) -> int:
        """The first id that is not special."""
        return self.sentinels.stop

    def ending(self) -> "Vocabulary":
        """Returns this vocabulary with [SEP] present.

        A model that generates text needs an end mark. If a published vocabulary lacks it, fine-tuning teaches it.
        """
        return replace(self, absent=tuple(number for number in self.absent if number != self.sep))


class Tokenizer:
    """A trained tokenizer, made by `train` or `load`.

    ``vocabulary.size`` is the true number of ids. A small corpus can give fewer ids than requested, and the vocabulary
    is not padded. ``imported`` has the original ids of a published vocabulary (see `models.published._vocabulary`) and
    the template of its model; it is None for a tokenizer trained here. ``symbols`` are the sorted symbols of each
    annotation layer of the training text. ``widths`` are the widths of their vectors and of the pictures' features.
    """

    def __init__(
        self,
        kind: str,
        spec: dict[str, Any],
        imported: dict[str, Any] | None = None,
        symbols: Mapping[str, Sequence[str]] | None = None,
        widths: Mapping[str, int] | None = None,
    ):
        """``spec`` is the JSON form of the `tokenizers` package."""
        self.kind, self.imported = kind, imported
        self.symbols = {name: tuple(found) for name, found in sorted((symbols or {}).items())}
        self.widths = dict(sorted((widths or {}).items()))
        self._spec = spec
        self._impl = tokenizers.Tokenizer.from_str(json.dumps(spec))
        pieces = [self._impl.id_to_token(i) for i in range(self._impl.get_vocab_size())]
        if pieces[: len(SPECIALS)] != SPELLINGS:
            raise TokenizerError("The vocabulary does not begin with this project's special tokens; train it anew.")
        self._pieces: list[str] = pieces
        laid = (imported or {}).get("template")
        template = Template(**{k: tuple(v) if isinstance(v, list) else v for k, v in laid.items()}) if laid else BERT
        self.vocabulary = Vocabulary(
            size=len(pieces),
            template=template,
            pieces=tuple(pieces),
            absent=_absent((imported or {}).get("rows", ())),
            symbols=self.symbols,
            widths=self.widths,
        )

    @classmethod
    def train(cls, kind: str, texts: Iterable[str], size: int, *, lowercase: bool = False) -> "Tokenizer":
        """Trains a tokenizer of at most ``size`` ids, including special tokens.

        The same texts give the same tokenizer in every process. ``texts`` is iterated twice, so an iterator is kept in
        memory. Raises `TokenizerError` for a wrong kind or size, and for texts that are too small or empty.
        """
        if kind not in KINDS:
            raise TokenizerError(f"There is no tokenizer kind '{kind}'. Kinds: {', '.join(KINDS)}.")
        smallest = _SMALLEST.get(kind, len(SPECIALS) + 1)
        if size < smallest:
            raise TokenizerError(f"A {kind} vocabulary needs at least {smallest} ids; {size} were asked for.")
        if iter(texts) is texts:
            texts = list(texts)
        impl = untrained(kind, lowercase)
        try:
            impl.train_from_iterator(texts, trainer(kind, size, impl, texts))
        except CorpusError:  # its message already names the unreadable file
            raise
        except Exception as error:
            # The unigram trainer raises a bare Exception when it finds no seed pieces.
            raise TokenizerError(
                f"The {kind} tokenizer could not be trained: {error}. Is there enough text?"
            ) from error
        spec = json.loads(impl.to_str())
        # The package looks for "added" tokens in every text. As plain entries of the vocabulary they are never matched.
        spec["added_tokens"] = []
        if kind == "unigram":
            spec["model"]["vocab"] = make_reproducible(spec["model"]["vocab"])
        tokenizer = cls(kind, spec)
        if tokenizer.vocabulary.size == len(SPECIALS):
            raise TokenizerError(f"The {kind} tokenizer found no text to train on.")
        return tokenizer

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the serialised form. Tokenizers with the same fingerprint give the same ids for every text."""
        return _fingerprint(self.kind, self._spec, self.imported, self.symbols, self.widths)

    @property
    def about(self) -> dict[str, Any]:
        """The entry for this tokenizer in checkpoints and records."""
        return {"kind": self.kind, "size": self.vocabulary.size, "sha256": self.fingerprint}

    @property
    def spec(self) -> dict[str, Any]:
        """A copy of the `tokenizers` package's JSON form."""
        return json.loads(json.dumps(self._spec))

    @cached_property
    def numbers(self) -> dict[str, dict[str, int]]:
        """The number of each symbol, from 1, by annotation layer. Word alignments have places and no symbols."""
        symbols = {name: found for name, found in self.symbols.items() if name != ALIGNED}
        return {name: {symbol: n for n, symbol in enumerate(found, 1)} for name, found in symbols.items()}

    def with_symbols(
        self, symbols: Mapping[str, Sequence[str]], widths: Mapping[str, int] | None = None
    ) -> "Tokenizer":
        """Returns this tokenizer with the ``symbols`` of annotation layers and the ``widths`` of their vectors."""
        return Tokenizer(self.kind, self._spec, self.imported, symbols, widths)

    def with_teacher(self, vocabulary: Vocabulary) -> "Tokenizer":
        """Returns this tokenizer for the pre-training of a student whose teacher has the other ``vocabulary``.

        The teacher's vocabulary is not saved.
        """
        made = copy.copy(self)
        made.vocabulary = replace(self.vocabulary, teacher=vocabulary)
        return made

    @property
    def separable(self) -> bool:
        """Whether the ids of a text are the ids of its words, which are separated by single spaces.

        This holds for all tokenizers trained here. Published ones may have pieces that span a space, or may treat the
        first word differently.
        """
        return self.imported is None or self.kind == "wordpiece"

    def to_json(self) -> str:
        """Returns the text that `save` writes and `load` reads."""
        content = {"format": FORMAT, "kind": self.kind, "sha256": self.fingerprint, "tokenizer": self._spec}
        if self.imported is not None:
            content["imported"] = self.imported
        if self.symbols:
            content["symbols"] = self.symbols
        if self.widths:
            content["widths"] = self.widths
        return json.dumps(content, ensure_ascii=False)

    def save(self, path: Path) -> None:
        """Writes JSON to ``path`` atomically: a reader sees the old file, none, or the whole new one.

        Raises `TokenizerError` if it cannot be written.
        """
        path = Path(path)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(self.to_json().encode())
            os.replace(part, path)
        except OSError as error:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise TokenizerError(f"Cannot write the tokenizer {path}: {error.strerror}.") from error

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Reads a tokenizer that `save` wrote. Raises `TokenizerError` if the file is missing, foreign or damaged."""
        path = Path(path)
        try:
            text = path.read_bytes().decode()
        except OSError as error:
            raise TokenizerError(f"Cannot read the tokenizer {path}: {error.strerror}.") from error
        except UnicodeDecodeError:
            text = ""
        return cls.from_json(text, str(path))

    @classmethod
    def from_json(cls, text: str, path: str) -> "Tokenizer":
        """Returns the tokenizer whose `to_json` is ``text``. Error messages name ``path`` as its file."""
        try:
            content = json.loads(text)
            found, kind, seal, spec = (content[key] for key in ("format", "kind", "sha256", "tokenizer"))
            imported, symbols, widths = content.get("imported"), content.get("symbols", {}), content.get("widths", {})
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise TokenizerError(
                f"{path} is not a tokenizer file of this project, or is damaged; train it anew."
            ) from error
        if found != FORMAT:
            raise TokenizerError(f"{path} has tokenizer format {found}; this version reads {FORMAT}. Train it anew.")
        if kind not in KINDS:
            raise TokenizerError(f"{path} names the unknown tokenizer kind '{kind}'. Kinds: {', '.join(KINDS)}.")
        if _fingerprint(kind, spec, imported, symbols, widths) != seal:
            raise TokenizerError(f"{path} is damaged: its content does not match its SHA-256. Train it anew.")
        try:
            return cls(kind, spec, imported, symbols, widths)
        except TokenizerError as error:
            raise TokenizerError(f"{path}: {error}") from error
        except Exception as error:  # the package's parser raises bare Exceptions
            raise TokenizerError(f"{path} cannot be read by the installed `tokenizers` package: {error}.") from error

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text, without special tokens; [] for an empty text. Encodes the batch in parallel."""
        return [encoding.ids for encoding in self._impl.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Returns the ids of `encode` and each token's offsets, (start, end) in characters of the original text.

        Offsets leave out white space at a token's start and include combining accents after its last letter. Tokens
        that are bytes of the same character all have its offsets. A space marker without letters has an empty range.
        """
        texts = list(texts)
        encodings = self._impl.encode_batch(texts, add_special_tokens=False)
        return [(e.ids, self._trimmed(text, e.ids, e.offsets)) for text, e in zip(texts, encodings, strict=True)]

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[tuple[list[int], list[int]]]:
        """Returns for each sentence the ids of all its words, and for each id the index of its word.

        Every word has at least one id: [UNK] if its text gives none.
        """
        words = list(dict.fromkeys(word for sentence in sentences for word in sentence))
        # A published byte-level vocabulary has other ids for a word after a space than at the start of a text.
        lead = " " if self.imported is not None and self.kind == "bpe" else ""
        encoded = self.encode([lead + word for word in words])
        pieces = {word: ids or [self.vocabulary.unk] for word, ids in zip(words, encoded, strict=True)}
        result = []
        for sentence in sentences:
            ids = [i for word in sentence for i in pieces[word]]
            index = [n for n, word in enumerate(sentence) for _ in pieces[word]]
            result.append((ids, index))
        return result

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ``ids``. Leaves out special tokens, [UNK], and ids outside the vocabulary."""
        first, size = self.vocabulary.first, self.vocabulary.size
        return self._impl.decode([i for i in map(int, ids) if first <= i < size], skip_special_tokens=False).strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the spelling of each id in the vocabulary ("##ing", "Ġthe", "▁a", "[MASK]"), for display."""
        return [SPECIALS[i] if i < len(SPECIALS) else self._pieces[i] for i in map(int, ids)]

    def heads(self, ids: np.ndarray) -> np.ndarray:
        """Returns which of ``ids`` [N] begin a word, bool [N], for masking and counting whole words.

        A word begins where the spelling shows it, at every punctuation mark or other symbol, and after such a mark. The
        first id always begins a word.
        """
        opens, closes = self._edges
        heads = opens[ids]
        heads[1:] |= closes[ids[:-1]]
        heads[:1] = True
        return heads

    def _trimmed(self, text: str, ids: list[int], offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Trims white space from the start of ``offsets``, and extends their ends over combining accents."""
        result = []
        following = [start for start, _ in offsets] + [len(text)]
        for i, (start, end), limit in zip(ids, offsets, following[1:], strict=True):
            while start < end and text[start].isspace():
                start += 1
            while end < limit and unicodedata.combining(text[end]):
                end += 1
            # The marker that normalization adds before the first word has the offsets of that word's first character.
            result.append((start, start) if self._pieces[i] in ("▁", "Ġ") else (start, end))
        return result

    @cached_property
    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens that begin a word in any context, and tokens after which a word begins: bool [V] each."""
        # A mark is neither a letter nor a digit. Unknown characters count as letters if [UNK] is not a whole word.
        marker = {"bpe": "Ġ", "unigram": "▁", "character": "▁"}.get(self.kind)
        opens, closes = np.ones(self.vocabulary.size, bool), np.ones(self.vocabulary.size, bool)
        if suffix := self._spec["model"].get("end_of_word_suffix"):  # GPT's: a word begins after the end of another
            opens[:], closes[:] = False, [piece.endswith((suffix, " ")) for piece in self._pieces]
            return opens, closes
        if marker is not None:
            opens[self.vocabulary.unk] = closes[self.vocabulary.unk] = False
        for i, piece in enumerate(self._pieces[len(SPECIALS) :], len(SPECIALS)):
            if marker is None:
                opens[i], closes[i] = not piece.startswith("##"), False
                continue
            body = piece.removeprefix(marker)
            # Bytes outside ASCII (shown as "Ã", "©") are far more often parts of letters than marks.
            word_like = [character.isalnum() or (self.kind == "bpe" and ord(character) > 127) for character in body]
            opens[i] = body != piece or not word_like[0]
            closes[i] = bool(body) and not word_like[-1]
        return opens, closes


def _absent(rows: Sequence[int | None]) -> tuple[int, ...]:
    """Returns the special ids for which a published vocabulary has no token.

    ``rows`` are the original ids, or None for a token that the vocabulary lacks. If several special ids share a token,
    only one of them is present: [SEP], because models predict it, or else the first.
    """
    known: set[int] = set()
    absent = []
    for number in sorted(range(len(rows)), key=lambda number: number != Vocabulary.sep):
        if rows[number] is None or rows[number] in known:
            absent.append(number)
        else:
            known.add(rows[number])
    return tuple(sorted(absent))


def _fingerprint(
    kind: str,
    spec: dict[str, Any],
    imported: dict[str, Any] | None,
    symbols: Mapping[str, Sequence[str]],
    widths: Mapping[str, int],
) -> str:
    content = {"format": FORMAT, "kind": kind, "tokenizer": spec}
    if imported is not None:
        content["imported"] = imported
    if symbols:
        content["symbols"] = symbols
    if widths:
        content["widths"] = widths
    return hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
