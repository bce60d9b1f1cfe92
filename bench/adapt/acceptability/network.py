"""Scores of sentences in TensorFlow: rows, one for each masked token where tokens are masked, and their sums."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt.acceptability import SCORES
from ptmbench.bench.adapt.asking import Asked
from ptmbench.bench.adapt.likelihood import network as likelihood
from ptmbench.bench.adapt.surprises import Masked, encode, filled, masked, parts, surprises
from ptmbench.bench.engine.cost import Traced, phase
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.text.tokenizers import Tokenizer


def chosen(asked: Asked) -> str:
    """The score that is compared. Raises `NotApplicable` where the network does not have it."""
    network, wanted = asked.network, asked.settings.score
    found = {
        "likelihood": network.log_likelihood,
        "replaced": network.originality,
        "gap": network.gap_likelihood,
    }
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
        room = asked.settings.length - asked.tokenizer.vocabulary.template.added(1)
        encoded = [(ids[:room], words[:room]) for ids, words in encode(asked.tokenizer, texts)]
        number: dict[tuple[int, ...], int] = {}
        places = [number.setdefault(tuple(ids), len(number)) for ids, _ in encoded]
        words = dict(zip(places, (words for _, words in encoded), strict=True))
        sentences, words = list(map(list, number)), [words[place] for place in range(len(number))]
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
    tokenizer: Tokenizer, sentences: Sequence[list[int]], words: Sequence[list[int]] | None
) -> dict[Masked, list[tuple[int, int]]]:
    """For each token of ``sentences`` a row in which it is masked, and with ``words`` the later ones of its word. Two
    sentences that differ in one token share the row without it.

    Returns the rows, each with the sentences that ask it and the token that each has in the place.
    """
    found: dict[Masked, list[tuple[int, int]]] = {}
    for number, ids in enumerate(sentences):
        for place, token in enumerate(ids):
            row = masked(tokenizer, ids, place, words and words[number])
            found.setdefault(row, []).append((number, token))
    return found


def _likelihoods(asked: Asked, sentences: Sequence[list[int]], kind: str) -> tuple[np.ndarray, float]:
    vocabulary, network = asked.tokenizer.vocabulary, asked.network
    start, first, ask = vocabulary.template.start, np.log(vocabulary.size - len(vocabulary.absent)), None
    if kind == "gap":  # decoders begin with [CLS], whatever the template
        start, ask = (vocabulary.cls,), network.gap_likelihood
    score = likelihood.scorer(network, asked.title, "a token from those before it", ask)
    rows, found = [[*start, *ids] for ids in sentences], np.zeros(len(sentences))
    for part in parts(list(map(len, rows))):
        values = score(tf.constant(filled([rows[i] for i in part]))).numpy()
        found[part] = values[:, len(start) :].sum(axis=1, dtype=np.float64)  # padding has the value 0
    if not start:
        found -= [first if ids else 0.0 for ids in sentences]
    if kind == "gap":
        return found, sum(map(asked.model.gap_flops, map(len, rows)))
    return found, asked.scoring_flops([len(ids) for ids in sentences])


def _originalities(asked: Asked, sentences: Sequence[list[int]]) -> tuple[np.ndarray, float]:
    template = asked.tokenizer.vocabulary.template
    rows = [template.lay([ids]) for ids in sentences]
    begins = [template.begins([len(ids)])[0] for ids in sentences]
    signature = {name: tf.TensorSpec([None, None], tf.int32) for name in ("tokens", "segments")}
    score = Traced(lambda: tf.function(asked.network.originality, autograph=False).get_concrete_function(signature))
    found = np.zeros(len(sentences))
    for part in parts([len(tokens) for tokens, _ in rows]):
        batch = {name: filled([rows[i][side] for i in part]) for side, name in enumerate(("tokens", "segments"))}
        for i, values in zip(part, score({name: tf.constant(x) for name, x in batch.items()}).numpy(), strict=True):
            found[i] = values[begins[i] : begins[i] + len(sentences[i])].sum(dtype=np.float64)
    return found, asked.reading_flops([len(tokens) for tokens, _ in rows])


def _pseudo(
    asked: Asked, sentences: Sequence[list[int]], words: Sequence[list[int]] | None
) -> tuple[np.ndarray, float]:
    found, rows = np.zeros(len(sentences)), rows_of(asked.tokenizer, sentences, words)
    for row, values in surprises(asked.network, rows):
        for (sentence, _), value in zip(rows[row], values, strict=True):
            found[sentence] += value
    return found, asked.filling_flops([len(row.tokens) for row in rows])
