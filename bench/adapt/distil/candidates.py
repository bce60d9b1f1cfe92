"""Finds replacements for words of training texts, with a masked language model and with similar word vectors.

`bench.adapt.distil.augmentation` has the method and the formulas, without TensorFlow.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench import models
from ptmbench.bench.adapt import neighbours
from ptmbench.bench.adapt.asking import traced
from ptmbench.bench.adapt.distil.augmentation import WORD, Spot, by_chance, enlarged, similar, texts_of, words_of
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.heads import InputRow, layout, stack
from ptmbench.bench.engine import networks
from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.published.vectors import CONTEXTS, TABLE
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example, Task

_BATCH = 64
"""Rows in a batch."""


def augmented(
    task: Task,
    examples: Sequence[Example],
    settings: Any,
    seed: int,
    pretrained: Checkpoint | None,
    vectors: Checkpoint | None,
) -> tuple[list[Example], float]:
    """``examples`` with `distil.Own.augment` changed copies of each, and the FLOPs of finding words for them.

    ``pretrained`` is the teacher before its fine-tuning, None for one with random weights. ``vectors`` is the
    checkpoint of word vectors. Raises `NotApplicable` for a task or a teacher that does not allow augmentation.
    """
    if task.ask or any(example.channels for example in examples):
        raise NotApplicable(
            "no-augmentation", "because the examples of this task are not texts alone, so words cannot be replaced."
        )
    with phase("augment"):
        texts, flops = list(texts_of(examples)), 0.0
        spots: dict[str, list[Spot]] = dict.fromkeys(texts, [])
        if settings.augment_by == "random":
            spots = by_chance(texts)
        elif settings.augment_by == "vectors":
            near = iter(nearest([text[b:e].lower() for text in texts for b, e in words_of(text)], vectors, settings))
            spots = {text: [Spot(begin, end, next(near)) for begin, end in words_of(text)] for text in texts}
        elif settings.augment_by == "model":
            spots, flops = _likely(texts, settings, pretrained, vectors)
        return enlarged(examples, spots, settings.augment, settings.augment_share, seed), flops


def nearest(words: Sequence[str], vectors: Checkpoint | None, settings: Any) -> list[tuple[str, ...]]:
    """The words with the most similar vectors, for each of ``words``; () for each without ``vectors``. Raises
    `NotApplicable` for a checkpoint that has no word vectors."""
    if vectors is None:
        return [()] * len(words)
    arrays, tokenizer = vectors.arrays(), neighbours.of(vectors).tokenizer
    if TABLE not in arrays:
        raise NotApplicable(
            "no-vectors",
            f"because {vectors.about['model']} has no table of word vectors. Name word2vec, cbow or glove.",
        )
    table = arrays[TABLE] + arrays.get(CONTEXTS, 0.0)
    rows = {word: ids[0] for word, ids in zip(words, tokenizer.encode(list(words)), strict=True) if len(ids) == 1}
    return similar(words, rows.get, table, tokenizer.pieces(range(len(table))), settings.augment_choices)


def _likely(
    texts: Sequence[str], settings: Any, pretrained: Checkpoint | None, vectors: Checkpoint | None
) -> tuple[dict[str, list[Spot]], float]:
    """The words of ``texts`` with their candidates, and the FLOPs of the model, which predicts the words of one
    piece."""
    if pretrained is None:
        raise NotApplicable(
            "no-language-model",
            "because the teacher has random weights, and what it fills into blanks means nothing. Name a pre-trained "
            "teacher, or choose augment_by=vectors.",
        )
    model, size, tokenizer = neighbours.of(pretrained)
    network = networks.build(model, size, tokenizer, 0)
    missing = [path for path in pretrained.about.get("afresh", ()) if not path.startswith("encoder/")]
    if network.fill is None or missing:
        raise NotApplicable(
            "no-language-model",
            f"because the teacher {pretrained.about.get('name', model)} "
            f"{'was imported without its head for masked words' if missing else 'fills no blanks'}. "
            "Choose augment_by=vectors, or name another teacher.",
        )
    if tokenizer.kind != "wordpiece":
        raise NotApplicable(
            "no-word-pieces", "because words are replaced by whole pieces, and the teacher's are no words."
        )
    networks.assign(network.loss.variables, pretrained.arrays())
    network.encoder.dropout = 0.0
    rows, spread = [], []
    for number, (text, (ids, offsets)) in enumerate(zip(texts, tokenizer.encode_with_offsets(texts), strict=True)):
        for begin, end in words_of(text):
            pieces = [i for i, (first, last) in enumerate(offsets) if last > begin and first < end]
            if len(pieces) == 1:
                row = _masked(tokenizer, ids, pieces[0], settings.length)
                rows += [(number, begin, end, row)] if row is not None else []
            elif pieces:
                spread.append((number, begin, end))
    found: dict[int, list[Spot]] = {number: [] for number in range(len(texts))}
    named = tokenizer.pieces(range(tokenizer.vocabulary.size))
    words = [bool(WORD.fullmatch(name)) and i >= tokenizer.vocabulary.first for i, name in enumerate(named)]
    most = min(settings.augment_choices, tokenizer.vocabulary.size)
    ask = traced(lambda batch: tf.math.top_k(network.fill(batch), most).indices)
    for first in range(0, len(rows), _BATCH):
        part = rows[first : first + _BATCH]
        batch = stack([row for *_, row in part]) | {"places": np.array([row.note for *_, row in part], np.int32)}
        for (number, begin, end, _), best in zip(part, ask(batch), strict=True):
            found[number].append(Spot(begin, end, tuple(named[i] for i in best if words[i])))
    near = nearest([texts[number][begin:end].lower() for number, begin, end in spread], vectors, settings)
    for (number, begin, end), one in zip(spread, near, strict=True):
        found[number].append(Spot(begin, end, one))
    costs = Network(models.load(model), size, tokenizer.vocabulary)
    flops = costs.filling_flops(Counter(row.tokens for *_, row in rows)) if rows else 0.0
    return {text: sorted(found[number]) for number, text in enumerate(texts)}, flops


def _masked(tokenizer: Tokenizer, ids: Sequence[int], place: int, length: int) -> InputRow | None:
    """The row of a text with the piece at ``place`` masked. Its note is the place of the mask in the row. None if that
    piece is cut off."""
    template = tokenizer.vocabulary.template
    if place >= length - template.added(1):
        return None
    text = [*ids[:place], tokenizer.vocabulary.mask, *ids[place + 1 :]]
    return InputRow(layout(tokenizer.vocabulary, [text], length), 0, note=template.begins([len(text)])[0] + place)
