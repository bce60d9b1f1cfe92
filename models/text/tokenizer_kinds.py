"""Sets up and trains each kind of tokenizer, reproducibly in every process; see `models.text.tokenizers`."""

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tokenizers
from tokenizers import Regex, decoders, normalizers, pre_tokenizers, trainers
from tokenizers import models as algorithms

SENTINELS = 32
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"<extra_{i}>" for i in range(SENTINELS)))
# Inside the model, the spelling of a special token ends with a space. Pre-tokens have no spaces, so no text matches it.
SPELLINGS = [name + " " for name in SPECIALS]


def untrained(kind: str, lowercase: bool) -> tokenizers.Tokenizer:
    """Returns an untrained tokenizer of ``kind``: normalizer, pre-tokenizer, algorithm and decoder."""
    unk = SPELLINGS[1]
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


def trainer(kind: str, size: int, impl: tokenizers.Tokenizer, texts: Iterable[str]) -> Any:
    """Returns the `tokenizers` package's trainer for ``kind``."""
    common: dict[str, Any] = {"vocab_size": size, "show_progress": False, "special_tokens": SPELLINGS}
    if kind == "bpe":
        return trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **common)
    if kind == "unigram":
        return trainers.UnigramTrainer(unk_token=SPELLINGS[1], **common)
    if kind != "wordpiece":
        return trainers.WordLevelTrainer(**common)
    # By default the trainer numbers the "##x" forms in the order of a randomly seeded hash map, and breaks ties between
    # merges by these numbers. Each process would give another vocabulary. As special tokens the forms keep their order.
    letters, inner = _alphabet(impl, texts, limit=max(size // 4, 64))
    common["special_tokens"] = [*SPELLINGS, *(f"##{letter}" for letter in inner)]
    return trainers.WordPieceTrainer(
        initial_alphabet=letters, limit_alphabet=len(letters), continuing_subword_prefix="##", **common
    )


def _alphabet(impl: tokenizers.Tokenizer, texts: Iterable[str], limit: int) -> tuple[list[str], list[str]]:
    """Returns the ``limit`` most frequent characters of normalized ``texts``, and which of them occur inside words.

    Both lists are sorted.
    """
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
    """Whether BERT's pre-tokenizer splits before and after ``character``."""
    return (
        character.isspace()
        or unicodedata.category(character).startswith("P")
        or (character < "\x7f" and not character.isalnum())
    )


def _batched(texts: Iterable[str], characters: int) -> Iterator[str]:
    """Joins ``texts`` with line ends into strings of about ``characters`` characters."""
    batch, length = [], 0
    for text in texts:
        batch.append(text)
        length += len(text)
        if length >= characters:
            yield "\n".join(batch)
            batch, length = [], 0
    if batch:
        yield "\n".join(batch)


def make_reproducible(vocabulary: list[list[Any]]) -> list[list[Any]]:
    """Makes a unigram vocabulary independent of hash order: same pieces, rounded scores, ties in alphabetical order.

    The trainer adds floats in random order, with differences of 1e-15. To the characters that it must keep, it gives
    the lowest score plus multiples of 1e-4, also in random order. Here they all get the lowest score.
    """
    specials, pieces = vocabulary[: len(SPECIALS)], vocabulary[len(SPECIALS) :]
    lowest = min(score for _, score in pieces) if pieces else 0.0
    single = 1e-4 * sum(len(piece) == 1 for piece, _ in pieces) + 1e-6
    rounded = [
        [piece, round(lowest if len(piece) == 1 and score <= lowest + single else score, 6)] for piece, score in pieces
    ]
    return [*specials, *sorted(rounded, key=lambda row: (-row[1], row[0]))]
