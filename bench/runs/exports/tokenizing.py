"""Tokenizers in a TensorFlow graph, with the same ids as `models.text.tokenizers`. `of` builds one.

    wordpiece   the character map, then tensorflow-text's FastWordpieceTokenizer
    unigram     tensorflow-text's NFKC and the character map, then `segmenting.BestPieces`
    character   tensorflow-text's NFC and the character map, then a table of characters
    word        the character map, then a table of words
    bpe         the character map, GPT-2's pattern for words, then `segmenting.Merges`

A published tokenizer is supported if its steps are among these. Others raise `UsageError`.
"""

import json
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text
import tokenizers

from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs.exports.characters import (
    CODES,
    Composed,
    Lookup,
    Replace,
    changes,
    decoded,
    encoded,
    first_of,
    pages,
    shifted,
    words_of,
)
from ptmbench.bench.runs.exports.segmenting import BestPieces, Merges
from ptmbench.models.text.tokenizer_kinds import SPELLINGS
from ptmbench.models.text.tokenizers import Tokenizer

NEXT = "Export without --texts; tokenizer.json of the export then makes the token ids in your program."
MARK = "\u2581"
_NO_MODEL = {"type": "WordLevel", "vocab": {"": 0}, "unk_token": ""}
_SPACES = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}


class GraphTokenizer(tf.Module):
    """Maps texts, strings [B], to token ids int32 [B, (T)] without special tokens."""

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = self.words(texts)
        ids = self.ids(words.flat_values)
        ends = tf.gather(ids.row_splits, words.row_splits)
        return tf.RaggedTensor.from_row_splits(ids.flat_values, ends, validate=False)

    def words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the normalised words of ``texts``, which are tokenised independently, as strings [B, (W)]."""
        raise NotImplementedError

    def ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Maps words, strings [N], to ids int32 [N, (T)]."""
        raise NotImplementedError


def of(tokenizer: Tokenizer) -> GraphTokenizer:
    """Builds the graph of ``tokenizer``. Raises `UsageError` for steps that are not implemented here."""
    spec = tokenizer.spec
    kind = {"wordpiece": _Wordpiece, "word": _Word, "bpe": _Bpe, "unigram": _Unigram, "character": _Character}
    if spec["added_tokens"]:
        raise _refusal(tokenizer, f"it looks for the text {spec['added_tokens'][0]['content']!r} before anything else")
    return kind[tokenizer.kind](tokenizer, spec)


@cache
def _spaced(spec: str) -> dict[int, str]:
    """Returns what the normalizer and the pre-tokenizer of ``spec`` replace each character by, with spaces between
    words. Characters that do not change are left out."""
    whole = tokenizers.Tokenizer.from_str(spec)

    @cache
    def cut(character: str) -> str:
        pieces = [piece for piece, _ in whole.pre_tokenizer.pre_tokenize_str(f"a{character}a")]
        return character if len(pieces) == 1 else f" {character} " if character in pieces else " "

    def spaced(text: str) -> str:
        after = whole.normalizer.normalize_str(text) if whole.normalizer else text
        if after == text and len(text) > 1:
            return text if len(whole.pre_tokenizer.pre_tokenize_str(f"a{text}a")) == 1 else ""
        return "".join(map(cut, after))

    return changes(spaced)


class _Bert(GraphTokenizer):
    """BERT's words: characters are mapped, and texts are split at spaces and around punctuation marks."""

    def __init__(self, tokenizer: Tokenizer, spec: dict[str, Any]):
        super().__init__()
        _check(tokenizer, spec, ("BertNormalizer",), ("BertPreTokenizer",))
        self.map = Replace(_spaced(json.dumps(spec | {"model": _NO_MODEL})))

    def words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return tf.strings.split(encoded(self.map(decoded(texts))))


class _Wordpiece(_Bert):
    def __init__(self, tokenizer: Tokenizer, spec: dict[str, Any]):
        super().__init__(tokenizer, spec)
        model = spec["model"]
        self.longest = model["max_input_chars_per_word"]
        self.unknown = tokenizer.vocabulary.unk
        self.pieces = tensorflow_text.FastWordpieceTokenizer(
            vocab=_pieces(model["vocab"]),
            suffix_indicator=model["continuing_subword_prefix"],
            max_bytes_per_word=4 * self.longest,  # the op counts bytes, the package characters
            unknown_token=model["unk_token"],
            token_out_type=tf.int32,
            no_pretokenization=True,
        )

    def ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        long = tf.strings.length(words, "UTF8_CHAR") > self.longest
        return self.pieces.tokenize(tf.where(long, SPELLINGS[self.unknown], words))


class _Word(_Bert):
    def __init__(self, tokenizer: Tokenizer, spec: dict[str, Any]):
        super().__init__(tokenizer, spec)
        self.table = _table(spec["model"]["vocab"], tokenizer.vocabulary.unk)

    def ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_uniform_row_length(self.table.lookup(words), 1)


