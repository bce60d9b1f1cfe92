"""Computes the logits of our XLM with the weights of `transformers`, for rows in one language and a translation pair.

The reference cannot read several pairs in one row, so each row has at most one pair.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from ptmbench import models
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.frozen import Frozen

SIZE = Size(layers=2, width=16, heads=2, inner=64, length=20)
VOCABULARY = Vocabulary(size=41, symbols={"languages": ("de", "en", "fr")})


def inputs() -> dict[str, np.ndarray]:
    """Returns channels [3, 10].

    Row 0 is in language 2. Row 1 is in languages 1 and 3, with restarted positions. Row 2 is padded.
    """
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, VOCABULARY.size, (3, 10)).astype(np.int32)
    tokens[2, 7:] = 0
    languages, positions = np.full((3, 10), 2, np.int32), np.tile(np.arange(10, dtype=np.int32), (3, 1))
    languages[1, :4], languages[1, 4:], positions[1, 4:] = 1, 3, np.arange(6)
    return {
        "tokens": tokens,
        "languages": languages,
        "positions": positions,
        "documents": (tokens > 0).astype(np.int32),
    }


def variables(theirs: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the paths and values of our variables, given the weights of the reference by name."""

    def linear(path: str, names: list[str]) -> Iterator[tuple[str, np.ndarray]]:
        yield f"{path}/kernel", np.concatenate([theirs[f"{name}.weight"].T for name in names], axis=1)
        yield f"{path}/bias", np.concatenate([theirs[f"{name}.bias"] for name in names])

    def norm(path: str, name: str) -> Iterator[tuple[str, np.ndarray]]:
        yield f"{path}/scale", theirs[f"{name}.weight"]
        yield f"{path}/bias", theirs[f"{name}.bias"]

    root = "transformer."
    yield "encoder/embeddings/tokens/table", theirs[f"{root}embeddings.weight"]
    yield "encoder/embeddings/positions/table", theirs[f"{root}position_embeddings.weight"]
    yield "encoder/embeddings/languages/table", np.pad(theirs[f"{root}lang_embeddings.weight"], [(1, 0), (0, 0)])
    yield from norm("encoder/embeddings/norm", f"{root}layer_norm_emb")
    for n in range(SIZE.layers):
        block, attention = f"encoder/stack/layer_{n}", f"{root}attentions.{n}."
        yield from linear(f"{block}/attention/query_key_value", [f"{attention}{name}_lin" for name in "qkv"])
        yield from linear(f"{block}/attention/projection", [f"{attention}out_lin"])
        yield from norm(f"{block}/attention_norm", f"{root}layer_norm1.{n}")
        yield from linear(f"{block}/feed_forward/inner", [f"{root}ffns.{n}.lin1"])
        yield from linear(f"{block}/feed_forward/outer", [f"{root}ffns.{n}.lin2"])
        yield from norm(f"{block}/norm", f"{root}layer_norm2.{n}")
    yield "mlm/output_bias", theirs["pred_layer.proj.bias"]


def logits(kept: Frozen) -> dict[str, np.ndarray]:
    """Computes ``logits`` [N, V] of the N tokens without padding."""
    built, given, arrays = models.load("xlm").build(SIZE, VOCABULARY), inputs(), dict(variables(kept.weights))
    for variable in built.loss.variables:
        variable.assign(arrays.pop(variable.path))
    assert not arrays
    (head,) = built.loss.heads
    scores = head.logits(built.encoder(given).tokens, np.tile(np.arange(10, dtype=np.int32), (3, 1)))  # [3 * 10, V]
    return {"logits": np.asarray(scores)[given["tokens"].ravel() > 0]}


OURS = {"xlm": logits}
