"""Probabilities of texts in TensorFlow: windows, their scores, and sums."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt.asking import Asked
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.engine.cost import Traced, phase
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example

Window = tuple[int, int, list[int]]
"""An example's number, the first token to score, and the ids of the window without [CLS]."""


def windows(tokenizer: Tokenizer, settings: Settings, examples: Sequence[Example]) -> list[Window]:
    """The texts in pieces that a model can read.

    Texts longer than ``settings.length`` are read in windows ``settings.stride`` tokens apart, or a whole window where
    that is longer; each token is scored once, in the first window that holds it, with at least ``length - stride``
    tokens before it wherever the text has them.
    """
    room, found = settings.length - len(tokenizer.vocabulary.template.start), []
    stride = min(settings.stride, room)  # no token lies between two windows
    for i, ids in enumerate(tokenizer.encode([e.inputs[0] for e in examples])):
        scored = 0
        while scored < len(ids):
            begin = 0 if scored == 0 else scored - (room - stride)
            found.append((i, scored - begin, ids[begin : begin + room]))
            scored = begin + len(found[-1][2])
    return found


def respond(asked: Asked) -> tuple[list[Any], float]:
    """(nats, words, characters) of each text, and the FLOPs of that."""
    with phase("encode"):
        found = windows(asked.tokenizer, asked.settings, asked.report)
    with phase("evaluate"):
        answers = predictions(asked.network, asked.title, asked.tokenizer, asked.settings, asked.report, found)
    return answers, asked.scoring_flops([len(ids) for _, _, ids in found])


def scorer(network: Any, label: str, asked: str) -> Traced:
    """``tokens`` int32 [B, T] to ln p of each given those before it, traced when first called; `NotApplicable` for a
    model that cannot tell the probability of what is ``asked``."""
    if network.log_likelihood is None:
        raise NotApplicable("not-a-language-model", f"because {label} gives no probability of {asked}.")
    signature = tf.TensorSpec([None, None], tf.int32)
    return Traced(
        lambda: tf.function(
            lambda tokens: network.log_likelihood({"tokens": tokens}), autograph=False
        ).get_concrete_function(signature)
    )


def predictions(
    network: Any,
    label: str,
    tokenizer: Tokenizer,
    settings: Settings,
    examples: Sequence[Example],
    windows: Sequence[Window],
) -> list[tuple[float, int, int]]:
    """(nats, words, characters) of every text from its ``windows``, words being what spaces divide.

    Ends of lines are invisible to the tokenizers, so they count neither as nats nor as words. A model that was trained
    without a start symbol says nothing of a text's first token: all tokens are as likely there.
    """
    score = scorer(network, label, "a token from those before it")
    nats, start = np.zeros(len(examples)), tokenizer.vocabulary.template.start
    for first in range(0, len(windows), settings.batch):
        part = windows[first : first + settings.batch]
        tokens = np.zeros((len(part), settings.length), np.int32)
        for row, (_, _, ids) in zip(tokens, part, strict=True):
            row[: len(start) + len(ids)] = [*start, *ids]
        for (example, begin, _), values in zip(part, score(tokens).numpy(), strict=True):
            nats[example] -= values[len(start) + begin :].sum()  # padding has the value 0
            if not start and begin == 0:
                nats[example] += np.log(tokenizer.vocabulary.size - len(tokenizer.vocabulary.absent))
    return [(float(n), len(e.inputs[0].split()), len(e.inputs[0])) for n, e in zip(nats, examples, strict=True)]
