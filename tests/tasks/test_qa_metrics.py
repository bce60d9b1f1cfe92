"""Metrics of question answering, compared with tables worked out by hand from the logic of the official scripts.

The scripts are evaluate-v2.0 (SQuAD 2.0), evaluate-v1.0 (CoQA), hotpot_evaluate_v1, mlqa_evaluation_v1 and
cmrc2018_evaluate. A comment names the step of the script behind an expected value, if it is not obvious.
"""

import pytest

from ptmbench.tasks.forms import Answer, Answers, Reply
from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.cmrc import cmrc, segments
from ptmbench.tasks.metrics.coqa import coqa
from ptmbench.tasks.metrics.hotpotqa import hotpotqa
from ptmbench.tasks.metrics.mlqa import mlqa, normalise
from ptmbench.tasks.metrics.squad import closest
from ptmbench.tasks.metrics.squad2 import squad2, thresholds
from ptmbench.tasks.task import DataError


def _gold(*texts: str) -> tuple[Answer, ...]:
    return tuple(Answer(text, 0) for text in texts)


def _exact_and_f1(found: dict[str, float]) -> tuple[float, float]:
    return found["exact_match"], found["f1"]


@pytest.mark.parametrize(
    ("golds", "guess", "exact", "f1"),
    [
        ((), "", 100, 100),
        ((), "cat", 0, 0),
        ((), "the", 100, 100),  # normalises to nothing, like no answer
        ((), None, 0, 0),  # missing; `bench score` rejects such a file
        (("cat",), "", 0, 0),
        (("cat",), "the", 0, 0),
        (("The Cat",), "cat!", 100, 100),
        (("the",), "a", 100, 100),  # the only gold is dropped, so "no answer" is right; F1 is 0 in version 1.1
        (("the", "cat"), "a", 0, 0),  # another gold answer remains, so it is wrong
        (("the", "cat"), "cat", 100, 100),
        (("black cat", "dog"), "the black dog", 0, 200 * (1 / 2) / (3 / 2)),
        (("10–12",), "1012", 0, 0),  # an en dash is not ASCII punctuation
        (("東京",), "東京", 100, 100),
        (("cat cat",), "cat", 0, 200 / 3),
    ],
)
def test_squad2_by_hand(golds: tuple[str, ...], guess: str | None, exact: float, f1: float) -> None:
    found = squad2([_gold(*golds)], [guess])
    assert _exact_and_f1(found) == pytest.approx((exact, f1))
    side, other = ("has_answer", "no_answer") if golds else ("no_answer", "has_answer")
    assert (found[f"{side}_exact_match"], found[f"{side}_f1"]) == pytest.approx((exact, f1))
    assert (found[f"{other}_exact_match"], found[f"{other}_f1"]) == (0, 0)


def test_an_answer_removed_by_a_threshold_counts_as_no_answer() -> None:
    gold = [_gold("the"), _gold("cat"), ()]
    taken = [Reply("", no_answer=3.0, span=text) for text in ("the", "cat", "dog")]
    assert _exact_and_f1(squad2(gold, taken)) == pytest.approx((100 / 3, 100 / 3))  # the script checks if gold is empty
    assert _exact_and_f1(squad2(gold, ["", "", ""])) == pytest.approx((200 / 3, 200 / 3))  # here the texts are compared


def _replies(*pairs: tuple[str, float]) -> list[Reply]:
    return [Reply(text, no_answer=odds) for text, odds in pairs]


@pytest.mark.parametrize(
    ("golds", "replies", "best", "threshold"),
    [
        ([("a b",), ()], [("x", 0.0), ("y", 0.5)], 50, 0.0),  # answering nothing is best: threshold 0
        ([("cat",), ()], [("cat", 0.1), ("dog", 0.5)], 100, 0.1),
        ([("cat",), ()], [("cat", 0.5), ("dog", 0.1)], 50, 0.0),  # the wrong answer comes first and cancels the gain
        ([("cat",), ("dog",), ()], [("cat", 0.9), ("dog", 0.2), ("x", 0.5)], 200 / 3, 0.2),
        ([("cat",), ()], [("cat", 0.3), ("dog", 0.3)], 100, 0.3),  # ties are resolved in the order of the file
        ([(), ("cat",)], [("dog", 0.3), ("cat", 0.3)], 50, 0.0),
        ([("cat",), ()], [("cat", 0.1), ("", 0.05)], 100, 0.1),  # an empty answer costs nothing
        ([("cat",)], [("cat", -7.5)], 100, -7.5),  # log odds are allowed, not only probabilities
    ],
)
def test_best_threshold_by_hand(golds: list, replies: list, best: float, threshold: float) -> None:
    found = thresholds([_gold(*texts) for texts in golds], _replies(*replies))
    assert (found["best_f1"], found["best_f1_threshold"]) == pytest.approx((best, threshold))


