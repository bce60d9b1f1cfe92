"""What the authors' code computes for a tiny ERNIE: states of tokens and entities, scores of all heads, and losses.

    python -m tests.models.frozen.ernie_thu MODELING

writes ``logits/ernie_thu.npz`` (needs torch, and no TensorFlow) from MODELING, the file code/knowledge_bert/modeling.py
of thunlp/ERNIE. The file in the repository comes from commit 514cbe4 and torch 2.13.0, on a CPU. Their code fixes two
widths, 768 and 100, which are replaced by those of the tiny network before it runs.
"""

import re
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.frozen import FOLDER, weight

FILE = FOLDER / "logits" / "ernie_thu.npz"
SIZE = Size(layers=4, width=16, heads=2, inner=24, length=20)
WIDTH = 12
VOCABULARY = Vocabulary(size=41, symbols={"entities": tuple(f"Q{n}" for n in range(1, 8))}, widths={"entities": WIDTH})


def inputs() -> dict[str, np.ndarray]:
    """A batch [3, 10] with all labels: a row with entities of which one comes twice, a padded one, and one without."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, VOCABULARY.size, (3, 10)).astype(np.int32)
    tokens[1, 7:] = 0
    segments = ((np.arange(10) >= 4) & (tokens > 0)).astype(np.int32)
    entities, candidates, labels = (np.zeros((3, 10), np.int32) for _ in range(3))
    entities[0, [1, 2, 4, 7, 8]] = [3, -3, 5, 6, 3]  # the entity 6 at column 7 is wrong, it means 2
    candidates[0, [1, 4, 7]] = [3, 5, 2]
    labels[0, [1, 4, 7, 8]] = [1, 4, 7, 1]
    entities[1, [3, 5]] = [7, 0]  # the entity at column 5 is hidden, it means 1
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


def table() -> np.ndarray:
    """Vectors of the entities, float32 [K + 1, E]; row 0 is zeros."""
    found = weight("entity2vec", (len(VOCABULARY.symbols["entities"]) + 1, WIDTH))
    return np.concatenate([np.zeros((1, WIDTH), np.float32), 10 * found[1:]])


def weights() -> Iterator[tuple[str, np.ndarray]]:
    """Our variables' paths and their values, from the weights of the authors' network."""
    D, E, F, V = SIZE.width, WIDTH, SIZE.inner, VOCABULARY.size

    def linear(path: str, names: list[str], inputs: int, outputs: int) -> Iterator[tuple[str, np.ndarray]]:
        yield f"{path}/kernel", np.concatenate([weight(f"{n}.weight", (outputs, inputs)).T for n in names], axis=1)
        yield f"{path}/bias", np.concatenate([weight(f"{n}.bias", (outputs,)) for n in names])

    def norm(path: str, name: str, width: int) -> Iterator[tuple[str, np.ndarray]]:
        yield f"{path}/scale", weight(f"{name}.weight", (width,))
        yield f"{path}/bias", weight(f"{name}.bias", (width,))

    def attention(path: str, theirs: str, ending: str, width: int) -> Iterator[tuple[str, np.ndarray]]:
        parts = [f"{theirs}.self{ending}.{name}" for name in ("query", "key", "value")]
        yield from linear(f"{path}attention/query_key_value", parts, width, width)
        yield from linear(f"{path}attention/projection", [f"{theirs}.output{ending}.dense"], width, width)
        yield from norm(f"{path}attention_norm", f"{theirs}.output{ending}.LayerNorm", width)

    embeddings = "bert.embeddings."
    yield "encoder/embeddings/tokens/table", weight(f"{embeddings}word_embeddings.weight", (V, D))
    yield "encoder/embeddings/positions/table", weight(f"{embeddings}position_embeddings.weight", (SIZE.length, D))
    yield "encoder/embeddings/segments/table", weight(f"{embeddings}token_type_embeddings.weight", (2, D))
    yield from norm("encoder/embeddings/norm", f"{embeddings}LayerNorm", D)
    for n in range(SIZE.layers):
        theirs, lower = f"bert.encoder.layer.{n}", n < SIZE.layers // 2
        block = f"encoder/stack/layer_{n}/" if lower else f"encoder/aggregators/layer_{n - SIZE.layers // 2}/"
        yield from attention(block, f"{theirs}.attention", "", D)
        feed = f"{block}{'feed_forward' if lower else 'fusion'}"
        inner = dict(linear(f"{feed}/inner", [f"{theirs}.intermediate.dense"], D, F))
        yield from linear(f"{feed}/outer", [f"{theirs}.output.dense"], F, D)
        yield from norm(f"{block}norm", f"{theirs}.output.LayerNorm", D)
        if not lower:
            yield from attention(f"{block}entity_", f"{theirs}.attention", "_ent", E)
            yield f"{feed}/entity_inner/kernel", weight(f"{theirs}.intermediate.dense_ent.weight", (F, E)).T
            inner[f"{feed}/inner/bias"] = inner[f"{feed}/inner/bias"] + weight(
                f"{theirs}.intermediate.dense_ent.bias", (F,)
            )
        if not lower and n < SIZE.layers - 1:
            yield from linear(f"{feed}/entity_outer", [f"{theirs}.output.dense_ent"], F, E)
            yield from norm(f"{block}entity_norm", f"{theirs}.output.LayerNorm_ent", E)
        yield from inner.items()
    yield from linear("encoder/pooler", ["bert.pooler.dense"], D, D)
    yield "encoder/entities/table", table()
    for head, name, width in (("mlm", "predictions", D), ("dea", "predictions_ent", E)):
        yield from linear(f"{head}/transform", [f"cls.{name}.transform.dense"], D, width)
        yield from norm(f"{head}/norm", f"cls.{name}.transform.LayerNorm", width)
    yield "mlm/output_bias", weight("cls.predictions.bias", (V,))
    scores = dict(linear("nsp/scores", ["cls.seq_relationship"], D, 2))
    yield from ((path, value[..., ::-1]) for path, value in scores.items())  # their class 1 is "random"


def reference(modeling: Path) -> Any:
    """The module in the file ``modeling``, with the widths of `SIZE`. What it would download is left out."""
    package, files = types.ModuleType("knowledge_bert"), types.ModuleType("knowledge_bert.file_utils")
    package.__path__, files.cached_path = [], None
    sys.modules |= {package.__name__: package, files.__name__: files}
    source = re.sub(r"\b768\b", str(SIZE.width), re.sub(r"\b100\b", str(WIDTH), modeling.read_text()))
    module = types.ModuleType("knowledge_bert.modeling")
    module.__package__ = package.__name__
    exec(compile(source, str(modeling), "exec"), module.__dict__)
    return module


def computed(modeling: Path) -> Mapping[str, np.ndarray]:
    """``layers`` [4, 3, 10, D] and ``entities`` [3, 10, E] after the first aggregator; the scores ``mlm`` [3, 10, V],
    ``nsp`` [3, 2] and ``dea`` [3, 10, 10], by column of the candidate; and ``losses`` [2, 2], of the first two rows by
    themselves, without dEA and with it."""
    import torch

    code = reference(modeling)
    half = SIZE.layers // 2
    config = code.BertConfig(
        VOCABULARY.size, hidden_size=SIZE.width, num_hidden_layers=SIZE.layers, num_attention_heads=SIZE.heads,
        intermediate_size=SIZE.inner, max_position_embeddings=SIZE.length,
        layer_types=["sim"] * half + ["norm"] * half,
    )  # fmt: skip
    network, seen = code.BertForPreTraining(config).eval(), []
    given = {name: torch.tensor(array) for name, array in inputs().items()}
    tokens, segments, entities, candidates, labels = (given[name].long() for name in list(given)[:5])
    vectors = torch.tensor(table())
    present = (entities > 0).long()
    present[:, 0] = 1
    read = (tokens, segments, (tokens > 0).long())
    known = {"input_ent": vectors[entities.clamp(min=0)], "ent_mask": present}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.tensor(weight(name, tuple(parameter.shape))))
        network.bert.encoder.layer[half].register_forward_hook(lambda *found: seen.append(found[2][1]))
        layers, pooled = network.bert(*read, known["input_ent"], known["ent_mask"])
        mlm, nsp, _ = network.cls(layers[-1], pooled, vectors)
        head = network.cls.predictions_ent
        dea = [head(layers[-1][row : row + 1], vectors[candidates[row]])[0] for row in range(3)]
        losses = []
        for row in range(2):
            one = slice(row, row + 1)
            columns = [0, *candidates[row].nonzero()[:, 0].tolist()]
            hidden = torch.full((1, 10), -1)
            used = given["masked_weights"][row] > 0
            hidden[0, given["masked_positions"][row][used].long()] = given["masked_labels"][row][used].long()
            mentions = torch.tensor([[columns.index(c) if c else -1 for c in labels[row].tolist()]])
            whole, plain = network(
                *(array[one] for array in read),
                masked_lm_labels=hidden,
                next_sentence_label=1 - given["next"][one].long(),
                candidate=vectors[candidates[row, columns]],
                ent_labels=mentions,
                **{name: array[one] for name, array in known.items()},
            )
            losses.append([float(plain), float(whole)])
    return {
        "layers": torch.stack(layers).numpy(),
        "entities": seen[0].numpy(),
        "mlm": mlm.numpy(),
        "nsp": nsp.numpy(),
        "dea": torch.stack(dea).numpy(),
        "losses": np.array(losses, np.float32),
    }


if __name__ == "__main__":
    np.savez_compressed(FILE, **computed(Path(sys.argv[1])))
