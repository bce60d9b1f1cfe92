"""Tests of every kind of tokenizer: round trips, offsets, words, special tokens (which no text can spell), and
files."""

import json
import os
import random
import subprocess
import sys
import unicodedata
from functools import cache

import numpy as np
import pytest

from ptmbench.models.text.tokenizers import KINDS, SPECIALS, Tokenizer, TokenizerError

TEXT = [
    "The quick brown fox jumps over the lazy dog, and the dog sleeps on.",
    "A café in Zürich sells naïve crème brûlée; she doesn't like it!",
    "Over 1,234 people (mostly walkers) walked, walking and walk again.",
    "[MASK] and <extra_0> are written here, [PAD] too, [CLS] [SEP] [UNK].",
    "unbelievable undoing unkind unknown underlying understanding undertakings",
] * 20
HARD = [
    "The dog sleeps.",
    "",
    "   ",
    " two  spaces\r\nand\tmore\n",
    "cafe\u0301 Zu\u0308rich na\u00efve",
    "cr\u00e8me br\u00fbl\u00e9e \U0001f600 \u6771\u4eac [MASK]<extra_3>[SEP]",
    "\u00a0non-breaking\u200bzero",
    "x" * 300,
]
every_kind = pytest.mark.parametrize("kind", KINDS)


@cache
def trained(kind: str, lowercase: bool = False) -> Tokenizer:
    return Tokenizer.train(kind, TEXT, 400, lowercase=lowercase)


@every_kind
def test_special_ids_are_fixed(kind):
    tokenizer = trained(kind)
    vocabulary = tokenizer.vocabulary
    ids = (vocabulary.pad, vocabulary.unk, vocabulary.cls, vocabulary.sep, vocabulary.mask, *vocabulary.sentinels)
    assert ids == tuple(range(37)) and vocabulary.first == 37
    assert tokenizer.pieces(ids) == list(SPECIALS)
    assert 37 < vocabulary.size <= 400


@every_kind
def test_text_cannot_spell_special_tokens(kind):
    tokenizer = trained(kind)
    for name in SPECIALS:
        for text in (name, f"{name} ", f" {name}{name}", f"a{name}b {name} c"):
            ids = tokenizer.encode([text])[0]
            assert not [i for i in ids if i < 37 and i != tokenizer.vocabulary.unk]


@every_kind
def test_empty_text_has_no_ids(kind):
    assert trained(kind).encode(["", "  ", "\n"]) == [[], [], []]


@every_kind
@pytest.mark.parametrize("lowercase", [False, True])
def test_offsets_point_into_the_original(kind, lowercase):
    tokenizer = trained(kind, lowercase)
    plain = tokenizer.encode(HARD)
    for text, ids, (same, offsets) in zip(HARD, plain, tokenizer.encode_with_offsets(HARD), strict=True):
        assert same == ids and len(offsets) == len(ids)
        assert all(0 <= start <= end <= len(text) for start, end in offsets)
        assert [start for start, _ in offsets] == sorted(start for start, _ in offsets)
        covered = {i for start, end in offsets for i in range(start, end)}
        visible = {i for i, c in enumerate(text) if not c.isspace() and unicodedata.category(c) not in ("Cf", "Cc")}
        assert visible <= covered
        assert not any(start < end and text[start].isspace() for start, end in offsets)


@every_kind
def test_accents_belong_to_their_letter(kind):
    text = "A cafe\u0301 sells"
    _, offsets = trained(kind).encode_with_offsets([text])[0]
    assert [end for start, end in offsets if start <= 6 < end] and text[6] == "\u0301"
    if kind != "bpe":  # where the accent is not a separate token
        assert {end for start, end in offsets if start <= 5 < end} == {7}


@every_kind
def test_decode_restores_the_text(kind):
    tokenizer = trained(kind)
    text = "the dog walked over the quick fox"
    ids = tokenizer.encode([text])[0]
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode([2, *ids, 3, 0, 0, 5, 10**6]) == text
    assert tokenizer.decode([]) == ""


def test_bpe_is_lossless():
    tokenizer = trained("bpe")
    for text in ("Zürich — “naïve” \U0001f600 東京", "a  b\tc\nd", "[MASK] <extra_0>"):
        assert tokenizer.decode(tokenizer.encode([text])[0]) == text
        assert tokenizer.vocabulary.unk not in tokenizer.encode([text])[0]


def test_wordpiece_takes_the_longest_piece():
    """BERT's algorithm, implemented again, on the trained vocabulary."""
    tokenizer = trained("wordpiece")
    pieces = set(tokenizer.pieces(range(37, tokenizer.vocabulary.size)))

    def split(word: str) -> list[str]:
        result, start = [], 0
        while start < len(word):
            end = len(word)
            while end > start and ("##" if start else "") + word[start:end] not in pieces:
                end -= 1
            if end == start:
                return ["[UNK]"]
            result.append(("##" if start else "") + word[start:end])
            start = end
        return result

    for word in ("unbelievable", "walkings", "Zürich", "undogs", "qqq", "Ω"):
        assert tokenizer.pieces(tokenizer.encode([word])[0]) == split(word)


