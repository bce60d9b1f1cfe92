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

import hashlib
import json
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import Regex, decoders, normalizers, pre_tokenizers, trainers
from tokenizers import models as algorithms

KINDS = ("wordpiece", "bpe", "unigram", "word", "character")
SENTINELS = 32
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"<extra_{i}>" for i in range(SENTINELS)))
FORMAT = 1
"""Raised whenever the same training text would give another tokenizer, or the file changes its shape."""

_SMALLEST = {"bpe": len(SPECIALS) + 256}
# A space ends every spelling of a special token inside the model. Pre-tokens never contain one: no text can match it.
_SPELLINGS = [name + " " for name in SPECIALS]


class TokenizerError(ValueError):
    """A tokenizer that cannot be trained, read or written; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Number of ids, and the ids that mean the same in every kind of tokenizer. Ordinary tokens begin at 37."""

    size: int
    pad: int = 0
    unk: int = 1
    cls: int = 2
    sep: int = 3
    mask: int = 4
    sentinels: range = range(5, 5 + SENTINELS)

    @property
    def first(self) -> int:
        """The first id that is a piece of text."""
        return self.sentinels.stop


class Tokenizer:
    """A trained tokenizer. Make one with `train` or `load`.

    ``vocabulary.size`` is the true number of ids: a small corpus can give fewer than were asked for, and nothing is
    padded up.
    """

    def __init__(self, kind: str, spec: dict[str, Any]):
        """``spec`` is the `tokenizers` package's own JSON form."""
        self.kind = kind
        self._spec = spec
        self._impl = tokenizers.Tokenizer.from_str(json.dumps(spec))
        pieces = [self._impl.id_to_token(i) for i in range(self._impl.get_vocab_size())]
        if pieces[: len(SPECIALS)] != _SPELLINGS:
            raise TokenizerError("The vocabulary does not begin with this project's special tokens; train it anew.")
        self._pieces: list[str] = pieces
        self.vocabulary = Vocabulary(size=len(pieces))

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
        impl = _untrained(kind, lowercase)
        try:
            impl.train_from_iterator(texts, _trainer(kind, size, impl, texts))
        except Exception as error:
            # The unigram trainer raises a bare Exception when it finds no seed pieces.
            raise TokenizerError(
                f"The {kind} tokenizer could not be trained: {error}. Is there enough text?"
            ) from error
        spec = json.loads(impl.to_str())
        # The package would look for "added" tokens inside every text. As plain entries they are out of reach.
        spec["added_tokens"] = []
        if kind == "unigram":
            spec["model"]["vocab"] = _settled(spec["model"]["vocab"])
        tokenizer = cls(kind, spec)
        if tokenizer.vocabulary.size == len(SPECIALS):
            raise TokenizerError(f"The {kind} tokenizer found no text to train on.")
        return tokenizer

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the serialised form: two tokenizers that agree on it give the same ids for every text."""
        return hashlib.sha256(_canonical({"format": FORMAT, "kind": self.kind, "tokenizer": self._spec})).hexdigest()

    def to_json(self) -> str:
        """The text that `save` writes and `load` reads."""
        content = {"format": FORMAT, "kind": self.kind, "sha256": self.fingerprint, "tokenizer": self._spec}
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
            content = json.loads(path.read_bytes())
            found, kind, seal, spec = (content[key] for key in ("format", "kind", "sha256", "tokenizer"))
        except OSError as error:
            raise TokenizerError(f"Cannot read the tokenizer {path}: {error.strerror}.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise TokenizerError(
                f"{path} is not a tokenizer file of this project, or is damaged; train it anew."
            ) from error
        if found != FORMAT:
            raise TokenizerError(f"{path} has tokenizer format {found}; this version reads {FORMAT}. Train it anew.")
        if kind not in KINDS:
            raise TokenizerError(f"{path} names the unknown tokenizer kind '{kind}'. Kinds: {', '.join(KINDS)}.")
        if hashlib.sha256(_canonical({"format": FORMAT, "kind": kind, "tokenizer": spec})).hexdigest() != seal:
            raise TokenizerError(f"{path} is damaged: its content does not match its SHA-256. Train it anew.")
        try:
            return cls(kind, spec)
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
        pieces = {word: ids or [self.vocabulary.unk] for word, ids in zip(words, self.encode(words), strict=True)}
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


def _untrained(kind: str, lowercase: bool) -> tokenizers.Tokenizer:
    """The empty tokenizer of ``kind``: normalizer, pre-tokenizer, algorithm and decoder."""
    unk = _SPELLINGS[1]
    lower = [normalizers.Lowercase()] if lowercase else []
    spaces = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    if kind in ("wordpiece", "word"):
        longest = algorithms.WordPiece(unk_token=unk, max_input_chars_per_word=200)
        impl = tokenizers.Tokenizer(longest if kind == "wordpiece" else algorithms.WordLevel(unk_token=unk))
        impl.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=lowercase)
        impl.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        impl.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    elif kind == "bpe":
        impl = tokenizers.Tokenizer(algorithms.BPE())
        impl.normalizer = normalizers.Sequence([*lower, normalizers.Strip()])
        impl.pre_tokenizer, impl.decoder = pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
    elif kind == "unigram":
        impl = tokenizers.Tokenizer(algorithms.Unigram())
        impl.normalizer = normalizers.Sequence([normalizers.NFKC(), *lower, *spaces])
        impl.pre_tokenizer = metaspace
        impl.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    else:
        impl = tokenizers.Tokenizer(algorithms.WordLevel(unk_token=unk))
        impl.normalizer = normalizers.Sequence([normalizers.NFC(), *lower, *spaces])
        impl.pre_tokenizer = pre_tokenizers.Sequence([metaspace, pre_tokenizers.Split(Regex("."), behavior="isolated")])
        impl.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return impl


def _trainer(kind: str, size: int, impl: tokenizers.Tokenizer, texts: Iterable[str]) -> Any:
    """The package's trainer for ``kind``."""
    common: dict[str, Any] = {"vocab_size": size, "show_progress": False, "special_tokens": _SPELLINGS}
    if kind == "bpe":
        return trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **common)
    if kind == "unigram":
        return trainers.UnigramTrainer(unk_token=_SPELLINGS[1], **common)
    if kind != "wordpiece":
        return trainers.WordLevelTrainer(**common)
    # Left alone, the trainer numbers the "##x" forms in the order of a randomly seeded hash map, and breaks ties
    # between merges by these numbers: another vocabulary in every process. As specials the forms keep their order.
    letters, inner = _alphabet(impl, texts, limit=max(size // 4, 64))
    common["special_tokens"] = [*_SPELLINGS, *(f"##{letter}" for letter in inner)]
    return trainers.WordPieceTrainer(
        initial_alphabet=letters, limit_alphabet=len(letters), continuing_subword_prefix="##", **common
    )


def _alphabet(impl: tokenizers.Tokenizer, texts: Iterable[str], limit: int) -> tuple[list[str], list[str]]:
    """The ``limit`` most frequent characters of normalized ``texts``, and those of them seen inside words; sorted."""
    counts, inner = np.zeros(0x110000, np.int64), np.zeros(0x110000, bool)
    for batch in _batched(texts, 2**20):
        codes = np.frombuffer(impl.normalizer.normalize_str(batch).encode("utf-32-le", "replace"), np.uint32)
        counts += np.bincount(codes, minlength=len(counts))
        alone = np.zeros(len(counts), bool)
        alone[[code for code in np.unique(codes).tolist() if _stands_alone(chr(code))]] = True
        within = ~alone[codes]
        inner[codes[1:][within[1:] & within[:-1]]] = True
    codes = [code for code in np.flatnonzero(counts).tolist() if not chr(code).isspace()]
    kept = sorted(sorted(codes, key=lambda code: (-counts[code], code))[:limit])
    return [chr(code) for code in kept], [chr(code) for code in kept if inner[code]]


def _stands_alone(character: str) -> bool:
    """Does BERT's pre-tokenizer cut before and after ``character``?"""
    return (
        character.isspace()
        or unicodedata.category(character).startswith("P")
        or (character < "\x7f" and not character.isalnum())
    )


def _batched(texts: Iterable[str], characters: int) -> Iterator[str]:
    """``texts`` joined by line ends into strings of about ``characters``."""
    batch, length = [], 0
    for text in texts:
        batch.append(text)
        length += len(text)
        if length >= characters:
            yield "\n".join(batch)
            batch, length = [], 0
    if batch:
        yield "\n".join(batch)


def _settled(vocabulary: list[list[Any]]) -> list[list[Any]]:
    """A unigram vocabulary without the traces of hash order: same pieces, scores rounded, ties in alphabetical order.

    The trainer adds floats in random order (differences of 1e-15), and gives characters that it must keep the lowest
    score plus 1e-4 for each one before them in random order; they all get the lowest score here.
    """
    specials, pieces = vocabulary[: len(SPECIALS)], vocabulary[len(SPECIALS) :]
    lowest = min(score for _, score in pieces) if pieces else 0.0
    single = 1e-4 * sum(len(piece) == 1 for piece, _ in pieces) + 1e-6
    rounded = [
        [piece, round(lowest if len(piece) == 1 and score <= lowest + single else score, 6)] for piece, score in pieces
    ]
    return [*specials, *sorted(rounded, key=lambda row: (-row[1], row[0]))]


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
