"""Exports that read raw text: tokenizer, layout and network as one SavedModel. `bench.runs.exports.formats` writes it.

Signatures, for TensorFlow Serving and `tf.saved_model.load` after ``import tensorflow_text``:

    serving_default   "text", and "pair" for two texts, strings [B], to predictions:
                      classification    "label" string [B], "probabilities" and "logits" float32 [B, classes]
                      regression        "score" float32 [B]
                      tagging           "words" and "tags" string [B, W], padded with ""; spaces separate words
                      encoder           "token_vectors" float32 [B, T, D] and "pooled" float32 [B, D]
    tokenize          the same texts to "tokens" and "segments" int32 [B, T], as the network reads them; not for taggers
    token_ids         "tokens" and "segments" to the outputs of `bench.runs.exports.network`
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import heads
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.errors import EnvironmentProblem, UsageError
from ptmbench.bench.runs.exports import hard_texts, tokenizing
from ptmbench.bench.runs.exports.network import Exportable
from ptmbench.bench.runs.exports.tokenizing import GraphTokenizer
from ptmbench.models.channels import TEXT
from ptmbench.models.text.template import CLS
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example

NAMES = ("text", "pair")
"""Names of the inputs."""
CHECKED = 10_000
"""Number of texts whose token ids are compared."""
ANSWERED = 64
"""Number of texts whose predictions are compared, approximately."""
_MULTIPLE = 4
"""Rows are padded to a multiple of this, as in `heads.stack`."""


def module_of(source: Exportable) -> tuple[tf.Module, dict[str, Any]]:
    """Returns a module that reads texts, and its functions by signature.

    Raises `UsageError` for tokenizers that cannot be part of the graph, for tasks that ask several questions about a
    text, and for taggers of two texts.
    """
    form = source.trained.task.form if source.trained else None
    _check(source, form)
    module = tf.Module()
    module.layers, module.tokenizer = list(source.layers), tokenizing.of(source.tokenizer)
    layout = Layout(source.tokenizer.vocabulary, source.length)
    if form is Form.TAGGING:
        functions = {"serving_default": _tagger(source, module.tokenizer, layout)}
    else:
        functions = _functions(source, form, module.tokenizer, layout)
    strings = [tf.TensorSpec([None], tf.string, name=name) for name in NAMES[: source.texts]]
    ids = [tf.TensorSpec([None, None], tf.int32, name=name) for name in TEXT]
    module.functions = {
        name: tf.function(function, autograph=False, input_signature=strings) for name, function in functions.items()
    }
    module.functions["token_ids"] = tf.function(source.function, autograph=False, input_signature=ids)
    return module, module.functions


def _check(source: Exportable, form: Form | None) -> None:
    task = source.trained.task if source.trained else None
    if task and (task.ask is not None or task.decide is not None):
        raise UsageError(
            f"{task.title} asks a classifier several questions about an example, so one text has no one answer. "
            "Export without --texts, or use `predict`."
        )
    if form is Form.TAGGING and source.texts != 1:
        raise UsageError(f"{task.title} tags the words of one text. Give --texts 1.")


def _functions(
    source: Exportable, form: Form | None, tokenizer: GraphTokenizer, layout: "Layout"
) -> dict[str, Callable[..., dict[str, tf.Tensor]]]:
    labels = tf.constant(source.labels or [""])

    def tokenize(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return dict(zip(TEXT, layout([tokenizer(text) for text in texts]), strict=True))

    def serve(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        found = source.function(*layout([tokenizer(text) for text in texts]))
        if form is Form.CLASSIFICATION:
            found = found | {"label": tf.gather(labels, tf.argmax(found["logits"], -1))}
        return found

    return {"serving_default": serve, "tokenize": tokenize}


class Layout:
    """Token ids of one or two texts to "tokens" and "segments" int32 [B, T]. Texts are cut and laid out as in
    `heads.layout`, and rows are padded as in `heads.stack`."""

    def __init__(self, vocabulary: Vocabulary, length: int):
        self.template, self.length, self.sep = vocabulary.template, length, vocabulary.sep

    def __call__(self, texts: Sequence[tf.RaggedTensor]) -> tuple[tf.Tensor, tf.Tensor]:
        template, rows = self.template, texts[0].nrows()
        texts = _cut(texts, max(0, self.length - template.added(len(texts))))
        parts = [_repeated(template.front, rows)]
        segments = [tf.zeros_like(parts[0])]
        for number, text in enumerate(texts):
            segment = number if template.segmented else 0
            after = template.end if number == len(texts) - 1 else template.middle
            parts += [text, _repeated(after, rows)]
            segments += [tf.ones_like(text) * segment]
            segments += [_repeated([2 if token == CLS else segment for token in after], rows)]
        sizes = tf.add_n([part.row_lengths() for part in parts])
        alone = tf.RaggedTensor.from_row_lengths(
            tf.repeat(self.sep, tf.math.count_nonzero(sizes == 0)), _empty_rows(sizes)
        )
        return _padded([*parts, alone]), _padded([*segments, tf.zeros_like(alone)])


def _cut(texts: Sequence[tf.RaggedTensor], room: int) -> list[tf.RaggedTensor]:
    """Cuts the ends of ``texts`` so that they fit into ``room`` tokens together.

    Each of two texts keeps what the other leaves of ``room``, or half of ``room`` if that is more. The first half is
    the larger one.
    """
    sizes = [text.row_lengths() for text in texts]
    if len(texts) == 1:
        kept = [tf.minimum(sizes[0], room)]
    else:
        halves = ((room + 1) // 2, room // 2)
        others = [room - tf.minimum(size, room) for size in reversed(sizes)]
        kept = [tf.minimum(s, tf.maximum(o, half)) for s, o, half in zip(sizes, others, halves, strict=True)]
    return [_first(text, number) for text, number in zip(texts, kept, strict=True)]


def _first(text: tf.RaggedTensor, kept: tf.Tensor) -> tf.RaggedTensor:
    """Returns the first ``kept`` tokens of each row; ``kept`` is int64 [B]."""
    return _sliced(text, tf.zeros_like(kept), kept)


def _sliced(text: tf.RaggedTensor, begins: tf.Tensor, ends: tf.Tensor) -> tf.RaggedTensor:
    places = tf.ragged.range(text.row_starts() + begins, text.row_starts() + ends)
    return tf.RaggedTensor.from_row_splits(tf.gather(text.values, places.values), places.row_splits, validate=False)


def _repeated(tokens: Sequence[int], rows: tf.Tensor) -> tf.RaggedTensor:
    line = tf.constant([list(tokens)], tf.int32, [1, len(tokens)])
    return tf.RaggedTensor.from_tensor(tf.tile(line, [rows, 1]), row_splits_dtype=tf.int64)


def _empty_rows(sizes: tf.Tensor) -> tf.Tensor:
    """Returns int64: 1 for each empty row, 0 for the others."""
    return tf.cast(sizes == 0, tf.int64)


def _padded(parts: Sequence[tf.RaggedTensor]) -> tf.Tensor:
    array = tf.concat(parts, 1).to_tensor(0)
    return tf.pad(array, [[0, 0], [0, -tf.shape(array)[1] % _MULTIPLE]])


def _tagger(source: Exportable, tokenizer: GraphTokenizer, layout: Layout) -> Callable[[tf.Tensor], dict[str, Any]]:
    """Returns a function from texts to words and tags. A sentence that is too long for one row continues in the next
    one, as in `heads.tagging`."""
    labels, front = tf.constant(source.labels), len(layout.template.front)
    room = layout.length - layout.template.added(1)
    lead = " " if source.tokenizer.imported is not None and source.tokenizer.kind == "bpe" else ""

    def serve(text: tf.Tensor) -> dict[str, tf.Tensor]:
        words = tf.strings.split(text)  # [B, (W)]
        tokens = tokenizer(tf.constant(lead) + words.values)  # [N, (T)]
        unknown = tf.repeat(source.tokenizer.vocabulary.unk, tf.math.count_nonzero(tokens.row_lengths() == 0))
        unknown = tf.RaggedTensor.from_row_lengths(unknown, _empty_rows(tokens.row_lengths()))
        tokens = tf.concat([tokens, unknown], 1)
        sizes = words.with_values(tokens.row_lengths()).to_tensor()  # [B, W]
        ends = tf.cumsum(sizes, 1)
        tokens = tf.RaggedTensor.from_row_splits(
            tokens.values, tf.gather(tokens.row_splits, words.row_splits), validate=False
        )
        counts, numbers = words.row_lengths(), tf.range(tf.shape(sizes, tf.int64)[1])

        def row(begin: tf.Tensor, tags: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            """Tags as many words from ``begin``, int64 [B], as fit into a row."""
            done = tf.reduce_max(tf.where(numbers < begin[:, None], ends, 0), 1)  # [B] tokens
            fits = (ends <= done[:, None] + room) | (numbers <= begin[:, None])
            end = tf.minimum(tf.math.count_nonzero(fits, 1), counts)
            here = (numbers >= begin[:, None]) & (numbers < end[:, None])  # [B, W]
            stop = tf.reduce_max(tf.where(numbers < end[:, None], ends, 0), 1)
            logits = source.function(*layout([_sliced(tokens, done, stop)]))["logits"]
            places = tf.where(here, ends - sizes - done[:, None] + front, 0)
            found = tf.argmax(tf.gather(logits, places, batch_dims=1), -1)
            return end, tf.where(here, found, tags)

        begin, tags = tf.zeros_like(counts), tf.zeros_like(sizes)
        _, tags = tf.while_loop(lambda begin, tags: tf.reduce_any(begin < counts), row, (begin, tags))
        there = numbers < counts[:, None]
        return {"words": words.to_tensor(""), "tags": tf.where(there, tf.gather(labels, tags), "")}

    return serve


# The check ------------------------------------------------------------------------------------------------------------


def check(source: Exportable, path: Path) -> dict[str, Any]:
    """Compares token ids and predictions of the SavedModel at ``path`` with ptmbench's, for `hard_texts`.

    Returns the number of "texts", and the largest "difference"; for taggers, "same_tags" and "words". Raises
    `EnvironmentProblem` if token ids differ.
    """
    signatures = (loaded := tf.saved_model.load(str(path))).signatures
    texts = list(hard_texts.texts(CHECKED))
    sides = [texts, texts[::-1]][: source.texts]
    told: dict[str, Any] = {"texts": len(texts)}
    if "tokenize" in signatures:
        compare_ids(source, signatures["tokenize"], sides)
    sides = [side[:: len(texts) // ANSWERED] for side in sides]
    given = signatures["serving_default"](**_constants(sides))
    if source.trained and source.trained.task.form is Form.TAGGING:
        told |= _same_tags(source, sides[0], given)
    else:
        rows = rows_of(source.tokenizer, sides, source.length)
        largest = {name: 1e-30 for name in given if name != "label"}
        differences = dict.fromkeys(largest, 0.0)
        for number, ours in enumerate(source.answered(rows)):
            for name, array in ours.items():
                other = given[name][number].numpy()
                other = other[: len(array)] if np.ndim(array) else other
                differences[name] = max(differences[name], float(np.abs(other - array).max()))
                largest[name] = max(largest[name], float(np.abs(array).max()))
        told["difference"] = max(differences[name] / largest[name] for name in differences)
    del loaded
    return told


def interface(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the inputs and outputs of the signature serving_default at ``path``, with shapes and types."""
    serve = (loaded := tf.saved_model.load(str(path))).signatures["serving_default"]
    told = tuple(
        {name: {"shape": spec.shape.as_list(), "dtype": spec.dtype.name} for name, spec in sorted(specs.items())}
        for specs in (serve.structured_input_signature[1], serve.structured_outputs)
    )
    del loaded
    return told


