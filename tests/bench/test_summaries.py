"""Extractive summaries: against hand-computed choices and against all alternatives."""

import itertools
import random

import pytest

from ptmbench.bench import baselines
from ptmbench.bench.adapt import summaries
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import plan
from ptmbench.tasks import load
from ptmbench.tasks.task import Example

PIECES = ["the cat sat", "rain fell on the town", "a cat sat down", "the dog ran"]


def test_sentences_end_at_line_breaks_but_not_at_abbreviations():
    assert summaries.sentences("One two.\nthree\n\n  Four. Five") == ("One two.", "three", "Four.", "Five")
    assert summaries.sentences("Rain fell on Dr. Smith. He ran.") == ("Rain fell on Dr. Smith.", "He ran.")
    assert summaries.sentences(" \n") == ()


def test_lead_returns_the_first_sentences():
    assert summaries.lead("A b. C d.\nE f.", 2) == "A b.\nC d."
    assert summaries.lead("A b.", 3) == "A b." and summaries.lead("", 3) == ""


def test_the_oracle_matches_hand_computed_choices():
    # Reference: words the cat sat dog ran (5), pairs the-cat cat-sat, the-dog dog-ran (4; no pair crosses sentences).
    reference = "The cat sat.\nThe dog ran."
    # "the cat sat" and "the dog ran" are worth 2*3/(3+5) + 2*2/(2+4) = 1.417 each: the first one, then the other.
    assert summaries.oracle(PIECES, reference, 3) == [0, 3]
    assert summaries.oracle(PIECES, reference, 1) == [0]
    assert summaries.oracle(PIECES, "snow", 3) == [] and summaries.oracle([], reference, 3) == []
    assert summaries.best("Rain fell. The dog ran.\nThe cat sat.", reference, 3) == "The dog ran.\nThe cat sat."


def test_the_oracle_stops_where_no_sentence_helps():
    """No further sentence improves the chosen set. A single choice is the best of all sentences."""

    def score(which, reference):
        found = [set(), set()]
        for i in which:
            words = pieces[i].split()
            found = [found[0] | set(words), found[1] | set(itertools.pairwise(words))]
        words = reference.split()
        wanted = [set(words), set(itertools.pairwise(words))]
        shared = [len(a & b) for a, b in zip(found, wanted, strict=True)]
        return sum(2 * n / (len(a) + len(b)) if n else 0.0 for n, a, b in zip(shared, found, wanted, strict=True))

    rng = random.Random(3)
    for _ in range(50):
        pieces = [" ".join(rng.choices("abcdefg", k=rng.randint(1, 5))) for _ in range(5)]
        reference = " ".join(rng.choices("abcdefg", k=6))
        found = summaries.oracle(pieces, reference, 5)
        base = score(found, reference)
        assert all(score([*found, i], reference) <= base + 1e-12 for i in range(5) if i not in found)
        single = [score([i], reference) for i in range(5)]
        one = summaries.oracle(pieces, reference, 1)
        assert one == ([single.index(max(single))] if max(single) else [])


def test_sentences_with_a_repeated_trigram_are_skipped():
    pieces = ["the cat sat down", "a dog ran", "then the cat sat", "rain fell"]
    assert summaries.choose_sentences(pieces, [0.9, 0.1, 0.8, 0.5], 2) == [0, 3]
    assert summaries.choose_sentences(pieces, [0.9, 0.1, 0.8, 0.5], 2, block=False) == [0, 2]
    assert summaries.choose_sentences(pieces, [0.1, 0.9, 0.2, 0.2], 2) == [1, 2]  # the first of equal scores
    assert summaries.choose_sentences(["a b", "a b"], [1, 2], 5) == [0, 1]  # too short to have a trigram


def test_lead_and_oracle_are_default_baselines_of_summarization():
    task = load("samsum")
    text = "Jo: hi.\nAl: the party is on Friday.\nJo: fine.\nAl: bye."
    example = Example(id="0", inputs=(text,), gold=("The party is on Friday.", "other"))
    assert baselines.predict("lead", task, [], [example]) == ["Jo: hi.\nAl: the party is on Friday.\nJo: fine."]
    assert baselines.predict("oracle", task, [], [example]) == ["Al: the party is on Friday."]
    for name in ("multi30k", "cola"):
        with pytest.raises(NotApplicable, match="because lead (applies only to summ|does not apply to class)"):
            baselines.predict("lead", load(name), [], [example])

    def names(*tasks, **options):
        rows = plan.rows_of(["bert"], ["tiny"], baselines.by_default(map(load, tasks)))
        return [row.name for row in rows if row.kind == "baseline"]

    assert names("cola", "aeslc") == ["bag-of-words", "lead", "majority", "oracle"]
    assert names("cola", "multi30k") == ["bag-of-words", "majority"]


@pytest.mark.parametrize("name", ["aeslc", "cnn_dailymail", "cnn_dailymail-anonymised", "xsum", "gigaword", "samsum"])
def test_summarization_tasks_define_their_number_of_lead_sentences(name):
    assert load(name).extra["lead"] >= 1