def test_the_best_threshold_may_restore_a_removed_answer() -> None:
    reply = Reply("", no_answer=2.0, span="cat")
    assert thresholds([_gold("cat")], [reply]) == {
        "best_exact_match": 100.0, "best_exact_match_threshold": 2.0, "best_f1": 100.0, "best_f1_threshold": 2.0
    }  # fmt: skip
    assert thresholds([_gold("cat")] * 2, [reply, "cat"]) == {}, "not every prediction says how sure it is"
    assert thresholds([], []) == {}


@pytest.mark.parametrize(
    ("golds", "guess", "exact", "f1"),
    [
        (("white",), "White.", 100, 100),
        (("white",), "", 0, 0),
        (("the",), "", 100, 100),  # get_tokens of both is empty, so they agree
        (("white", "white"), "white", 100, 100),
        (("white", "black"), "white", 50, 50),  # if "white" is left out, the best match is "black"
        (("white", "black", "white"), "white", 100, 100),
        (("white", "black", "red", "blue"), "white", 75, 75),
        (("a white kitten", "white"), "white kitten", 50, (200 / 3 + 100) / 2),
        (("yes", "Yes!", "no"), "yes", 100, 100),
        (("unknown",), "unknown", 100, 100),
        (("naïve",), "naive", 0, 0),
        (("white",), None, 0, 0),
    ],
)
def test_coqa_by_hand(golds: tuple[str, ...], guess: str | None, exact: float, f1: float) -> None:
    assert _exact_and_f1(coqa([_gold(*golds)], [guess])) == pytest.approx((exact, f1))


@pytest.mark.parametrize(
    ("gold", "guess", "exact", "f1", "precision", "recall"),
    [
        ("yes", "Yes.", 100, 100, 100, 100),
        ("yes", "yes it is", 0, 0, 0, 0),  # a gold "yes" must match exactly
        ("yes it is", "yes", 0, 0, 0, 0),  # and so must a predicted "yes"
        ("noanswer", "noanswer", 100, 100, 100, 100),
        ("no", "yes", 0, 0, 0, 0),
        ("no one", "no two", 0, 50, 50, 50),  # "no" is an ordinary word here
        ("the", "a", 100, 0, 0, 0),  # as in SQuAD 1.1: equal, but without a common word
        ("black cat", "black", 0, 200 / 3, 100, 50),
        ("", "cat", 0, 0, 0, 0),
        ("Zürich", "zürich", 100, 100, 100, 100),
    ],
)
def test_hotpotqa_answers_by_hand(
    gold: str, guess: str, exact: float, f1: float, precision: float, recall: float
) -> None:
    found = hotpotqa([Answers(_gold(gold), [("T", 0)])], [Reply(guess, facts=[("T", 0)])])
    names = ("exact_match", "f1", "precision", "recall")
    assert [found[name] for name in names] == pytest.approx([exact, f1, precision, recall])
    assert [found[f"joint_{name}"] for name in names] == pytest.approx([exact, f1, precision, recall])


@pytest.mark.parametrize(
    ("gold", "guess", "exact", "f1", "joint"),
    [
        ("AB", "AB", 100, 100, 100),
        ("AB", "BA", 100, 100, 100),  # facts are sets
        ("AB", "AAB", 100, 100, 100),  # a repeated fact counts once
        ("AB", "A", 0, 200 / 3, 200 / 3),
        ("AB", "ABCD", 0, 200 / 3, 200 / 3),
        ("AB", "C", 0, 0, 0),
        ("AB", "", 0, 0, 0),
        ("", "", 100, 0, 0),  # nothing is wrong, but precision and recall of empty sets are 0
        ("AB", None, 0, 0, 0),  # no supporting facts are given
    ],
)
def test_hotpotqa_facts_by_hand(gold: str, guess: str | None, exact: float, f1: float, joint: float) -> None:
    found = hotpotqa([Answers(_gold("cat"), gold)], [Reply("cat", facts=guess)])
    assert (found["facts_exact_match"], found["facts_f1"], found["joint_f1"]) == pytest.approx((exact, f1, joint))
    assert found["joint_exact_match"] == exact and found["f1"] == 100


def test_hotpotqa_multiplies_precisions_and_recalls_before_f1() -> None:
    found = hotpotqa([Answers(_gold("black cat"), "AB")], [Reply("black", facts="A")])
    # precision 1 x 1, recall 1/2 x 1/2
    assert (found["joint_precision"], found["joint_recall"], found["joint_f1"]) == pytest.approx((100, 25, 40))
    with pytest.raises(DataError, match="Question 1 has no gold answer"):
        hotpotqa([()], ["cat"])


