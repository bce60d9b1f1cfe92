"""Answers by words alone: the score against values by hand, and what may be an answer."""

import math

import pytest

from ptmbench.bench import baselines
from ptmbench.bench.baselines import _spans as spans
from ptmbench.tasks import load
from ptmbench.tasks.forms import Answer
from ptmbench.tasks.task import Example

TEXT = "Ada met Ben in Rome. Cora met Dan, near Oslo, in May."


def best(question: str, frequent: tuple[str, ...] = ("in", "near")) -> str:
    return spans.answer(question, TEXT, frequent)


def test_the_nearest_words_win():
    assert best("Whom did Ada meet?") == "met Ben in Rome"  # all at one word from the only one that is known
    # Cora ln 1.5 / 2 + ln 2 / 3; Oslo ln 1.5 / 4 + ln 2 / 3; Ben ln 1.5 / 2 and Dan too far for more.
    assert best("Who met Dan?") == "Cora"


def test_the_score_by_hand():
    """ "met" (twice) and "oslo" (once) pull with ln 1.5 and ln 2. Cora: 1 to met, 4 to Oslo; Dan: 1 and 2."""
    assert math.log(1.5) / 2 + math.log(2) / 5 < math.log(1.5) / 2 + math.log(2) / 3
    assert best("Who met in Oslo?", ("near",)) == "Dan"


def test_an_answer_has_no_word_of_the_question_no_end_of_a_sentence_and_five_words_at_most():
    assert best("In Rome?", ()) == "Ada met Ben"  # not on into the next sentence, which is as near
    long = "one two three four five six seven asked"
    assert spans.answer("asked", long, ()) == "three four five six seven"
    assert spans.answer("asked", long, ("seven", "three")) == "two three four five six"
    assert spans.answer("nothing of this", TEXT, ()) == "" == spans.answer("Ada", "", ())


def ask(id: str, question: str, *answers: str) -> Example:
    return Example(id=id, inputs=(question, TEXT), gold=tuple(Answer(a, TEXT.index(a)) for a in answers))


def test_the_usual_answer_may_be_none():
    task, train = load("squad20"), [ask("0", "?"), ask("1", "?"), ask("2", "?", "Rome"), ask("3", "?", "Oslo", "Rome")]
    asked = [ask("4", "Who met Dan?", "Cora"), ask("5", "?")]
    assert baselines.predict("majority", task, train, asked) == ["", ""]
    assert baselines.predict("majority", load("squad11"), train[2:3] + asked, asked) == ["Rome"] * 2
    assert task.score([e.gold for e in asked], ["", ""])["f1"] == pytest.approx(50)
    found = baselines.predict("bag-of-words", task, [], asked)
    assert len(found) == 2 and all(text in TEXT for text in found)
