"""Tests of words without case and punctuation, and of hashes of their runs."""

import re

import numpy as np
import pytest

from ptmbench.models.text.duplicates import repeats, signature
from ptmbench.models.text.runs import WordRuns, fold_words


def words(text: str) -> list[str]:
    return fold_words(text).decode().split("\0")[:-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat,  it sat!", ["the", "cat", "it", "sat"]),
        ("\u201cWell\u201d \u2014 he didn\u2019t\u2026", ["well", "he", "didn", "t"]),
        ("STRASSE straße 3.5", ["strasse", "strasse", "3", "5"]),
        ("तुम कैसे हो", ["तुम", "कैसे", "हो"]),
        ("特斯拉于 1943 年去世。", ["特", "斯", "拉", "于", "1943", "年", "去", "世"]),
        ("GPT模型", ["gpt", "模", "型"]),
        ("a_b ____", ["a_b", "____"]),
        ("", []),
        (" \n", []),
        ("…", ["…"]),
        ("???", ["???"]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


def test_ascii_path_gives_the_same_words_as_the_general_path():
    text = "".join(map(chr, range(1, 128))) * 2 + " It's 5-0, e.g. U.S. "
    assert words(text) == re.findall(r"\w+", text.casefold()) == words(f"{text} é")[:-1]


def test_runs_with_equal_words_have_equal_hashes():
    one, other = WordRuns(fold_words("a b c d a b c")), WordRuns(fold_words("x a b c, ab c"))
    assert len(one) == 7 and len(other) == 6
    three = one.of(3)
    assert three.shape == (5,) and three[0] == three[4] == other.of(3)[1]
    assert len(np.unique(np.concatenate([one.of(2), other.of(2)]))) == 7  # "ab c" is not "a b"
    assert one.of(8).shape == (0,) and WordRuns(b"").of(2).shape == (0,)


def test_chinese_documents_that_differ_in_one_character_are_near_repeats():
    rng = np.random.default_rng(0)
    text = "".join(map(chr, rng.integers(0x4E00, 0x5E00, 200)))
    changed = text[:100] + "。" + text[101:]
    signed = np.array([signature([document], "near") for document in (text, changed, text[::-1])])
    assert repeats(signed, "near").tolist() == [False, True, False]
