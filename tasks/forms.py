"""The seven forms of a task: what an example holds, what a prediction is.

A form is all that the harness knows of a task, so M models and N tasks need M + N files. The table is the
contract between readers (which make examples), heads (which make predictions) and metrics (which compare them).

==================  ===========================================  ======================  =====================
form                `Example.inputs`                             `Example.gold`          a prediction
==================  ===========================================  ======================  =====================
classification      (text,) or (text, second text)               a label of the task     a label of the task
regression          (text,) or (text, second text)               a float                 a float
tagging             the words of one sentence                    one tag per word        one tag per word
span                (question, context)                          (`Answer`, ...)         the answer's text
choice              (context, first choice, second choice, ...)  index of the right one  index of a choice
generation          (source,)                                    (reference, ...)        the generated text
language_modelling  (text,)                                      None                    (nats, words, characters)
==================  ===========================================  ======================  =====================

``gold`` is None wherever the official file carries no label (the test sets of GLUE, say).
"""

from enum import StrEnum
from typing import NamedTuple


class Form(StrEnum):
    CLASSIFICATION = "classification"
    REGRESSION = "regression"
    TAGGING = "tagging"
    SPAN = "span"
    CHOICE = "choice"
    GENERATION = "generation"
    LANGUAGE_MODELLING = "language_modelling"


class Answer(NamedTuple):
    """A gold answer of a span task: its text and the index of its first character in the context."""

    text: str
    start: int
