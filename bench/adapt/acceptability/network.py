"""Scores sentences in TensorFlow: makes their rows, one for each masked token if tokens are masked, and sums the
values."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ptmbench.bench.adapt.acceptability import choose
from ptmbench.bench.adapt.asking import AnsweringInput, filled, traced
from ptmbench.bench.adapt.channels import Text
from ptmbench.bench.adapt.heads import InputRow, layout, stack
from ptmbench.bench.adapt.likelihood import network as likelihood
from ptmbench.bench.adapt.surprises import ROUND, MaskedRow, batches_by_length, encode, log_probabilities, masked
from ptmbench.bench.engine.cost import phase
from ptmbench.models.text.tokenizers import Tokenizer


def choose_score(asked: AnsweringInput) -> str:
    """The score that is compared. Raises `NotApplicable` if the network does not have it."""
    network = asked.network
    return choose(
        asked.settings.score,
        asked.title,
        likelihood=network.log_likelihood is not None,
        pseudo=network.fill is not None and not network.encoder.causal,
        replaced=network.originality is not None,
        gap=network.gap_likelihood is not None,
    )


def respond(asked: AnsweringInput) -> tuple[list[Any], float]:
    """Returns the scores of both sentences of each pair, and the FLOPs of scoring."""
    kind = choose_score(asked)
    with phase("encode"):
        room = asked.settings.length - asked.tokenizer.vocabulary.template.added(1)
        encoded = [(text[:room], words[:room]) for text, words in encode(asked.tokenizer, asked.report, asked.reads)]
        number: dict[Hashable, int] = {}
        places = [number.setdefault(text.key, len(number)) for text, _ in encoded]
        distinct = dict(zip(places, encoded, strict=True))
        sentences, words = (list(part) for part in zip(*(distinct[n] for n in range(len(number))), strict=True))
    with phase("evaluate"):
        if kind in ("likelihood", "gap"):
            scores, flops = _likelihoods(asked, sentences, kind)
        elif kind == "replaced":
            scores, flops = _originalities(asked, sentences)
        else:
            scores, flops = _pseudo(asked, sentences, words if kind == "within_word" else None)
    pairs = np.asarray(scores, np.float64)[places].reshape(-1, 2)
    return [(float(acceptable), float(other)) for acceptable, other in pairs], flops


def rows_of(
    tokenizer: Tokenizer, sentences: Sequence[Text], words: Sequence[list[int]] | None
) -> dict[MaskedRow, list[tuple[int, int]]]:
    """Makes a row for each token of ``sentences``, in which it is masked; with ``words``, so are the later tokens of
    its word. Two sentences that differ in one token share the row without it.

    Returns the rows, each with the sentences that need it and the token that each sentence has in the masked place.
    """
    found: dict[MaskedRow, list[tuple[int, int]]] = {}
    for number, text in enumerate(sentences):
        for place, token in enumerate(text):
            row = masked(tokenizer, text, place, words and words[number])
            found.setdefault(row, []).append((number, token))
    return found


def _likelihoods(asked: AnsweringInput, sentences: Sequence[Text], kind: str) -> tuple[np.ndarray, float]:
    vocabulary, network = asked.tokenizer.vocabulary, asked.network
    start, first, ask = vocabulary.template.start, np.log(vocabulary.size - len(vocabulary.absent)), None
    if kind == "gap":  # decoders begin with [CLS], whatever the template
        start, ask = (vocabulary.cls,), network.gap_likelihood
    score = likelihood.scorer(network, asked.title, "a token from those before it", ask)
    rows, found = [text.filled(start) + text for text in sentences], np.zeros(len(sentences))
    for part in batches_by_length(list(map(len, rows))):
        longest = max(1, *(len(rows[i]) for i in part))
        values = score(filled([rows[i] for i in part], -(-longest // ROUND) * ROUND))
        found[part] = values[:, len(start) :].sum(axis=1, dtype=np.float64)  # padding has the value 0
    if not start:
        found -= [first if text else 0.0 for text in sentences]
    if kind == "gap":
        return found, asked.gap_flops(list(map(len, rows)))
    return found, asked.scoring_flops([len(text) for text in sentences])


def _originalities(asked: AnsweringInput, sentences: Sequence[Text]) -> tuple[np.ndarray, float]:
    vocabulary, length = asked.tokenizer.vocabulary, asked.settings.length
    rows = [InputRow(layout(vocabulary, [text], length), number) for number, text in enumerate(sentences)]
    begins = [vocabulary.template.begins([len(text)])[0] for text in sentences]
    score, found = traced(asked.network.originality), np.zeros(len(sentences))
    lengths = [len(row.arrays["tokens"]) for row in rows]
    for part in batches_by_length(lengths):
        for i, values in zip(part, score(stack([rows[i] for i in part], ROUND)), strict=True):
            found[i] = values[begins[i] : begins[i] + len(sentences[i])].sum(dtype=np.float64)
    return found, asked.reading_flops(lengths) + asked.media_flops(rows)


def _pseudo(
    asked: AnsweringInput, sentences: Sequence[Text], words: Sequence[list[int]] | None
) -> tuple[np.ndarray, float]:
    found, rows = np.zeros(len(sentences)), rows_of(asked.tokenizer, sentences, words)
    for row, values in log_probabilities(asked.network, rows):
        for (sentence, _), value in zip(rows[row], values, strict=True):
            found[sentence] += value
    return found, asked.filling_flops([len(row.tokens) for row in rows]) + asked.media_flops(list(rows))
