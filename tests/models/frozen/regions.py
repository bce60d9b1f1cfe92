"""Computes our VisualBERT for a picture with words that name its regions, without such words, and for text alone."""

from collections.abc import Callable

import numpy as np

from ptmbench import models
from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.frozen import Frozen

SIZE = Size(layers=2, width=16, heads=2, inner=24, length=20)
FEATURES = 7
VOCABULARY = Vocabulary(size=41, widths={"regions": FEATURES})
POSITIONS = np.array([[2, 6], [1, 4]], np.int32)


def inputs() -> dict[str, np.ndarray]:
    """Returns two rows of 10 tokens and 5 regions with all labels.

    The second row has 7 tokens and 3 regions, and padding. Some regions are aligned with words.
    """
    rng = np.random.default_rng(0)
    tokens = rng.integers(5, VOCABULARY.size, (2, 10)).astype(np.int32)
    tokens[1, 7:] = 0
    boxes = np.tile(np.array([0.25, 0.0, 0.5, 1.0], np.float32), (2, 5, 1))
    boxes[1, 3:] = 0
    alignments = np.full((2, 5, 3), -1, np.int32)
    alignments[0, 0], alignments[0, 2, :2], alignments[1, 1, 0] = [4, 1, 7], [2, 3], 5
    return {
        "tokens": tokens,
        "segments": ((np.arange(10) >= 4) & (tokens > 0)).astype(np.int32),
        "regions": rng.normal(0.0, 1.0, (2, 5, FEATURES)).astype(np.float32),
        "boxes": boxes,
        "alignments": alignments,
        "next": np.array([1, 0], np.int32),
        "masked_positions": POSITIONS,
        "masked_labels": rng.integers(5, VOCABULARY.size, (2, 2)).astype(np.int32),
        "masked_weights": np.ones((2, 2), np.float32),
    }


def build(frozen: Frozen) -> Pretrainable:
    """Builds our network with the reference's weights: BERT's and those of the regions.

    The reference's tables of segments and positions of regions have rows that are never read.
    """
    arrays = {name.replace("visual_bert.", "bert."): value for name, value in frozen.weights.items()}
    built = models.load("visualbert").build(SIZE, VOCABULARY)
    table = {entry.ours.replace("nsp/", "sip/"): entry for entry in published.load("bert").weights(SIZE)}
    values = {
        "encoder/regions/projection/kernel": arrays["bert.embeddings.visual_projection.weight"].T,
        "encoder/regions/projection/bias": arrays["bert.embeddings.visual_projection.bias"],
        "encoder/regions/segment/table": arrays["bert.embeddings.visual_token_type_embeddings.weight"][1:2],
        "encoder/regions/position/table": arrays["bert.embeddings.visual_position_embeddings.weight"][:1],
    }
    for variable in built.loss.variables:
        path = variable.path
        variable.assign(values[path] if path in values else table[path].read(arrays, tuple(variable.shape)))
    return built


def visualbert(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the layers, the pooled vector, the logits of masked tokens, the scores of the caption, and the loss."""
    built, given = build(frozen), inputs()
    present, outputs = (given["tokens"] > 0)[..., None], {}
    for name, left_out in (("named", ()), ("unnamed", ("alignments",)), ("text", ("alignments", "regions", "boxes"))):
        batch = {key: array for key, array in given.items() if key not in left_out}
        encoding = built.encoder(batch)
        words, related = built.loss.heads
        outputs |= {
            f"{name}_hidden": np.stack([np.asarray(layer) * present for layer in encoding.layers]),
            f"{name}_pooled": np.asarray(encoding.pooled),
            f"{name}_logits": np.reshape(words.logits(encoding.tokens, POSITIONS), (2, 2, -1)),
            f"{name}_related": np.asarray(related.scores(encoding.pooled)),
        }
        if name != "text":
            outputs[f"{name}_loss"] = np.asarray(built.loss(batch)["loss"])
    return outputs


OURS: dict[str, Callable[[Frozen], dict[str, np.ndarray]]] = {"visualbert": visualbert}
