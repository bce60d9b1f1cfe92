"""Tests of removing repeated documents: which ones are found, which are kept, and what is reported."""

import json

import numpy as np
import pytest

from ptmbench.models.text import pieces
from ptmbench.models.text.corpus import CorpusError, read, store, train_tokenizer
from ptmbench.models.text.duplicates import RULES, repeats, signature

EXACT = [3601172435, 2032574862, 3016976295, 3957283690]
NEAR = [343009757, 1256876761, 1394743475]
"""Signatures of one text, computed on another day."""


def words(rng: np.random.Generator, count: int) -> list[str]:
    return [f"w{number}" for number in rng.integers(0, 5000, count)]


def jaccard(one: list[str], other: list[str]) -> float:
    """Returns the Jaccard similarity of the runs of five words in two texts."""
    runs = [{tuple(text[i : i + 5]) for i in range(len(text) - 4)} for text in (one, other)]
    return len(runs[0] & runs[1]) / len(runs[0] | runs[1])


def test_signatures_estimate_the_jaccard_similarity():
    rng = np.random.default_rng(0)
    for changed in (0, 5, 20, 60):
        one = words(rng, 600)
        other = list(one)
        for place in rng.integers(0, 600, changed):
            other[place] = "changed"
        agreed = (signature([" ".join(one)], "near") == signature([" ".join(other)], "near")).mean()
        assert agreed == pytest.approx(jaccard(one, other), abs=0.15)
    assert (signature(["completely"], "near") == signature(["different"], "near")).mean() < 0.05


def test_signatures_are_the_same_on_every_machine():
    text = ["A sentence with Ünïcode, and then some.", "Another."]
    assert signature(text, "exact").tolist() == EXACT
    assert signature(text, "near")[:3].tolist() == NEAR


@pytest.mark.parametrize("rule", RULES)
def test_case_punctuation_and_spaces_do_not_matter(rule):
    one = signature(["The cat, it sat.", "So!"], rule)
    assert np.array_equal(one, signature(["the CAT it  sat", "so"], rule))
    assert not np.array_equal(one, signature(["the cat it sat", "no"], rule))


def test_near_repeats_are_removed_and_the_first_one_is_kept():
    rng = np.random.default_rng(3)
    originals = [words(rng, int(rng.integers(80, 300))) for _ in range(300)]
    documents, expected = list(originals), [False] * 300
    for text in originals[:100]:
        copy = list(text)
        copy[len(copy) // 2] = "changed"  # a Jaccard similarity of at least 0.88
        documents.append(copy)
        expected.append(True)
    for text in originals[100:200]:
        documents.append(text[: len(text) // 2] + words(rng, len(text) // 2))  # a Jaccard similarity of a third
        expected.append(False)
    signed = np.stack([signature([" ".join(document)], "near") for document in documents])
    repeated = repeats(signed, "near")
    assert repeated[~np.array(expected)].sum() == 0
    assert repeated[np.array(expected)].mean() > 0.9
    assert repeats(np.zeros((0, 128), np.uint32), "near").tolist() == []


def test_exact_repeats_are_found_at_any_distance(monkeypatch):
    rng = np.random.default_rng(4)
    signed = rng.integers(0, 2**32, (500, 4), np.uint32)
    copies = rng.integers(0, 500, 200)
    assert repeats(np.concatenate([signed, signed[copies]]), "exact").tolist() == [False] * 500 + [True] * 200


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The cat sat.", "the CAT sat", True),
        ("तुम कैसे हो", "तुम कैसी हो", False),  # vowel signs are combining marks
        ("ไม่", "ไม้", False),  # tone marks too
        ("le prix e\u0301tait", "le prix etait", False),
        ("…", "😀", False),
        ("* * *", "* * *", True),
    ],
)
def test_combining_marks_distinguish_words_and_symbols_distinguish_documents(one, other, same, rule):
    signed = np.array([signature([text], rule) for text in (one, other)])
    assert repeats(signed, rule).tolist() == [False, same]


@pytest.mark.parametrize("rule", RULES)
def test_repeated_documents_are_removed_from_the_corpus(rule, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 3000)
    rng = np.random.default_rng(5)
    texts = [" ".join(words(rng, 40)) + "." for _ in range(60)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in [*texts, *(text.upper() for text in texts[:20])]))
    other = tmp_path / "b.jsonl"
    other.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    tokenizer = train_tokenizer([path], "word", 300)
    kept = store([path], tokenizer, tmp_path / "kept", deduplicate=rule, processes=1)
    assert (kept.total("documents"), kept.total("removed_documents")) == (60, 20)
    assert kept.total("removed_characters") == sum(map(len, texts[:20]))
    assert kept.total("tokens") == store([other], tokenizer, tmp_path / "other", processes=1).total("tokens")
    assert kept.about["fingerprint"] != store([path], tokenizer, tmp_path / "all", processes=1).about["fingerprint"]
    two = store([path], tokenizer, tmp_path / "two", deduplicate=rule, processes=2)
    assert two.shards == kept.shards
    assert not list((tmp_path / "kept").glob("repeated-*"))
    assert len(list(read([path]))) == 80


def test_search_for_repeats_is_not_repeated_after_an_interruption(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 300)
    path = tmp_path / "a.txt"
    path.write_text("Some words stand here.\n\nOther words stand here.\n\nSome words stand here.\n\n" * 20)
    tokenizer = train_tokenizer([path], "word", 100)

    def stop(shard):
        raise CorpusError("stopped")

    with pytest.raises(CorpusError, match="stopped"):
        store([path], tokenizer, tmp_path / "out", deduplicate="exact", processes=1, made=stop)
    monkeypatch.setattr("ptmbench.models.text.duplicates.repeats", None)  # would fail if it were called
    assert store([path], tokenizer, tmp_path / "out", deduplicate="exact", processes=1).total("documents") == 2


@pytest.mark.parametrize("rule", RULES)
def test_text_without_words_raises_an_error(rule, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": ""}\n{"text": " "}\n')
    (tmp_path / "b.txt").write_text("Words.")
    tokenizer = train_tokenizer([tmp_path / "b.txt"], "word", 100)
    with pytest.raises(CorpusError, match="No token is left"):
        store([path], tokenizer, tmp_path / "out", deduplicate=rule, processes=1)
