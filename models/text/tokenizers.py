"""Text to token ids and back: five kinds of tokenizer behind one class. No TensorFlow.

wordpiece  BERT's: whitespace and punctuation split, then longest match (Wu et al., 2016; Devlin et al., 2019)
bpe        GPT-2's: merges over UTF-8 bytes, so nothing is ever unknown (Radford et al., 2019, section 2.2)
unigram    SentencePiece's unigram language model over text with "▁" for spaces (Kudo, 2018)
word       the most frequent words and punctuation marks, everything else [UNK]
character  the most frequent characters, with "▁" before each word

The work is done by the `tokenizers` package. What is added here: one layout of special ids for every kind, so that
objectives never ask which kind they have; special tokens that no text can spell; the same vocabulary in every process;
offsets trimmed to what a reader would mark; and a sealed JSON file.
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
from ptmbench.models.text.tokenizer_kinds import SENTINELS, SPECIALS, SPELLINGS, settled, trainer, untrained

KINDS = ("wordpiece", "bpe", "unigram", "word", "character")
FORMAT = 1
"""Raised whenever the same training text would give another tokenizer, or the file changes its shape."""

_SMALLEST = {"bpe": len(SPECIALS) + 256}


class TokenizerError(ValueError):
    """A tokenizer that cannot be trained, read or written; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Number of ids, and the ids that mean the same in every kind of tokenizer. Ordinary tokens begin at 37.

    ``template`` is how texts are laid out downstream; objectives lay theirs out themselves. ``pieces`` are the
    spellings of the ids, for models that read them; None where only the number of ids is known. ``absent`` are the
    special ids that a published vocabulary has no token for: no published model gives them any probability.
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
    """The symbols of each annotation layer (`models.text.annotations`): languages, entities. Number 1 is the first."""
    widths: Mapping[str, int] = field(default_factory=dict, repr=False, hash=False)
    """The widths of the symbols' vectors, for layers that have any (`models.text.vectors`), and the numbers of features
    of pictures or sounds (`models.text.media`), by channel."""
    teacher: "Vocabulary | None" = field(default=None, repr=False, compare=False)
    """The vocabulary of the teacher of a student that has another one (`models.card.Teacher.vocabulary`), in its
    pre-training only."""

    @property
    def first(self) -> int:
        """The first id that is a piece of text."""
        return self.sentinels.stop

    def ending(self) -> "Vocabulary":
        """This vocabulary with [SEP] present: texts that a model learns to write have to end, so fine-tuning teaches a
        published model the mark that its vocabulary may lack."""
        return replace(self, absent=tuple(number for number in self.absent if number != self.sep))


