"""Computes our ERNIE (Tsinghua) with the weights of the authors' network: states, scores of all heads, and losses."""

from collections.abc import Iterator, Mapping

import numpy as np

from ptmbench import models
from ptmbench.models.card import Size
from ptmbench.models.layers.core import Rows
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.frozen import Frozen

SIZE = Size(layers=4, width=16, heads=2, inner=24, length=20)
WIDTH = 12
"""The width of the entity vectors."""
VOCABULARY = Vocabulary(size=41, symbols={"entities": tuple(f"Q{n}" for n in range(1, 8))}, widths={"entities": WIDTH})


def inputs() -> dict[str, np.ndarray]:
    """Returns a batch [3, 10] with all labels.

    The first row has one entity twice, the second is padded, the third has none.
    """
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, VOCABULARY.size, (3, 10)).astype(np.int32)
    tokens[1, 7:] = 0
    segments = ((np.arange(10) >= 4) & (tokens > 0)).astype(np.int32)
    entities, candidates, labels = (np.zeros((3, 10), np.int32) for _ in range(3))
    entities[0, [1, 2, 4, 7, 8]] = [3, -3, 5, 6, 3]  # column 7 has the wrong entity 6 instead of 2
    candidates[0, [1, 4, 7]] = [3, 5, 2]
    labels[0, [1, 4, 7, 8]] = [1, 4, 7, 1]
    entities[1, [3, 5]] = [7, 0]  # the entity 1 of column 5 is hidden
    candidates[1, [3, 5]] = [7, 1]
    labels[1, [3, 5]] = [3, 5]
    return {
        "tokens": tokens,
        "segments": segments,
        "entities": entities,
        "entity_candidates": candidates,
        "entity_labels": labels,
        "next": np.array([1, 0, 1], np.int32),
        "masked_positions": np.array([[2, 6], [1, 0], [3, 5]], np.int32),
        "masked_labels": np.array([[7, 19], [31, 0], [40, 11]], np.int32),
        "masked_weights": np.array([[1, 1], [1, 0], [1, 1]], np.float32),
    }


