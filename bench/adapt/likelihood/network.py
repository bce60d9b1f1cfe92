"""Probabilities of texts in TensorFlow: windows, their scores, and sums."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ptmbench.bench.adapt import channels
from ptmbench.bench.adapt.asking import AnsweringInput, filled, traced
from ptmbench.bench.adapt.channels import Text
from ptmbench.bench.adapt.likelihood import PSEUDO, no_likelihood, no_pseudo
from ptmbench.bench.adapt.likelihood.windows import bidirectional_windows, left_to_right_windows
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.adapt.surprises import encode, log_probabilities, masked
from ptmbench.bench.engine.cost import phase
from ptmbench.models.channels import TEXT
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.metrics.bits_per_byte import byte_nats
from ptmbench.tasks.task import Example

Window = tuple[int, int, Text]
"""An example's number, the first token to score, and the text of the window without [CLS]."""


def windows(
    tokenizer: Tokenizer, settings: Settings, examples: Sequence[Example], reads: Collection[str] = TEXT
) -> list[Window]:
    """The windows of all texts (`left_to_right_windows`), with room for a start symbol and with the channels that the
    model ``reads``."""
    room, found = settings.length - len(tokenizer.vocabulary.template.start), []
    for i, ids in enumerate(tokenizer.encode([e.inputs[0] for e in examples])):
        text = channels.texts(tokenizer, examples[i], [ids])[0].only(reads)
        windows = left_to_right_windows(len(text), room, settings.stride)
        found += [(i, scored - begin, text[begin:end]) for begin, scored, end in windows]
    return found


def respond(asked: AnsweringInput) -> tuple[list[Any], float]:
    """Returns (nats, words, characters) of each text, and the FLOPs of scoring."""
    if asked.task.extra.get("score") == PSEUDO:
        answers, flops = _pseudo(asked)
    else:
        with phase("encode"):
            found = windows(asked.tokenizer, asked.settings, asked.report, asked.reads)
        with phase("evaluate"):
            answers = predictions(asked.network, asked.title, asked.tokenizer, asked.settings, asked.report, found)
        flops = asked.scoring_flops([len(text) for _, _, text in found])
    if asked.task.extra.get("bytes"):
        more = unknown(asked.tokenizer, [example.inputs[0] for example in asked.report])
        answers = [(nats + own, *rest) for (nats, *rest), own in zip(answers, more, strict=True)]
    return answers, flops


def unknown(tokenizer: Tokenizer, texts: Sequence[str]) -> list[float]:
    """Nats for spelling the characters that [UNK] hides in each text (`tasks.metrics.bits_per_byte.byte_nats`)."""
    vocabulary, found = tokenizer.vocabulary, []
    for text, (ids, offsets) in zip(texts, tokenizer.encode_with_offsets(texts), strict=True):
        hidden = [text[begin:end] for i, (begin, end) in zip(ids, offsets, strict=True) if i == vocabulary.unk]
        found.append(sum(map(byte_nats, hidden)))
    return found


def _pseudo(asked: AnsweringInput) -> tuple[list[tuple[float, int, int]], float]:
    """`respond` for a model that fills blanks. Each token is masked in its window, together with the later ones of its
    word."""
    network, tokenizer, settings = asked.network, asked.tokenizer, asked.settings
    if reason := no_pseudo(asked.title, network.log_likelihood is not None, network.fill is not None):
        raise reason
    texts = [example.inputs[0] for example in asked.report]
    with phase("encode"):
        room, rows = settings.length - tokenizer.vocabulary.template.added(1), {}
        for number, (text, words) in enumerate(encode(tokenizer, asked.report, asked.reads)):
            for begin, places in bidirectional_windows(len(text), room, settings.stride):
                window, own = text[begin : begin + room], words[begin : begin + room]
                for place in places:
                    row = masked(tokenizer, window, place - begin, own)
                    rows.setdefault(row, []).append((number, text[place]))
    nats = np.zeros(len(texts))
    with phase("evaluate"):
        for row, values in log_probabilities(network, rows):
            for (number, _), value in zip(rows[row], values, strict=True):
                nats[number] -= value
    answers = [(float(n), len(text.split()), len(text)) for n, text in zip(nats, texts, strict=True)]
    return answers, asked.filling_flops([len(row.tokens) for row in rows]) + asked.media_flops(list(rows))


def signature(asked: AnsweringInput) -> str:
    """One line on how bits per byte were counted."""
    texts = [example.inputs[0] for example in asked.report]
    read = asked.tokenizer.encode(texts)
    unknowns = sum(ids.count(asked.tokenizer.vocabulary.unk) for ids in read)
    kept = sum(asked.tokenizer.decode(ids) == text for ids, text in zip(read, texts, strict=True))
    pseudo = asked.task.extra.get("score") == PSEUDO
    kind = "tokens masked one at a time, with the later ones of their word" if pseudo else "left to right"
    return (
        f"{kind}, windows of {asked.settings.length} tokens {asked.settings.stride} apart, {unknowns} unknown tokens "
        f"spelled in bytes, {kept} of {len(texts)} texts come back from their tokens as they were"
    )


def scorer(network: Any, label: str, asked: str, ask: Callable | None = None) -> Callable[..., np.ndarray]:
    """Returns a function from a batch of ``tokens`` int32 [B, T] and other channels to ln p of each token given those
    before it. It calls ``ask``, by default the network's ``log_likelihood``, and is traced when first called. Raises
    `NotApplicable` for a model without such a function; ``asked`` describes the missing probability in its message."""
    ask = ask or network.log_likelihood
    if ask is None:
        raise no_likelihood(label, asked)
    return traced(ask)


def predictions(
    network: Any,
    label: str,
    tokenizer: Tokenizer,
    settings: Settings,
    examples: Sequence[Example],
    windows: Sequence[Window],
) -> list[tuple[float, int, int]]:
    """(nats, words, characters) of every text, from its ``windows``. Words are divided by spaces.

    Ends of lines are invisible to the tokenizers, so they count neither as nats nor as words. A model that was trained
    without a start symbol does not predict the first token of a text: all tokens count as equally likely there.
    """
    score = scorer(network, label, "a token from those before it")
    nats, start = np.zeros(len(examples)), tokenizer.vocabulary.template.start
    for first in range(0, len(windows), settings.batch):
        part = windows[first : first + settings.batch]
        batch = filled([text.filled(start) + text for _, _, text in part], settings.length)
        for (example, begin, _), values in zip(part, score(batch), strict=True):
            nats[example] -= values[len(start) + begin :].sum()  # padding has the value 0
            if not start and begin == 0:
                nats[example] += np.log(tokenizer.vocabulary.size - len(tokenizer.vocabulary.absent))
    return [(float(n), len(e.inputs[0].split()), len(e.inputs[0])) for n, e in zip(nats, examples, strict=True)]