class _Marked(GraphTokenizer):
    """SentencePiece's words: Unicode normal form, single spaces for white space, and a mark before each word."""

    form = ""

    def __init__(self, tokenizer: Tokenizer, spec: dict[str, Any], cut: Sequence[str]):
        super().__init__()
        steps = _check(tokenizer, spec, (self.form, "Lowercase", "Replace", "Strip"), cut)
        metaspace = _steps(spec["pre_tokenizer"], "pretokenizers")[0]
        usual = metaspace["prepend_scheme"] == "always" and metaspace["split"] and metaspace["replacement"] == MARK
        if not usual or _SPACES not in steps or {"type": "Strip", "strip_left": True, "strip_right": True} not in steps:
            raise _refusal(tokenizer, "it treats spaces in its own way")
        self.composed = Composed(self.form) if steps[0]["type"] == self.form else None
        rest = tokenizers.Tokenizer.from_str(json.dumps(spec | {"normalizer": _sequence(steps, (self.form, "Strip"))}))
        shown = self.composed.shown if self.composed else {}

        def mapped(text: str) -> str:
            return rest.normalizer.normalize_str(text)

        found = changes(lambda text: mapped(text) if len(text) == 1 else "".join(map(mapped, text)))
        self.map = Replace(found | {code: mapped(one) for code, one in shown.items()})

    def words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = encoded(self.map(decoded(self.composed(texts) if self.composed else texts)))
        texts = tf.strings.regex_replace(tf.strings.strip(texts), " +", MARK)
        bare = (tf.strings.length(texts) > 0) & ~tf.strings.regex_full_match(texts, f"(?s){MARK}.*")
        codes = decoded(tf.where(bare, tf.constant(MARK) + texts, texts))
        return words_of(codes, self.begins(codes))

    def begins(self, codes: tf.RaggedTensor) -> tf.Tensor:
        return first_of(codes) | (codes.flat_values == ord(MARK))


class _Unigram(_Marked):
    form = "NFKC"

    def __init__(self, tokenizer: Tokenizer, spec: dict[str, Any]):
        super().__init__(tokenizer, spec, ("Metaspace",))
        if spec["model"].get("byte_fallback"):
            raise _refusal(tokenizer, "it writes unknown characters as bytes")
        vocabulary = spec["model"]["vocab"]
        pieces = [(piece, number, score) for number, (piece, score) in enumerate(vocabulary) if piece[-1:] != " "]
        self.pieces = BestPieces(pieces, tokenizer.vocabulary.unk, min(score for _, score in vocabulary))

    def ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        distinct, numbers = tf.unique(words)
        return tf.gather(self.pieces(distinct), numbers)


class _Character(_Marked):
    form = "NFC"

    def __init__(self, tokenizer: Tokenizer, spec: dict[str, Any]):
        super().__init__(tokenizer, spec, ("Metaspace", "Split"))
        self.table = _table(spec["model"]["vocab"], tokenizer.vocabulary.unk)

    def begins(self, codes: tf.RaggedTensor) -> tf.Tensor:
        return tf.ones_like(codes.flat_values, tf.bool)

    def ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_uniform_row_length(self.table.lookup(words), 1)


_OTHER, _LETTER, _DIGIT, _BLANK = range(4)
_CONTRACTIONS = ("s", "t", "m", "d", "re", "ve", "ll")