class Tokenizer:
    """A trained tokenizer. Make one with `train` or `load`.

    ``vocabulary.size`` is the true number of ids: a small corpus can give fewer than were asked for, and nothing is
    padded up. ``imported`` says of a published vocabulary how it was before (see `models.published._vocabulary`) and
    which template its model was trained with, and is None for one that was trained here. ``symbols`` are those of the
    annotation layers of the text that it was trained on, sorted, by layer, and ``widths`` the widths of their vectors
    and of the features of its pictures.
    """

    def __init__(
        self,
        kind: str,
        spec: dict[str, Any],
        imported: dict[str, Any] | None = None,
        symbols: Mapping[str, Sequence[str]] | None = None,
        widths: Mapping[str, int] | None = None,
    ):
        """``spec`` is the `tokenizers` package's own JSON form."""
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
        """A tokenizer of at most ``size`` ids, special tokens included; `TokenizerError` for a wrong kind or size.

        The same texts give the same tokenizer in every process. ``texts`` is walked twice; an iterator is therefore
        kept in memory.
        """
        if kind not in KINDS:
            raise TokenizerError(f"There is no tokenizer kind '{kind}'. Kinds: {', '.join(KINDS)}.")
        smallest = _SMALLEST.get(kind, len(SPECIALS) + 1)
        if size < smallest:
            raise TokenizerError(f"A {kind} vocabulary needs at least {smallest} ids; {size} were asked for.")
        if iter(texts) is texts:
            texts = list(texts)  # two passes are made
        impl = untrained(kind, lowercase)
        try:
            impl.train_from_iterator(texts, trainer(kind, size, impl, texts))
        except CorpusError:  # a file that cannot be read has said so
            raise
        except Exception as error:
            # The unigram trainer raises a bare Exception when it finds no seed pieces.
            raise TokenizerError(
                f"The {kind} tokenizer could not be trained: {error}. Is there enough text?"
            ) from error
        spec = json.loads(impl.to_str())
        # The package would look for "added" tokens inside every text. As plain entries they are out of reach.
        spec["added_tokens"] = []
        if kind == "unigram":
            spec["model"]["vocab"] = settled(spec["model"]["vocab"])
        tokenizer = cls(kind, spec)
        if tokenizer.vocabulary.size == len(SPECIALS):
            raise TokenizerError(f"The {kind} tokenizer found no text to train on.")
        return tokenizer

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the serialised form: two tokenizers that agree on it give the same ids for every text."""
        return _fingerprint(self.kind, self._spec, self.imported, self.symbols, self.widths)

    @property
    def about(self) -> dict[str, Any]:
        """What checkpoints and records say of it."""
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
        """This tokenizer with the ``symbols`` of annotation layers and the ``widths`` of their vectors."""
        return Tokenizer(self.kind, self._spec, self.imported, symbols, widths)

    def with_teacher(self, vocabulary: Vocabulary) -> "Tokenizer":
        """This tokenizer for the pre-training of a student whose teacher has that other ``vocabulary``. It is saved
        without it."""
        made = copy.copy(self)
        made.vocabulary = replace(self.vocabulary, teacher=vocabulary)
        return made

    @property
    def separable(self) -> bool:
        """Whether the ids of a text are those of its words, which single spaces divide. True of all that are trained
        here; published ones may join pieces over a space, or treat the first word otherwise."""
        return self.imported is None or self.kind == "wordpiece"

    def to_json(self) -> str:
        """The text that `save` writes and `load` reads."""
        content = {"format": FORMAT, "kind": self.kind, "sha256": self.fingerprint, "tokenizer": self._spec}
        if self.imported is not None:
            content["imported"] = self.imported
        if self.symbols:
            content["symbols"] = self.symbols
        if self.widths:
            content["widths"] = self.widths
        return json.dumps(content, ensure_ascii=False)

    def save(self, path: Path) -> None:
        """Write JSON to ``path`` in one step: a reader sees the old file, none, or the whole new one."""
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
        """The tokenizer that `save` wrote; `TokenizerError` for a file that is missing, foreign or damaged."""
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
        """The tokenizer whose `to_json` is ``text``; ``path`` says in errors where it stands."""
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
        """The ids of each text, without special tokens; [] for an empty text. The whole batch runs in parallel."""
        return [encoding.ids for encoding in self._impl.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """As `encode`, with each token's (start, end) in characters of the original text.

        White space at a token's start is left out, combining accents behind its last letter belong to it. Tokens that
        share one character (bytes of a letter outside ASCII) all have its offsets; a lone space marker is empty.
        """
        texts = list(texts)
        encodings = self._impl.encode_batch(texts, add_special_tokens=False)
        return [(e.ids, self._trimmed(text, e.ids, e.offsets)) for text, e in zip(texts, encodings, strict=True)]

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[tuple[list[int], list[int]]]:
        """For each sentence the ids of all its words, and beside them each token's index of the word it is from.

        Every word has at least one token: [UNK] where its text gives none.
        """
        words = list(dict.fromkeys(word for sentence in sentences for word in sentence))
        # A published vocabulary of bytes writes a word in a sentence otherwise than one at the start of a text.
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
        """Text of ``ids``. Dropped are special tokens, [UNK] (it has no text), and ids outside the vocabulary."""
        first, size = self.vocabulary.first, self.vocabulary.size
        return self._impl.decode([i for i in map(int, ids) if first <= i < size], skip_special_tokens=False).strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each id as it is spelled in the vocabulary ("##ing", "Ġthe", "▁a", "[MASK]"), for people."""
        return [SPECIALS[i] if i < len(SPECIALS) else self._pieces[i] for i in map(int, ids)]

    def heads(self, ids: np.ndarray) -> np.ndarray:
        """bool [N]: which of ``ids`` [N] begin a word, for masking and counting whole words.

        A word begins where the spelling says so, at every mark that is no letter or digit, and behind such a mark. The
        first id counts as behind a mark.
        """
        opens, closes = self._edges
        heads = opens[ids]
        heads[1:] |= closes[ids[:-1]]
        heads[:1] = True
        return heads

    def _trimmed(self, text: str, ids: list[int], offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """``offsets`` of ``ids`` without white space at the start, with the combining accents at the end."""
        result = []
        following = [start for start, _ in offsets] + [len(text)]
        for i, (start, end), limit in zip(ids, offsets, following[1:], strict=True):
            while start < end and text[start].isspace():
                start += 1
            while end < limit and unicodedata.combining(text[end]):
                end += 1
            # The marker that normalization puts before the first word has the offsets of that word's first character.
            result.append((start, start) if self._pieces[i] in ("▁", "Ġ") else (start, end))
        return result

    @cached_property
    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        """bool [V] twice: tokens that begin a word whatever stands before, tokens after which one begins."""
        # A mark is neither letter nor digit. Unknown characters count as letters where [UNK] is no whole word.
        marker = {"bpe": "Ġ", "unigram": "▁", "character": "▁"}.get(self.kind)
        opens, closes = np.ones(self.vocabulary.size, bool), np.ones(self.vocabulary.size, bool)
        if suffix := self._spec["model"].get("end_of_word_suffix"):  # GPT's: a word begins where another has ended
            opens[:], closes[:] = False, [piece.endswith((suffix, " ")) for piece in self._pieces]
            return opens, closes
        if marker is not None:
            opens[self.vocabulary.unk] = closes[self.vocabulary.unk] = False
        for i, piece in enumerate(self._pieces[len(SPECIALS) :], len(SPECIALS)):
            if marker is None:
                opens[i], closes[i] = not piece.startswith("##"), False
                continue
            body = piece.removeprefix(marker)
            # Printed bytes outside ASCII ("Ã", "©") are parts of letters far more often than marks.
            word_like = [character.isalnum() or (self.kind == "bpe" and ord(character) > 127) for character in body]
            opens[i] = body != piece or not word_like[0]
            closes[i] = bool(body) and not word_like[-1]
        return opens, closes


def _absent(rows: Sequence[int | None]) -> tuple[int, ...]:
    """The special ids that no token of a published vocabulary stands behind, by the ``rows`` of their original ids:
    None for a token that it lacks. Of several ids for one token only one counts: [SEP], since models predict it, or
    else the first."""
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
