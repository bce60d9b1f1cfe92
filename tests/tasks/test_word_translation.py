"""Dictionaries: the official layout, precision by hand and as in the authors' program, and those of the microworld."""

from pathlib import Path

import numpy as np
import pytest

from ptmbench.tasks import load
from ptmbench.tasks.forms import Rank, Target
from ptmbench.tasks.metrics.translations import translations
from ptmbench.tasks.microworld import Sizes, make
from ptmbench.tasks.microworld.lexicon import lexicon
from ptmbench.tasks.microworld.mowari import stem
from ptmbench.tasks.task import DataError, UnknownTask


def dictionaries(data: Path, train: str, test: str, pair: str = "en-es") -> None:
    (data / "muse").mkdir()
    (data / f"muse/{pair}.0-5000.txt").write_text(train)
    (data / f"muse/{pair}.5000-6500.txt").write_text(test)


def test_each_line_is_a_word_and_one_translation(tmp_path: Path) -> None:
    dictionaries(tmp_path, "the la\nthe\tel\nof de\n", "paper papel\n")
    train, test = (load("word_translation").examples(tmp_path, split) for split in ("train", "test"))
    assert [(e.id, e.inputs, str(e.gold), e.group) for e in train] == [
        ("1", ("the",), "la", "the"), ("2", ("the",), "el", "the"), ("3", ("of",), "de", "of"),
    ]  # fmt: skip
    assert train[0].gold.others == {"la", "el"} and train[2].gold.others == {"de"}
    assert set(train[0].gold.candidates) == set(test[0].gold.candidates) == {"la", "el", "de", "papel"}


def test_errors_name_bad_lines_and_unknown_pairs(tmp_path: Path) -> None:
    dictionaries(tmp_path, "the la\nof\n", "paper papel\n", "de-en")
    with pytest.raises(DataError, match=r"de-en\.0-5000\.txt, line 2: a word and its translation"):
        load("word_translation-de-en").examples(tmp_path, "train")
    with pytest.raises(UnknownTask, match="word_translation-de-en"):
        load("word_translation-german")
    assert load("word_translation-en-es") is load("word_translation")


def test_one_correct_translation_per_word_is_enough() -> None:
    """There are two words. The first has translations at the filtered ranks 1 and 7, the second at 5."""
    gold = [Target(name, kind=kind) for name, kind in (("la", "the"), ("de", "of"), ("el", "the"))]
    found = translations(gold, [Rank(1), Rank(5), Rank(7)])
    assert found == {"p_at_1": 50.0, "p_at_5": 100.0, "p_at_10": 100.0}
    assert translations([], []) == {"p_at_1": 0.0, "p_at_5": 0.0, "p_at_10": 0.0}


def test_precision_from_filtered_ranks_equals_the_authors_program() -> None:
    """The program sorts all candidates and looks for any translation among the first k."""
    from ptmbench.tasks.metrics.ranks import rank

    rng = np.random.default_rng(0)
    scores = rng.normal(size=(40, 25))
    right = [sorted(rng.choice(25, rng.integers(1, 4), replace=False)) for _ in scores]
    gold, ranks = [], []
    for word, (row, answers) in enumerate(zip(scores, right, strict=True)):
        gold += [Target(str(answer), kind=str(word)) for answer in answers]
        ranks += [Rank(rank(row, answer, answers)) for answer in answers]
    order = np.argsort(-scores, axis=1)
    for k in (1, 5, 10):
        hits = [bool(set(first[:k]) & set(answers)) for first, answers in zip(order, right, strict=True)]
        assert translations(gold, ranks)[f"p_at_{k}"] == pytest.approx(100 * np.mean(hits))


def test_microworld_dictionary_has_words_of_the_corpus_in_both_languages(tmp_path: Path) -> None:
    make(tmp_path / "m", scale=Sizes(corpus_tokens=40_000, foreign=0.3, train=2, dev=2, test=2, wiki_tokens=10))
    task = load("word_translation-mw-en")
    train, test = (task.examples(tmp_path / "m", split) for split in ("train", "test"))
    assert len(train) > 60 and len(test) > 30
    corpus_words = (tmp_path / "m/corpus/microworld.txt").read_text().lower().replace(".", "").replace(",", "").split()
    words = lexicon(0)
    nouns = {noun.lemma: noun.plural for noun in words.nouns}
    plurals = {stem(lemma) + "ik": plural for lemma, plural in nouns.items()}
    for example in (*train, *test):
        (mowari,), english = example.inputs, str(example.gold)
        assert corpus_words.count(mowari) >= 5 and corpus_words.count(english) >= 5
        assert mowari not in map(stem, nouns) or stem(english) == mowari
        assert english == plurals.get(mowari, english)
    forms = {verb.past: verb.lemma for verb in (*words.likes, *words.hates, *words.neutral, *words.alone)}
    past = [e for e in (*train, *test) if str(e.gold) in forms]
    assert past and all(e.inputs[0] == stem(forms[str(e.gold)]) + "o" for e in past)
    # All forms of a word are in the same split: no test noun has its plural in the training set.
    learnt = {str(e.gold) for e in train}
    assert not [e for e in test if str(e.gold) in nouns and nouns[str(e.gold)] in learnt]