class _Bpe(GraphTokenizer):
    """GPT-2's BPE over bytes (Radford et al., 2019, section 2.2)."""

    def __init__(self, tokenizer: Tokenizer, spec: dict[str, Any]):
        super().__init__()
        steps = _check(tokenizer, spec, ("Lowercase", "Strip"), ("ByteLevel",))
        cut, model = spec["pre_tokenizer"], spec["model"]
        if not cut["use_regex"] or any(model.get(name) for name in ("dropout", "ignore_merges", "end_of_word_suffix")):
            raise _refusal(tokenizer, "it cuts or merges words otherwise than GPT-2's tokenizer")
        self.lead = cut["add_prefix_space"]
        lower = {"type": "Lowercase"} in steps
        self.map = Replace(changes(tokenizers.normalizers.Lowercase().normalize_str)) if lower else None
        strip = tokenizers.normalizers.Strip().normalize_str
        blank = "".join(f"\\x{{{code:x}}}" for page in pages() for code in page if not strip(chr(code)))
        self.ends = f"^[{blank}]+|[{blank}]+$" if any(step["type"] == "Strip" for step in steps) else ""
        self.classes = Lookup(_classes())
        vocabulary = model["vocab"]
        symbols = [vocabulary.get(one, tokenizer.vocabulary.unk) for one in _BYTES]
        split = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
        pairs = [tuple(vocabulary[piece] for piece in (left, right, left + right)) for left, right in split]
        self.merges = Merges(symbols, pairs, tokenizer.vocabulary.size)

    def words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        if self.map:
            texts = encoded(self.map(decoded(texts)))
        if self.ends:
            texts = tf.strings.regex_replace(texts, self.ends, "")
        if self.lead:
            bare = (tf.strings.length(texts) > 0) & (tf.strings.substr(texts, 0, 1) != " ")
            texts = tf.where(bare, tf.constant(" ") + texts, texts)
        codes = decoded(texts)
        return words_of(codes, self._begins(codes))

    def _begins(self, codes: tf.RaggedTensor) -> tf.Tensor:
        """Returns bool [N]: where a match of GPT-2's pattern for words begins,
        ``'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+``.

        A space belongs to the word that follows it. The last character of white space before a word is separated from
        the others. A contraction counts only if its apostrophe begins a word.
        """
        flat, first = codes.flat_values, first_of(codes)
        last = shifted(first, -1, True)
        kind = self.classes(flat)
        before, after = shifted(kind, 1, _OTHER), shifted(kind, -1, _BLANK)
        space = shifted(flat == ord(" "), 1, False)
        blank = (before != _BLANK) | (~last & (after != _BLANK))
        begins = first | tf.where(kind == _BLANK, blank, tf.where(before == _BLANK, ~space, kind != before))
        opens = (flat == ord("'")) & (first | (begins & (before != _OTHER)))
        for letters in _CONTRACTIONS:
            found = opens
            for place, letter in enumerate(letters, 1):
                found &= shifted(flat == ord(letter), -place, False) & ~shifted(first, -place, True)
            inside = shifted(found, 1, False)
            if len(letters) == 2:
                inside |= shifted(found, 2, False)
            begins = (begins & ~inside) | shifted(found, len(letters) + 1, False)
        return begins

    def ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        distinct, numbers = tf.unique(words)
        return tf.gather(self.merges(distinct), numbers)


def _bytes() -> list[str]:
    """Returns the character for each byte in BPE vocabularies, as in the `tokenizers` package."""
    alone = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in alone]
    return [chr(byte) if byte in alone else chr(256 + rest.index(byte)) for byte in range(256)]


_BYTES = _bytes()


@lru_cache(maxsize=1)
def _classes() -> np.ndarray:
    """Returns the class of each code point in GPT-2's pattern: letter, digit, white space or other; int32 [CODES]."""
    cut = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str

    def joins(text: str) -> bool:
        return len(cut(text)) == 1

    found = np.full(CODES, _OTHER, np.int32)
    for begin in range(0, CODES, 256):
        page = [chr(code) for code in range(begin, begin + 256) if not 0xD800 <= code < 0xE000]
        if not page or joins("!" + "".join(page)):
            continue
        letters = joins("a" + "".join(page))
        for one in page:
            if letters or joins("a" + one):
                found[ord(one)] = _LETTER
            elif not joins("!" + one):
                found[ord(one)] = _DIGIT if joins("1" + one) else _BLANK
    return found


def _pieces(vocabulary: dict[str, int]) -> list[str]:
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _table(vocabulary: dict[str, int], unknown: int) -> tf.lookup.StaticHashTable:
    pieces = [piece for piece in vocabulary if piece not in SPELLINGS]
    numbers = [vocabulary[piece] for piece in pieces]
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(pieces, numbers, tf.string, tf.int32), unknown)


def _steps(part: dict[str, Any] | None, several: str) -> list[dict[str, Any]]:
    """Returns the steps of a normalizer or pre-tokenizer, with sequences flattened."""
    if part is None:
        return []
    return [step for one in part[several] for step in _steps(one, several)] if part["type"] == "Sequence" else [part]


def _sequence(steps: Sequence[dict[str, Any]], without: Sequence[str]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": [step for step in steps if step["type"] not in without]}


def _check(
    tokenizer: Tokenizer, spec: dict[str, Any], normal: Sequence[str], cut: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns the steps of the normalizer. Raises `UsageError` unless they are among ``normal``, in this order, and the
    steps of the pre-tokenizer are ``cut``."""
    steps = _steps(spec["normalizer"], "normalizers")
    names = [step["type"] for step in steps]
    if names != [name for name in normal if name in names]:
        raise _refusal(tokenizer, f"its normaliser is {' and '.join(names)}")
    names = [step["type"] for step in _steps(spec["pre_tokenizer"], "pretokenizers")]
    if names != list(cut):
        raise _refusal(tokenizer, f"its pre-tokenizer is {' and '.join(names) or 'missing'}")
    return steps


def _refusal(tokenizer: Tokenizer, reason: str) -> UsageError:
    return UsageError(
        f"The {tokenizer.kind} tokenizer of this checkpoint cannot be part of the graph, because {reason}. {NEXT}"
    )
