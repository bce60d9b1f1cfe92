"""The forms of a task: what an example holds and what a prediction is.

The harness treats all tasks of a form alike, so M models and N tasks need M + N files. The table is the contract
between readers (which make examples), heads (which make predictions) and metrics (which compare them).

==================  ===========================================  ======================  =====================
form                `Example.inputs`                             `Example.gold`          a prediction
==================  ===========================================  ======================  =====================
classification      (text,) or (text, second text)               a label of the task     a label of the task
regression          (text,) or (text, second text)               a float                 a float
tagging             the words of one sentence                    one tag per word        one tag per word
span                (question, piece of the context, ...)        (`Answer`, ...)         the text or a `Reply`
choice              (context, first choice, second choice, ...)  index of the right one  index of a choice
generation          (source,) or (source, target label)          (reference, ...)        the generated text
language_modelling  (text,)                                      None or number of bytes (nats, words, characters)
cloze               (text with `BLANK` in one place,)            `Target`, a word        its `Rank`
ranking             (text, or several)                           `Target`, a candidate   its `Rank`
similarity          (word, word)                                 a float                 a float
analogy             (word, its image, another word)              `Target`, its image     its `Rank`
few_shot            (`Marked` text, solved ones of each class)   one of these classes    one of these classes
pointing            the words of one sentence                    `Pointings`, tuples     tuples
minimal_pair        (acceptable sentence, unacceptable one)      `Part`, the contrast    (score, score)
==================  ===========================================  ======================  =====================

``gold`` is None if the official file has no label, as in the test sets of GLUE.

The context of a span task is the concatenation of its pieces; most tasks have one piece. The ``labels`` of a span task
are answers that replace a span, such as "yes" and "no". The empty label is "no answer"; its gold is ().

In a cloze and in a ranking, the model orders many candidates, and the prediction is the rank of the right one. A cloze
asks a model, without training, which word fills a blank. A ranking trains a model to find the text that fits. `Target`
holds the candidates, which all examples of a data set share. A similarity and an analogy use a model's vectors of
single words without training. In an analogy, ``others`` of a target are the words of the question.

A minimal pair is two sentences, one of which is unacceptable for a single reason. A model without training scores each
sentence, and is right if the acceptable one has the higher score. Gold names the contrast, and its ``kind`` is the
phenomenon.

A pointing task asks for tuples of spans and classes, such as an aspect, an opinion and a polarity. A span in a tuple is
two numbers: its first and its last word, from 0. A class is one of the task's ``labels``. ``extra["pattern"]`` defines
the elements of a tuple.
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
"""The placeholder for the missing word of a cloze."""


class Part(str):
    """The label of a row that is evaluated together with other rows: the answers to one question, or the members of a
    pair.

    It is equal to the plain label wherever labels are compared, counted or written. ``whole`` identifies the rows that
    belong together; it is None for a row on its own (see `tasks.metrics.common.wholes`). ``kind`` is the kind of the
    part, for metrics that are averaged over kinds, such as the aspect of an opinion.
    """

    whole: str | None
    kind: str | None

    def __new__(cls, label: str, whole: str | None = None, kind: str | None = None) -> "Part":
        made = super().__new__(cls, label)
        made.whole, made.kind = whole, kind
        return made


class Scored(str):
    """A predicted label with the probabilities of all ``labels`` of its task, in their order."""

    scores: tuple[float, ...]

    def __new__(cls, label: str, scores: Iterable[float]) -> "Scored":
        made = super().__new__(cls, label)
        made.scores = tuple(map(float, scores))
        return made

    @classmethod
    def best(cls, labels: Sequence[str], scores: Sequence[float]) -> "Scored":
        """The label with the highest score. Ties go to the first label."""
        return cls(labels[max(range(len(labels)), key=lambda i: scores[i])], scores)


class Tags(tuple):
    """The gold tags of a sentence, together with its words, for metrics that compare the names of entities."""

    words: tuple[str, ...]

    def __new__(cls, tags: Iterable[str], words: Iterable[str]) -> "Tags":
        made = super().__new__(cls, tags)
        made.words = tuple(words)
        return made


class Pointings(tuple):
    """The gold tuples of a pointing task. ``given`` is an input that is not part of the tuples: the first and last word
    of a known aspect."""

    given: tuple[int, ...]

    def __new__(cls, tuples: Iterable[tuple] = (), given: Iterable[int] = ()) -> "Pointings":
        made = super().__new__(cls, tuples)
        made.given = tuple(given)
        return made


class Answer(NamedTuple):
    """A gold answer of a span task: its text and the index of its first character in the context.

    A free answer rephrases a passage of the context, from ``start`` to ``end`` (exclusive). If the answer is one of the
    task's labels, such as "yes", the passage that supports it begins at ``start``. -1 means that no passage is known.
    """

    text: str
    start: int
    end: int | None = None

    @property
    def stop(self) -> int:
        """The index past the last character of the passage in the context."""
        return self.start + len(self.text) if self.end is None else self.end


class Answers(tuple):
    """The gold answers of a question. ``facts`` are the names of the pieces of the context that support them."""

    facts: frozenset[Hashable]

    def __new__(cls, answers: Iterable[Answer], facts: Iterable[Hashable] = ()) -> "Answers":
        made = super().__new__(cls, answers)
        made.facts = frozenset(facts)
        return made


class Piece(str):
    """A text with a ``name``: a piece of a context that can be cited as evidence, or an entity of a knowledge graph."""

    name: Hashable

    def __new__(cls, text: str, name: Hashable) -> "Piece":
        made = super().__new__(cls, text)
        made.name = name
        return made


class Reply(str):
    """A predicted answer, with additional fields for some scorers.

    ``no_answer`` increases with the model's confidence that there is no answer, on any scale. ``span`` is the best
    non-empty answer if it differs from the text, otherwise None. ``facts`` are the names of the pieces of the context
    that the answer relies on.
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
    """The references of a text that is to be rewritten with another label. ``source`` is the text, ``wanted`` the new
    label, and ``judge`` a classifier that predicts the labels of texts."""

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
    """The name of the right candidate. ``candidates`` maps each name to the text that a model reads for it.

    ``others`` are the names of candidates that are also right and are left out of the ranking of this one: the
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
    """A text with marks around two entities. ``marks`` are the indices of the opening marks. ``name`` is the class of a
    solved text, otherwise None."""

    marks: tuple[int, int]
    name: str | None

    def __new__(cls, text: str, marks: tuple[int, int], name: str | None = None) -> "Marked":
        made = super().__new__(cls, text)
        made.marks, made.name = marks, name
        return made


class Rank(float):
    """The rank of the right candidate, from 1, with the middle rank for ties. ``best`` is the name of the best
    candidate."""

    best: str | None

    def __new__(cls, rank: float, best: str | None = None) -> "Rank":
        made = super().__new__(cls, rank)
        made.best = best
        return made


def prediction_details(prediction: Any) -> dict[str, Any]:
    """The additional fields of a `Reply`, a `Scored` label or a `Rank`, by name. {} for any other prediction."""
    if not isinstance(prediction, Reply | Scored | Rank):
        return {}
    return {name: value for name, value in vars(prediction).items() if value is not None}


def gold_details(gold: Any) -> dict[str, Any]:
    """The additional fields of an example's gold, for JSON. A `Part` has ``whole`` and ``kind``, a `Target` has
    ``kind``, and `Answers` have ``gold_facts``. {} for any other gold."""
    if isinstance(gold, Target):
        return {"kind": gold.kind} if gold.kind is not None else {}
    if isinstance(gold, Answers):
        return {"gold_facts": sorted(gold.facts, key=repr)} if gold.facts else {}
    return {name: value for name, value in vars(gold).items() if value is not None} if isinstance(gold, Part) else {}
