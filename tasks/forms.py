"""The forms of a task: what an example holds, what a prediction is.

A form is all that the harness knows of a task, so M models and N tasks need M + N files. The table is the
contract between readers (which make examples), heads (which make predictions) and metrics (which compare them).

==================  ===========================================  ======================  =====================
form                `Example.inputs`                             `Example.gold`          a prediction
==================  ===========================================  ======================  =====================
classification      (text,) or (text, second text)               a label of the task     a label of the task
regression          (text,) or (text, second text)               a float                 a float
tagging             the words of one sentence                    one tag per word        one tag per word
span                (question, piece of the context, ...)        (`Answer`, ...)         the text or a `Reply`
choice              (context, first choice, second choice, ...)  index of the right one  index of a choice
generation          (source,) or (source, what it is to become)  (reference, ...)        the generated text
language_modelling  (text,)                                      None, or its bytes      (nats, words, characters)
cloze               (text with `BLANK` in one place,)            `Target`, a word        its `Rank`
ranking             (text, or several)                           `Target`, a candidate   its `Rank`
similarity          (word, word)                                 a float                 a float
analogy             (word, its image, another word)              `Target`, its image     its `Rank`
few_shot            (`Marked` text, solved ones of each class)   a class of theirs       a class of theirs
pointing            the words of one sentence                    `Pointings`, tuples     tuples
minimal_pair        (acceptable sentence, its neighbour)         `Part`, the contrast    (score, score)
==================  ===========================================  ======================  =====================

``gold`` is None wherever the official file carries no label (the test sets of GLUE, say).

The pieces of a span task's context joined without anything between them are the context; most tasks have one. The
``labels`` of a span task are answers that stand in place of a span: "yes", "no"; the empty one is "no answer", whose
gold is ().

In a cloze and a ranking, many candidates are put in order, and what is predicted is where the right one comes. A cloze
asks a model as it is which word it would write into a blank; a ranking learns to find the text that fits. `Target`
holds the candidates, which the examples of a data set share. A similarity and an analogy ask for a model's vectors of
single words, as they are; there ``others`` of a target are the words of the question.

A minimal pair is two sentences that differ in what makes one of them unacceptable: a model gives each a score, as it
is, and is right where the acceptable one has the higher one. Gold names the contrast; its ``kind`` is the phenomenon.

A pointing task asks for tuples about words: an aspect, an opinion, a polarity. A span in a tuple is two numbers, of its
first and its last word, from 0; a class is one of the task's ``labels``; ``extra["pattern"]`` says what a tuple holds.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple


class Form(StrEnum):
    CLASSIFICATION = "classification"
    REGRESSION = "regression"
    TAGGING = "tagging"
    SPAN = "span"
    CHOICE = "choice"
    GENERATION = "generation"
    LANGUAGE_MODELLING = "language_modelling"
    CLOZE = "cloze"
    RANKING = "ranking"
    SIMILARITY = "similarity"
    ANALOGY = "analogy"
    FEW_SHOT = "few_shot"
    POINTING = "pointing"
    MINIMAL_PAIR = "minimal_pair"


UNTRAINED = frozenset({Form.CLOZE, Form.SIMILARITY, Form.ANALOGY, Form.MINIMAL_PAIR})
"""Forms whose tasks have no training examples. Models predict without training."""


BLANK = "____"
"""Where the word of a cloze is missing."""


class Part(str):
    """A label of a row that is judged together with others: the answers to one question, the two of a pair.

    It is the label itself wherever labels are compared, counted or written; metrics that ask which rows belong
    together find that in ``whole``, None for a plain label (see `tasks.metrics.common.wholes`). ``kind`` says which of
    the parts it is, for metrics that are averaged over kinds: the aspect that an opinion is about.
    """

    whole: str | None
    kind: str | None

    def __new__(cls, label: str, whole: str | None = None, kind: str | None = None) -> "Part":
        made = super().__new__(cls, label)
        made.whole, made.kind = whole, kind
        return made


class Scored(str):
    """A predicted label that knows the probabilities of all ``labels`` of its task, in their order."""

    scores: tuple[float, ...]

    def __new__(cls, label: str, scores: Iterable[float]) -> "Scored":
        made = super().__new__(cls, label)
        made.scores = tuple(map(float, scores))
        return made

    @classmethod
    def best(cls, labels: Sequence[str], scores: Sequence[float]) -> "Scored":
        """The label of the highest score; of equals the first."""
        return cls(labels[max(range(len(labels)), key=lambda i: scores[i])], scores)


class Tags(tuple):
    """The gold tags of a sentence that knows its words, for metrics that ask what an entity is called."""

    words: tuple[str, ...]

    def __new__(cls, tags: Iterable[str], words: Iterable[str]) -> "Tags":
        made = super().__new__(cls, tags)
        made.words = tuple(words)
        return made


class Pointings(tuple):
    """The gold tuples of a pointing task; ``given`` is what is known of them beforehand, first and last word of an
    aspect, and not a part of them."""

    given: tuple[int, ...]

    def __new__(cls, tuples: Iterable[tuple] = (), given: Iterable[int] = ()) -> "Pointings":
        made = super().__new__(cls, tuples)
        made.given = tuple(given)
        return made


class Answer(NamedTuple):
    """A gold answer of a span task: its text and the index of its first character in the context.

    A free answer rephrases a passage of the context, from ``start`` to ``end`` (past the last character). An answer
    that is one of the task's labels, such as "yes", has the passage that supports it. -1: no passage is known.
    """

    text: str
    start: int
    end: int | None = None

    @property
    def stop(self) -> int:
        """Index past the last character of the place in the context."""
        return self.start + len(self.text) if self.end is None else self.end


class Answers(tuple):
    """The gold answers of a question, with the pieces of the context that they follow from, by name."""

    facts: frozenset[Hashable]

    def __new__(cls, answers: Iterable[Answer], facts: Iterable[Hashable] = ()) -> "Answers":
        made = super().__new__(cls, answers)
        made.facts = frozenset(facts)
        return made


class Piece(str):
    """A piece of a context that can be asked for as evidence, under a ``name``."""

    name: Hashable

    def __new__(cls, text: str, name: Hashable) -> "Piece":
        made = super().__new__(cls, text)
        made.name = name
        return made


class Reply(str):
    """A predicted answer, with what some scorers read in addition to its text.

    ``no_answer`` grows with how sure the model is that there is no answer, on any scale. ``span`` is the text that it
    would give if there had to be one, and None where that is the text itself. ``facts`` names the pieces of the context
    that it relied on.
    """

    no_answer: float | None
    span: str | None
    facts: tuple[Hashable, ...] | None

    def __new__(
        cls,
        text: str,
        *,
        no_answer: float | None = None,
        span: str | None = None,
        facts: Iterable[Hashable] | None = None,
    ) -> "Reply":
        made = super().__new__(cls, text)
        made.no_answer, made.span, made.facts = no_answer, span, None if facts is None else tuple(facts)
        return made


class Rewriting(tuple):
    """The references of a text that is to become one of another label: with its ``source``, the label ``wanted``, and
    a ``judge`` that tells the labels of texts."""

    source: str
    wanted: str
    judge: Callable[[Sequence[str]], Sequence[str]]

    def __new__(
        cls, references: Iterable[str], source: str, wanted: str, judge: Callable[[Sequence[str]], Sequence[str]]
    ) -> "Rewriting":
        made = super().__new__(cls, references)
        made.source, made.wanted, made.judge = source, wanted, judge
        return made


class Target(str):
    """The name of the right one among ``candidates``, which are names with the text that a model reads of each.

    ``others`` are the names of candidates that are right as well and take no part in the ranking of this one: the
    "filtered" setting of Bordes et al. (2013), section 4.1. ``kind`` is as in `Part`.
    """

    candidates: Mapping[str, str]
    others: frozenset[str]
    kind: str | None

    def __new__(
        cls,
        name: str,
        candidates: Mapping[str, str] | None = None,
        others: Iterable[str] = (),
        kind: str | None = None,
    ) -> "Target":
        made = super().__new__(cls, name)
        made.candidates, made.others, made.kind = candidates or {}, frozenset(others), kind
        return made


class Marked(str):
    """A text with marks around two words, of which ``marks`` has the indices of the opening ones; of a solved text
    ``name`` is the class."""

    marks: tuple[int, int]
    name: str | None

    def __new__(cls, text: str, marks: tuple[int, int], name: str | None = None) -> "Marked":
        made = super().__new__(cls, text)
        made.marks, made.name = marks, name
        return made


class Rank(float):
    """The rank of the right candidate, from 1, and in ``best`` the name of the first; equals share the middle rank."""

    best: str | None

    def __new__(cls, rank: float, best: str | None = None) -> "Rank":
        made = super().__new__(cls, rank)
        made.best = best
        return made


def prediction_details(prediction: Any) -> dict[str, Any]:
    """The further fields of a `Reply`, a `Scored` label or a `Rank`, by name; {} for any other prediction."""
    if not isinstance(prediction, Reply | Scored | Rank):
        return {}
    return {name: value for name, value in vars(prediction).items() if value is not None}


def gold_details(gold: Any) -> dict[str, Any]:
    """The fields of an example's gold in addition to its label or texts, for JSON: of a `Part` the ``whole`` and the
    ``kind``, of a `Target` the ``kind``, of `Answers` the facts as ``gold_facts``; {} for any other gold."""
    if isinstance(gold, Target):
        return {"kind": gold.kind} if gold.kind is not None else {}
    if isinstance(gold, Answers):
        return {"gold_facts": sorted(gold.facts, key=repr)} if gold.facts else {}
    return {name: value for name, value in vars(gold).items() if value is not None} if isinstance(gold, Part) else {}
