"""The word-distance baseline for answer spans: its score against values by hand, and which spans it may return."""

import pytest

from ptmbench.bench import baselines
from ptmbench.bench.baselines import _spans as spans
from ptmbench.tasks import load
from ptmbench.tasks.forms import Answer
from ptmbench.tasks.task import Example

TEXT = "Ada met Ben in Rome. Cora met Dan, near Oslo, in May."


def best(question: str, frequent: tuple[str, ...] = ("in", "near")) -> str:
    return spans.answer(question, TEXT, frequent)


def test_the_span_nearest_to_the_question_words_wins():
    # "Ada" is the only question word in the text, and the span begins one word from it.
    assert best("Whom did Ada meet?") == "met Ben in Rome"
    # Cora scores ln 1.5 / 2 + ln 2 / 3, and Oslo ln 1.5 / 4 + ln 2 / 3. Ben has ln 1.5 / 2, but is too far from Dan.
    assert best("Who met Dan?") == "Cora"


def test_the_score_matches_hand_computed_values():
    """The weights are ln 1.5 for "met" (twice) and ln 2 for "oslo" (once).

    Cora is at distance 1 from "met" and 4 from "Oslo": ln 1.5 / 2 + ln 2 / 5. Dan is at 1 and 2: ln 1.5 / 2 + ln 2 / 3.
    """
    assert best("Who met in Oslo?", ("near",)) == "Dan"


def test_answers_have_no_question_word_no_sentence_end_and_at_most_five_words():
    assert best("In Rome?", ()) == "Ada met Ben"  # does not extend into the next sentence, which is as near
    long = "one two three four five six seven asked"
    assert spans.answer("asked", long, ()) == "three four five six seven"
    assert spans.answer("asked", long, ("seven", "three")) == "two three four five six"
    assert spans.answer("nothing of this", TEXT, ()) == "" == spans.answer("Ada", "", ())


def ask(id: str, question: str, *answers: str) -> Example:
    return Example(id=id, inputs=(question, TEXT), gold=tuple(Answer(a, TEXT.index(a)) for a in answers))


def test_the_majority_answer_may_be_no_answer():
    task, train = load("squad20"), [ask("0", "?"), ask("1", "?"), ask("2", "?", "Rome"), ask("3", "?", "Oslo", "Rome")]
    examples = [ask("4", "Who met Dan?", "Cora"), ask("5", "?")]
    assert baselines.predict("majority", task, train, examples) == ["", ""]
    assert baselines.predict("majority", load("squad11"), train[2:3] + examples, examples) == ["Rome"] * 2
    assert task.score([e.gold for e in examples], ["", ""])["f1"] == pytest.approx(50)
    found = baselines.predict("bag-of-words", task, [], examples)
    assert len(found) == 2 and all(text in TEXT for text in found)
