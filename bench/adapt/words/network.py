"""Vectors of single words in TensorFlow, and the comparisons of these vectors."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt.asking import AnsweringInput, traced
from ptmbench.bench.adapt.channels import annotated, candidate_of, without_picture
from ptmbench.bench.adapt.heads import InputRow, layout, stack, tie_safe_products
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.adapt.words import comparing_flops, words_of
from ptmbench.bench.engine.cost import phase
from ptmbench.models.channels import CHANNELS
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Form, Rank
from ptmbench.tasks.metrics.ranks import rank
from ptmbench.tasks.task import Example

_MULTIPLE = 8
"""Rows are padded to a multiple of this number of tokens."""
_CHUNK = 256
"""Number of questions whose scores of all candidates are in memory at the same time."""


class Places(NamedTuple):
    """The row numbers of the words."""

    inputs: Sequence[Sequence[int]]
    """For each example, the row numbers of its inputs."""
    candidates: Sequence[int] = ()


def respond(asked: AnsweringInput) -> tuple[list[Any], float]:
    """The predictions by the vectors of single words, and the FLOPs of reading and comparing them."""
    form = asked.task.form
    with phase("encode"):
        found, places = rows(asked.tokenizer, asked.settings, form, asked.report, asked.reads)
    with phase("evaluate"):
        answers = predictions(form, asked.report, places, vectors(asked.network, asked.settings, found))
    lengths = [len(row.arrays["tokens"]) for row in found]
    above = asked.settings.layers in ("top", "all")  # otherwise the graph has only the embeddings
    read = asked.reading_flops(lengths) if above else asked.embedding_flops(lengths)
    return answers, read + comparing_flops(form, asked.report, asked.shape.width)


def rows(
    tokenizer: Tokenizer, settings: Settings, form: Form, examples: Sequence[Example], reads: Collection[str]
) -> tuple[list[InputRow], Places]:
    """A row for each distinct word of ``examples``, cut to the ``length`` of the settings, and the places of the rows.

    ``inside`` marks the tokens of the word, which are [UNK] if the vocabulary has none for it. Equal words have
    separate rows if they differ in a channel that the network ``reads``. Words have no picture.
    """
    template, words = tokenizer.vocabulary.template, words_of(form, examples)
    pieces = {word: ids for word, (ids, _) in zip(words, tokenizer.encode_words([[w] for w in words]), strict=True)}
    found: list[InputRow] = []
    number: dict[Hashable, int] = {}

    def place(example: Example, word: str, of: int) -> int:
        ids = pieces[word][: settings.length - template.added(1)]
        text = annotated(tokenizer, example, ids, [of] * len(ids), [(0, len(word))] * len(ids), of=[of]).only(reads)
        if (known := number.setdefault((word, text.key), len(found))) == len(found):
            arrays = layout(tokenizer.vocabulary, [text], settings.length)
            begin = template.begins([len(ids)])[0]
            arrays["inside"] = np.zeros_like(arrays["tokens"])
            arrays["inside"][begin : begin + len(ids)] = 1
            found.append(InputRow(arrays, -1))
        return known

    offered = examples[0].gold.candidates if form is Form.ANALOGY else ()
    candidates = [place(candidate_of(examples[0], word), word, 0) for word in offered]
    given = map(without_picture, examples)
    return found, Places([[place(e, word, of) for of, word in enumerate(e.inputs)] for e in given], candidates)


def vectors(network: Any, settings: Settings, asked: Sequence[InputRow]) -> np.ndarray:
    """The vector of each row's word, float32 [N, D], of length 1."""

    def means(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        layers = network.encoder({name: value for name, value in batch.items() if name in CHANNELS}).layers
        chosen = {"": layers[:1], "embedding": layers[:1], "top": layers[-1:], "all": layers}[settings.layers]
        inside = tf.cast(batch["inside"], tf.float32)[:, :, None]  # [B, T, 1]
        total = tf.add_n([tf.reduce_sum(inside * tf.cast(layer, tf.float32), axis=1) for layer in chosen])  # [B, D]
        return tf.math.l2_normalize(total, axis=1)  # a sum is enough, because a mean has the same direction

    read = traced(means)
    order = sorted(range(len(asked)), key=lambda i: len(asked[i].arrays["tokens"]))
    found: list[Any] = [None] * len(asked)
    for first in range(0, len(order), settings.batch):
        part = order[first : first + settings.batch]
        for i, vector in zip(part, read(stack([asked[i] for i in part], multiple=_MULTIPLE)), strict=True):
            found[i] = vector
    return np.stack(found)


def predictions(form: Form, examples: Sequence[Example], places: Places, found: np.ndarray) -> list[Any]:
    """The cosine of each pair, or the `Rank` of each question's fourth word, by the vectors ``found`` [N, D] at
    ``places``."""
    if form is Form.SIMILARITY:
        return [float(found[one] @ found[other]) for one, other in places.inputs]
    candidates, results = list(examples[0].gold.candidates), []
    number = {word: place for place, word in enumerate(candidates)}
    compare = tie_safe_products(found[places.candidates])
    for first in range(0, len(examples), _CHUNK):
        asked = examples[first : first + _CHUNK]
        a, b, c = found[np.array(places.inputs[first : first + _CHUNK]).T]  # [n, D]
        for example, scores in zip(asked, compare(b - a + c), strict=True):
            others = [number[word] for word in example.gold.others]
            left = scores.copy()
            left[others] = -np.inf
            best = candidates[int(np.argmax(left))]
            results.append(Rank(rank(scores, number[str(example.gold)], others), best=best))
    return results