@every_kind
def test_every_word_has_a_token(kind):
    tokenizer = trained(kind)
    sentences = [["The", "dog", "", "\u200b", "naïve", "Ωmega"], [], ["The", "dog"]]
    for sentence, (ids, index) in zip(sentences, tokenizer.encode_words(sentences), strict=True):
        assert len(ids) == len(index)
        assert sorted(set(index)) == list(range(len(sentence))) and index == sorted(index)
    first, last = tokenizer.encode_words(sentences)[0], tokenizer.encode_words(sentences)[2]
    assert last[0] == first[0][: len(last[0])]
    assert tokenizer.encode_words([["", "x"]])[0][0][0] == tokenizer.vocabulary.unk


@every_kind
def test_heads_mark_the_beginnings_of_words(kind):
    tokenizer = trained(kind)
    text = "The dog walked over (and under) unbelievable dogs, naïve"
    ids, offsets = tokenizer.encode_with_offsets([text])[0]
    heads = tokenizer.heads(np.array(ids))
    begins = {0} | {i for i in range(1, len(text)) if text[i - 1] in " (" or text[i] in "(),"}
    begins -= {i for i, character in enumerate(text) if character == " "}
    middle = {i for i in range(1, len(text)) if text[i].isalnum() and text[i - 1].isalnum()}
    marked = {start for (start, _), head in zip(offsets, heads, strict=True) if head}
    assert begins <= marked and not marked & middle


def test_lowercase_option_ignores_case():
    for kind in KINDS:
        upper, lower = trained(kind, True).encode(["THE DOG", "the dog"])
        assert upper == lower
        assert trained(kind).encode(["THE DOG"]) != trained(kind).encode(["the dog"])


@every_kind
def test_file_round_trip(kind, tmp_path):
    tokenizer = trained(kind)
    path = tmp_path / "folder" / "tokenizer.json"
    tokenizer.save(path)
    again = Tokenizer.load(path)
    assert again.fingerprint == tokenizer.fingerprint and again.kind == kind
    assert again.vocabulary == tokenizer.vocabulary
    assert again.encode(HARD + TEXT) == tokenizer.encode(HARD + TEXT)
    assert list(path.parent.iterdir()) == [path]


def test_damaged_files_raise_an_error(tmp_path):
    path = tmp_path / "tokenizer.json"
    with pytest.raises(TokenizerError, match="Cannot read"):
        Tokenizer.load(path)
    trained("word").save(path)
    whole = path.read_text()
    changed = json.loads(whole)
    changed["tokenizer"]["model"]["vocab"]["swapped"] = 99
    for content in ("", "{}", "[1]", whole[: len(whole) // 2], json.dumps(changed), whole.replace('"word"', '"runes"')):
        path.write_text(content)
        with pytest.raises(TokenizerError, match=str(path)):
            Tokenizer.load(path)
    path.write_text(whole.replace('"format": 1', '"format": 99'))
    with pytest.raises(TokenizerError, match="format 99"):
        Tokenizer.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TokenizerError):
        Tokenizer.load(path)


def test_wrong_arguments_raise_an_error():
    with pytest.raises(TokenizerError, match="wordpiece, bpe, unigram"):
        Tokenizer.train("runes", TEXT, 400)
    with pytest.raises(TokenizerError, match="at least"):
        Tokenizer.train("bpe", TEXT, 100)
    for kind in KINDS:
        if kind != "bpe":
            with pytest.raises(TokenizerError):
                Tokenizer.train(kind, [], 400)


def equally_frequent():
    """Returns words of few letters, so that many pieces are equally frequent and only the order of ties decides."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 6))) for _ in range(40)]
    return [" ".join(draw.choices(words, k=12)) for _ in range(60)]


def fingerprints():
    """Returns the fingerprints of all kinds on `TEXT`, and of some on a text with ties."""
    ties = equally_frequent()
    of_ties = [
        Tokenizer.train(kind, ties, size).fingerprint for kind in ("wordpiece", "unigram") for size in (130, 250)
    ]
    return [*(trained(kind).fingerprint for kind in KINDS), *of_ties]


def test_training_is_reproducible_in_other_processes():
    """The underlying trainers iterate over hash maps with other seeds in each process, and add floats in the order in
    which their threads end."""
    code = "from tests.models.test_tokenizers import fingerprints\nprint(*fingerprints())"
    ours = fingerprints()
    assert len(set(ours[: len(KINDS)])) == len(KINDS)
    for threads in ({}, {"RAYON_NUM_THREADS": "1"}, {"RAYON_NUM_THREADS": "3"}, {"TOKENIZERS_PARALLELISM": "false"}):
        done = subprocess.run([sys.executable, "-c", code], env=os.environ | threads, capture_output=True, text=True)
        assert done.stdout.split() == ours, (threads, done.stderr)


def test_train_accepts_an_iterator():
    assert Tokenizer.train("wordpiece", iter(TEXT), 400).fingerprint == trained("wordpiece").fingerprint