@pytest.mark.parametrize(
    ("language", "gold", "guess", "exact", "f1"),
    [
        ("en", "the cat", "Cat", 100, 100),
        ("en", "der cat", "cat", 0, 200 / 3),  # articles of other languages stay
        ("de", "Der Hund", "hund", 100, 100),
        ("de", "„Hund“", "hund", 100, 100),  # removes all Unicode punctuation; SQuAD's script removes only ASCII
        ("es", "las casas", "casas", 100, 100),
        ("vi", "những con mèo", "con mèo", 100, 100),
        ("ar", "القط", "قط", 100, 100),  # the article is removed at any position
        ("ar", "سؤال", "سؤ", 100, 100),  # and so is the end of "question", as in the script
        ("hi", "द पेन्न", "पेन्न", 0, 200 / 3),
        ("zh", "中国人", "中国", 0, 80),  # each character is a word
        ("zh", "1946年", "1946 年。", 100, 100),
        ("zh", "iPhone手机", "iphone 手机", 100, 100),
        ("zh", "𠮷田", "𠮷", 0, 200 / 3),  # outside the script's range: letters of a word, ended by a Han letter
        ("zh", "the 人", "人", 0, 200 / 3),  # Chinese has no articles
        ("de", "die", "der", 100, 0),  # normalises to nothing: as in SQuAD 1.1
        ("en", "cat", "", 0, 0),
    ],
)
def test_mlqa_by_hand(language: str, gold: str, guess: str, exact: float, f1: float) -> None:
    assert _exact_and_f1(mlqa(language)([_gold("zebra", gold)], [guess])) == pytest.approx((exact, f1))


def test_mlqa_has_one_metric_per_language() -> None:
    assert mlqa("de") is mlqa("de") and normalise("Ein  Hund!", "de") == "hund"
    assert set(mlqa("zh", "language_")([_gold("人")], ["人"])) == {"language_exact_match", "language_f1"}
    with pytest.raises(DataError, match="en, es, de, vi, ar, hi, zh, not 'fr'"):
        mlqa("fr")


@pytest.mark.parametrize(
    ("golds", "guess", "exact", "f1"),
    [
        (("中国人",), "中国人", 100, 100),
        (("中国人",), "中国", 0, 80),
        (("中国人",), "人国中", 0, 100 / 3),  # one common substring, not a bag of characters: one character
        (("中国人民",), "中国的人民", 0, 2 * 2 / (4 + 5) * 100),
        (("《中国》。",), "中国", 100, 100),
        (("中国…",), "中国", 0, 80),  # the punctuation list has six dots as one entry, so a single sign never matches
        (("中国,",), "中国", 0, 80),  # the list lacks the ASCII comma
        (("1946年", "一九四六年"), "一九四六年", 100, 100),
        (("NBA比赛",), "nba 比赛", 0, 100),  # exact match compares characters, including the space
        (("it's 中",), "it is 中", 0, 2 * 1 / 6 * 100),  # "it 's 中" compared with "it is 中"
        (("中",), "", 0, 0),
        (("。",), "", 100, 0),  # equal without punctuation, but there is no segment in common
        (("中",), None, 0, 0),
    ],
)
def test_cmrc_by_hand(golds: tuple[str, ...], guess: str | None, exact: float, f1: float) -> None:
    assert _exact_and_f1(cmrc([_gold(*golds)], [guess])) == pytest.approx((exact, f1))


def test_cmrc_splits_chinese_into_characters_and_english_into_words() -> None:
    assert segments("约3.5万KM/h（A-B）") == ("约", "3.5", "万", "kmhab")  # punctuation is removed before tokenization
    assert segments("他说don't。") == ("他", "说", "do", "n't")
    for metric in (cmrc, coqa, mlqa("zh")):
        with pytest.raises(DataError, match="Question 2 has no gold answer"):
            metric([_gold("中"), ()], ["中", "中"])


@pytest.mark.parametrize("metric", [squad2, coqa, mlqa("en"), cmrc, hotpotqa], ids=lambda metric: "")
def test_summed_statistics_give_the_value_of_any_resample(metric: Additive) -> None:
    gold = [Answers(_gold(text, "cat"), text) for text in ("ab", "cd ef", "the", "gh")]
    guess = [Reply(text, facts=text) for text in ("ab", "cd", "", "cat gh")]
    table = metric.statistics(gold, guess)
    for rows in ([0, 1, 2, 3], [0, 0, 3, 2], [1, 1, 1, 2]):
        direct = metric([gold[row] for row in rows], [guess[row] for row in rows])
        assert metric.value(table[rows].sum(axis=0)) == pytest.approx(direct)
    with pytest.raises(ValueError):
        metric(gold, guess[:3])


@pytest.mark.parametrize(
    ("context", "text", "found"),
    [
        (
            "all orange with beautiful white stripes.",
            "orange with white stripes",
            "orange with beautiful white stripes.",
        ),
        ("The  White\nkitten", "white kitten", "White\nkitten"),
        ("he saw the theatre", "the", "the"),  # a whole word, not a prefix
        ("İİ the cat", "THE CAT", "the cat"),  # the lower-case form has more characters
        ("one two", "three", "one two"),  # nothing in common: the whole span
        ("one two", "", "one two"),
    ],
)
def test_closest_span_to_an_answer(context: str, text: str, found: str) -> None:
    start, end = closest(f"{text}  {context} {text}", len(text) + 2, len(text) + 2 + len(context), text)
    assert f"{text}  {context} {text}"[start:end] == found
