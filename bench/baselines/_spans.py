"""Answers questions with the span of a text that is nearest to the question's words.

Richardson, Burges and Renshaw (2013), MCTest, section 5.1, have two scores: the sliding window and the distance to the
question's words. Rajpurkar et al. (2016), SQuAD, section 4.1, use them as a baseline. Here, one score combines both.
Every word of the question adds to it, and adds more if it is rare in the text or near the answer:

    score(a) = sum over words q of the question  ln(1 + 1 / count(q)) / (1 + the distance from a to the nearest q)

The answers a are runs of at most five words within a sentence. They contain no word of the question, and do not begin
or end with one of the most frequent words of the training texts. SQuAD's authors use the constituents of a parse, which
needs a parser.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence

from ptmbench.tasks.task import Example, Task

LONGEST = 5
"""Maximum number of words of an answer."""
FREQUENT = 100
"""Number of the most frequent words, which may not begin or end an answer."""
_WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|[.!?。！？]")


def nearest(task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[str]:
    """The best run of words in each context, by the score above."""
    known = {context for e in (train or examples) for context in e.inputs[1:]}
    counts = Counter(word.lower() for context in known for word in _WORD.findall(context))
    frequent = {word for word, _ in counts.most_common(FREQUENT)}
    return [answer(e.inputs[0], "".join(e.inputs[1:]), frequent) for e in examples]


def answer(question: str, context: str, frequent: Collection[str]) -> str:
    """The run of words of ``context`` with the best score for ``question``. Of equal scores, the first and longest run
    wins. "" if there is none."""
    found = list(_WORD.finditer(context))
    words = [match[0].lower() for match in found]
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(word, []).append(place)
    asked = [
        word for word in dict.fromkeys(map(str.lower, _WORD.findall(question))) if word in places and _is_word(word)
    ]
    weights = [math.log(1 + 1 / len(places[word])) for word in asked]
    before = [_steps(places[word], len(words)) for word in asked]  # how far the word is to the left of each place
    after = [_steps([len(words) - 1 - p for p in places[word]], len(words))[::-1] for word in asked]
    closed = [not _is_word(word) or word in asked for word in words]
    best, chosen = 0.0, ""
    for begin, word in enumerate(words):
        if closed[begin] or word in frequent:
            continue
        ends = list(itertools.takewhile(lambda end: not closed[end], range(begin, min(begin + LONGEST, len(words)))))
        for end in reversed(ends):
            if words[end] in frequent:
                continue
            near = (min(b[begin], a[end]) for b, a in zip(before, after, strict=True))
            score = sum(weight / (1 + distance) for weight, distance in zip(weights, near, strict=True))
            if score > best:
                best, chosen = score, context[found[begin].start() : found[end].end()]
    return chosen


def _is_word(word: str) -> bool:
    """Whether ``word`` is a word, and not the mark at the end of a sentence."""
    return word[0].isalnum()


def _steps(places: Collection[int], count: int) -> list[float]:
    """The distance from each of ``count`` places back to the last one of ``places``; infinity before the first."""
    steps, last = [], -math.inf
    for place in range(count):
        last = place if place in places else last
        steps.append(place - last)
    return steps
