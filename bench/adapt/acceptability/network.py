"""Scores of sentences in TensorFlow: rows, one for each masked token where tokens are masked, and their sums."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt.acceptability import SCORES
from ptmbench.bench.adapt.asking import Asked
from ptmbench.bench.adapt.likelihood import network as likelihood
from ptmbench.bench.engine.cost import Traced, phase
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.text.tokenizers import Tokenizer

_ROUND = 4
"""Rows are filled up to a multiple of this, so that few shapes occur."""
_TOKENS = 8192
"""Tokens that are read at once: rows are short, and small batches of them would cost more than the reading."""


class Masked(NamedTuple):
    """A sentence as a network reads it, with one token masked, or several of a word."""

    sentence: int
    tokens: list[int]
    segments: list[int]
    place: int
    token: int
    """What stood in the place."""


def chosen(asked: Asked) -> str:
    """The score that is compared. Raises `NotApplicable` where the network does not have it."""
    network, wanted = asked.network, asked.settings.score
    found = {"likelihood": network.log_likelihood, "replaced": network.originality}
    found |= dict.fromkeys(("pseudo", "within_word"), None if network.encoder.causal else network.fill)
    having = [name for name in SCORES if found[name] is not None]
    if wanted == "auto" and having:
        return having[0]
    if wanted not in having:
        what = "score of a sentence" if wanted == "auto" else f"score {wanted} of a sentence"
        raise NotApplicable("scores-no-sentences", f"because {asked.title} gives no {what}.")
    return wanted


def respond(asked: Asked) -> tuple[list[Any], float]:
    """The scores of both sentences of each pair, and the FLOPs of that."""
    kind = chosen(asked)
    with phase("encode"):
        texts = [text for example in asked.report for text in example.inputs]
        encoded = encode(asked.tokenizer, texts, asked.settings.length)
        number: dict[tuple[int, ...], int] = {}
        places = [number.setdefault(tuple(ids), len(number)) for ids, _ in encoded]
        words = dict(zip(places, (words for _, words in encoded), strict=True))
        sentences, words = list(map(list, number)), [words[place] for place in range(len(number))]
    with phase("evaluate"):
        if kind == "likelihood":
            scores, flops = _likelihoods(asked, sentences)
        elif kind == "replaced":
            scores, flops = _originalities(asked, sentences)
        else:
            scores, flops = _pseudo(asked, sentences, words if kind == "within_word" else None)
    pairs = np.asarray(scores, np.float64)[places].reshape(-1, 2)
    return [(float(acceptable), float(other)) for acceptable, other in pairs], flops


def encode(tokenizer: Tokenizer, texts: Sequence[str], length: int) -> list[tuple[list[int], list[int]]]:
    """The ids of each text, as many as fit into ``length`` with special tokens, and for each the number of its word,
    words being what spaces divide."""
    room, found = length - tokenizer.vocabulary.template.added(1), []
    for text, (ids, offsets) in zip(texts, tokenizer.encode_with_offsets(texts), strict=True):
        before = np.cumsum([0, *(character.isspace() for character in text)])
        words = [int(before[max(begin, end - 1)]) for begin, end in offsets]
        found.append((ids[:room], words[:room]))
    return found


def masked(tokenizer: Tokenizer, sentences: Sequence[list[int]], words: Sequence[list[int]] | None) -> list[Masked]:
    """A row for each token of ``sentences``, in which it is masked, and with ``words`` the later ones of its word."""
    template, mask, found = tokenizer.vocabulary.template, tokenizer.vocabulary.mask, []
    for number, ids in enumerate(sentences):
        begin = template.begins([len(ids)])[0]
        for place, token in enumerate(ids):
            end = place + 1
            while words is not None and end < len(ids) and words[number][end] == words[number][place]:
                end += 1
            own = [*ids[:place], *[mask] * (end - place), *ids[end:]]
            tokens, segments = template.lay([own])
            found.append(Masked(number, tokens, segments, begin + place, token))
    return found


def _likelihoods(asked: Asked, sentences: Sequence[list[int]]) -> tuple[np.ndarray, float]:
    vocabulary = asked.tokenizer.vocabulary
    start, first = vocabulary.template.start, -np.log(vocabulary.size - len(vocabulary.absent))
    score = likelihood.scorer(asked.network, asked.title, "a token from those before it")
    rows, found = [[*start, *ids] for ids in sentences], np.zeros(len(sentences))
    for part in _parts(list(map(len, rows))):
        values = score(tf.constant(_filled([rows[i] for i in part]))).numpy()
        found[part] = values[:, len(start) :].sum(axis=1, dtype=np.float64)  # padding has the value 0
    if not start:
        found += [first if ids else 0.0 for ids in sentences]
    return found, asked.scoring_flops([len(ids) for ids in sentences])


def _originalities(asked: Asked, sentences: Sequence[list[int]]) -> tuple[np.ndarray, float]:
    template = asked.tokenizer.vocabulary.template
    rows = [template.lay([ids]) for ids in sentences]
    begins = [template.begins([len(ids)])[0] for ids in sentences]
    signature = {name: tf.TensorSpec([None, None], tf.int32) for name in ("tokens", "segments")}
    score = Traced(lambda: tf.function(asked.network.originality, autograph=False).get_concrete_function(signature))
    found = np.zeros(len(sentences))
    for part in _parts([len(tokens) for tokens, _ in rows]):
        batch = {name: _filled([rows[i][side] for i in part]) for side, name in enumerate(("tokens", "segments"))}
        for i, values in zip(part, score({name: tf.constant(x) for name, x in batch.items()}).numpy(), strict=True):
            found[i] = values[begins[i] : begins[i] + len(sentences[i])].sum(dtype=np.float64)
    return found, asked.reading_flops([len(tokens) for tokens, _ in rows])


def _pseudo(
    asked: Asked, sentences: Sequence[list[int]], words: Sequence[list[int]] | None
) -> tuple[np.ndarray, float]:
    rows = masked(asked.tokenizer, sentences, words)

    def surprise(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        logits = tf.cast(asked.network.fill(batch), tf.float32)  # [B, V]
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(batch["token"], logits)

    signature = {name: tf.TensorSpec([None] * axes, tf.int32) for name, axes in _AXES.items()}
    score = Traced(lambda: tf.function(surprise, autograph=False).get_concrete_function(signature))
    found = np.zeros(len(sentences))
    for part in _parts([len(row.tokens) for row in rows]):
        batch = {name: _filled([getattr(rows[i], name) for i in part]) for name in ("tokens", "segments")}
        batch |= {"places": np.array([rows[i].place for i in part], np.int32)}
        batch |= {"token": np.array([rows[i].token for i in part], np.int32)}
        values = score({name: tf.constant(array) for name, array in batch.items()}).numpy()
        np.add.at(found, [rows[i].sentence for i in part], values.astype(np.float64))
    output = 2 * asked.shape.width * asked.tokenizer.vocabulary.size
    return found, asked.reading_flops([len(row.tokens) for row in rows]) + len(rows) * output


_AXES = {"tokens": 2, "segments": 2, "places": 1, "token": 1}


def _parts(lengths: Sequence[int]) -> list[list[int]]:
    """Rows to read at once, by length: so many that they have about `_TOKENS` tokens."""
    order, found = sorted(range(len(lengths)), key=lambda i: lengths[i]), []
    while order:
        longest = max(_ROUND, lengths[order[min(len(order), _TOKENS // _ROUND) - 1]])
        size = max(1, _TOKENS // longest)
        found.append(order[:size])
        order = order[size:]
    return found


def _filled(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """``rows`` as int32 [B, T], filled up with 0."""
    longest = -(-max(1, *(len(row) for row in rows)) // _ROUND) * _ROUND
    filled = np.zeros((len(rows), longest), np.int32)
    for target, row in zip(filled, rows, strict=True):
        target[: len(row)] = row
    return filled