def shown(given: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns which entity scores are compared, bool [3, 10, 10].

    They are the scores of each token for the row's candidates and for "none".
    """
    candidates = (given["entity_candidates"] > 0) | (np.arange(10) == 0)
    return candidates[:, None, :] & (given["tokens"] > 0)[:, :, None]


def table(theirs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the entity vectors, float32 [K + 1, E], row 0 zeros.

    They are large, so that entities clearly change states.
    """
    return np.pad(10 * theirs["entity2vec"], [(1, 0), (0, 0)])


def variables(theirs: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the paths and values of our variables, given the weights of the authors' network by name."""

    def linear(path: str, names: list[str]) -> Iterator[tuple[str, np.ndarray]]:
        yield f"{path}/kernel", np.concatenate([theirs[f"{name}.weight"].T for name in names], axis=1)
        yield f"{path}/bias", np.concatenate([theirs[f"{name}.bias"] for name in names])

    def norm(path: str, name: str) -> Iterator[tuple[str, np.ndarray]]:
        yield f"{path}/scale", theirs[f"{name}.weight"]
        yield f"{path}/bias", theirs[f"{name}.bias"]

    def attention(path: str, name: str, ending: str = "") -> Iterator[tuple[str, np.ndarray]]:
        parts = [f"{name}.self{ending}.{part}" for part in ("query", "key", "value")]
        yield from linear(f"{path}attention/query_key_value", parts)
        yield from linear(f"{path}attention/projection", [f"{name}.output{ending}.dense"])
        yield from norm(f"{path}attention_norm", f"{name}.output{ending}.LayerNorm")

    for ours, name in (("tokens", "word"), ("positions", "position"), ("segments", "token_type")):
        yield f"encoder/embeddings/{ours}/table", theirs[f"bert.embeddings.{name}_embeddings.weight"]
    yield from norm("encoder/embeddings/norm", "bert.embeddings.LayerNorm")
    for n in range(SIZE.layers):
        layer, half = f"bert.encoder.layer.{n}", SIZE.layers // 2
        block = f"encoder/stack/layer_{n}/" if n < half else f"encoder/aggregators/layer_{n - half}/"
        feed = f"{block}{'feed_forward' if n < half else 'fusion'}"
        yield from attention(block, f"{layer}.attention")
        yield from linear(f"{feed}/outer", [f"{layer}.output.dense"])
        yield from norm(f"{block}norm", f"{layer}.output.LayerNorm")
        if n < half:
            yield from linear(f"{feed}/inner", [f"{layer}.intermediate.dense"])
            continue
        yield from attention(f"{block}entity_", f"{layer}.attention", "_ent")
        words, entities = f"{layer}.intermediate.dense", f"{layer}.intermediate.dense_ent"
        yield f"{feed}/inner/kernel", theirs[f"{words}.weight"].T
        yield f"{feed}/inner/bias", theirs[f"{words}.bias"] + theirs[f"{entities}.bias"]  # we have their sum
        yield f"{feed}/entity_inner/kernel", theirs[f"{entities}.weight"].T
        if n < SIZE.layers - 1:
            yield from linear(f"{feed}/entity_outer", [f"{layer}.output.dense_ent"])
            yield from norm(f"{block}entity_norm", f"{layer}.output.LayerNorm_ent")
    yield from linear("encoder/pooler", ["bert.pooler.dense"])
    yield "encoder/entities/table", table(theirs)
    for head, name in (("mlm", "predictions"), ("dea", "predictions_ent")):
        yield from linear(f"{head}/transform", [f"cls.{name}.transform.dense"])
        yield from norm(f"{head}/norm", f"cls.{name}.transform.LayerNorm")
    yield "mlm/output_bias", theirs["cls.predictions.bias"]
    for path, value in linear("nsp/scores", ["cls.seq_relationship"]):
        yield path, value[..., ::-1]  # the authors' class 1 is "random"


def numbers(kept: Frozen) -> dict[str, np.ndarray]:
    """Computes the outputs of our network. Padding and scores that are not `shown` are zeros.

    layers    [4, 3, 10, D]
    entities  [3, 10, E], after the first aggregator
    mlm       scores [3, 10, V]
    nsp       scores [3, 2]
    dea       scores [3, 10, 10], by column of the candidate
    losses    [2, 2], of each of the first two rows alone, without and with the dEA loss
    """
    built, given, arrays = models.load("ernie_thu").build(SIZE, VOCABULARY), inputs(), dict(variables(kept.weights))
    for variable in built.loss.variables:
        variable.assign(arrays.pop(variable.path))
    assert not arrays
    encoding, present = built.encoder(given), (given["tokens"] > 0)[..., None]
    lower = np.reshape(encoding.layers[SIZE.layers // 2], (30, -1))
    _, entities = built.encoder.aggregated(lower, built.encoder.bias(given), given, Rows(3, 10))
    words, follows, mentions = built.loss.heads
    places, losses = np.tile(np.arange(10, dtype=np.int32), (3, 1)), []
    for row in range(2):
        values = built.loss({name: array[row : row + 1] for name, array in given.items()})
        losses.append([float(values["mlm_loss"] + values["nsp_loss"]), float(values["loss"])])
    dea = np.asarray(mentions.logits(encoding.tokens, given["entity_candidates"]))
    return {
        "layers": np.stack(encoding.layers[1:]) * present,
        "entities": np.reshape(entities[0], (3, 10, -1)) * present,
        "mlm": np.reshape(words.logits(encoding.tokens, places), (3, 10, -1)) * present,
        "nsp": np.asarray(follows.scores(encoding.pooled))[:, ::-1],
        "dea": np.where(shown(given), dea, 0),
        "losses": np.array(losses, np.float32),
    }


OURS = {"ernie_thu": numbers}