def rows_of(tokenizer: Tokenizer, sides: Sequence[Sequence[str]], length: int) -> list[InputRow]:
    """Returns the rows of texts, or of pairs of texts, as the harness makes them."""
    encoded = zip(*(tokenizer.encode(side) for side in sides), strict=True)
    return [InputRow(heads.layout(tokenizer.vocabulary, parts, length), n) for n, parts in enumerate(encoded)]


def compare_ids(source: Exportable, tokenize: Any, sides: Sequence[Sequence[str]], batch: int = 500) -> None:
    """Raises `EnvironmentProblem` if ids or layout of ``tokenize`` differ from those of the tokenizer of ``source``."""
    for begin in range(0, len(sides[0]), batch):
        part = [side[begin : begin + batch] for side in sides]
        given = tokenize(**_constants(part))
        wanted = stack(rows_of(source.tokenizer, part, source.length), _MULTIPLE)
        for name in TEXT:
            theirs = given[name].numpy()
            if theirs.shape == wanted[name].shape and np.array_equal(theirs, wanted[name]):
                continue
            width = min(theirs.shape[1], wanted[name].shape[1])
            wrong = (theirs[:, :width] != wanted[name][:, :width]).any(1)
            number = int(np.argmax(wrong))
            raise EnvironmentProblem(
                f"The graph's {name} differ from the tokenizer's in {wrong.sum()} of {len(wrong)} texts, first in "
                f"{part[0][number]!r:.200}. Nothing was written. {tokenizing.NEXT}"
            )


def _constants(sides: Sequence[Sequence[str]]) -> dict[str, tf.Tensor]:
    return {name: tf.constant([text.encode() for text in side]) for name, side in zip(NAMES, sides, strict=False)}


def _same_tags(source: Exportable, texts: Sequence[str], given: dict[str, tf.Tensor]) -> dict[str, Any]:
    """Returns "same_tags", the share of words with the same tag as in ptmbench, and the number of "words"."""
    words = [[word.decode() for word in row if word] for row in given["words"].numpy()]
    examples = [Example(id=str(n), inputs=tuple(row), gold=None) for n, row in enumerate(words) if row]
    kept = [row for row in given["tags"].numpy().tolist() if row and row[0]]
    rows = source.trained.codec.rows(examples)
    outputs = [one["logits"] for one in source.answered(rows)]
    tags = source.trained.codec.predictions(examples, rows, outputs)
    same = [
        tag.decode() == own
        for row, own_row in zip(kept, tags, strict=True)
        for tag, own in zip(row, own_row, strict=False)
    ]
    return {"same_tags": float(np.mean(same)), "words": len(same)}
