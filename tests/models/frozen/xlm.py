"""What `transformers` computes for a tiny XLM: the logits of a row of one language and of a row of translations.

    python -m tests.models.frozen.xlm

writes ``logits/xlm.npz`` (needs torch and transformers, and no TensorFlow); the file in the repository comes from torch
2.13.0 and transformers 5.23.0, on a CPU. The reference has no rows of several pairs, so each row has one.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.frozen import FOLDER, weight

FILE = FOLDER / "logits" / "xlm.npz"
SIZE = Size(layers=2, width=16, heads=2, inner=64, length=20)
VOCABULARY = Vocabulary(size=41, symbols={"languages": ("de", "en", "fr")})


def inputs() -> dict[str, np.ndarray]:
    """Channels [3, 10]: rows of language 2, of languages 1 and 3 with restarted positions, and with padding."""
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


def theirs(key: str, *shape: int) -> np.ndarray:
    """The reference's weight called ``key``."""
    return weight(key, shape)


def weights() -> Iterator[tuple[str, np.ndarray]]:
    """Our variables' paths and their values, from the weights of the reference."""
    D, F, V = SIZE.width, SIZE.inner, VOCABULARY.size

    def linear(path: str, names: list[str], inputs: int, outputs: int) -> Iterator[tuple[str, np.ndarray]]:
        yield f"{path}/kernel", np.concatenate([theirs(f"{n}.weight", outputs, inputs).T for n in names], axis=1)
        yield f"{path}/bias", np.concatenate([theirs(f"{n}.bias", outputs) for n in names])

    def norm(path: str, name: str) -> Iterator[tuple[str, np.ndarray]]:
        yield f"{path}/scale", theirs(f"{name}.weight", D)
        yield f"{path}/bias", theirs(f"{name}.bias", D)

    root = "transformer."
    yield "encoder/embeddings/tokens/table", theirs(f"{root}embeddings.weight", V, D)
    yield "encoder/embeddings/positions/table", theirs(f"{root}position_embeddings.weight", SIZE.length, D)
    languages = theirs(f"{root}lang_embeddings.weight", 3, D)
    yield "encoder/embeddings/languages/table", np.concatenate([np.zeros((1, D), np.float32), languages])
    yield from norm("encoder/embeddings/norm", f"{root}layer_norm_emb")
    for n in range(SIZE.layers):
        block, attention = f"encoder/stack/layer_{n}", f"{root}attentions.{n}."
        parts = [f"{attention}{name}_lin" for name in "qkv"]
        yield from linear(f"{block}/attention/query_key_value", parts, D, D)
        yield from linear(f"{block}/attention/projection", [f"{attention}out_lin"], D, D)
        yield from norm(f"{block}/attention_norm", f"{root}layer_norm1.{n}")
        yield from linear(f"{block}/feed_forward/inner", [f"{root}ffns.{n}.lin1"], D, F)
        yield from linear(f"{block}/feed_forward/outer", [f"{root}ffns.{n}.lin2"], F, D)
        yield from norm(f"{block}/norm", f"{root}layer_norm2.{n}")
    yield "mlm/output_bias", theirs("pred_layer.proj.bias", V)


def computed() -> Mapping[str, np.ndarray]:
    """``logits`` [3, 10, V] of the reference."""
    import torch
    import transformers

    config = transformers.XLMConfig(
        vocab_size=VOCABULARY.size, emb_dim=SIZE.width, n_layers=SIZE.layers, n_heads=SIZE.heads, n_langs=3,
        max_position_embeddings=SIZE.length, gelu_activation=True, use_lang_emb=True,
        bos_index=2, eos_index=3, pad_index=0, unk_index=1, mask_index=4,
    )  # fmt: skip
    network = transformers.XLMWithLMHeadModel(config).eval()
    given = {name: torch.tensor(array.astype(np.int64)) for name, array in inputs().items()}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.tensor(theirs(name, *parameter.shape)))
        out = network(
            input_ids=given["tokens"],
            langs=given["languages"] - 1,
            position_ids=given["positions"],
            attention_mask=given["documents"],
        )
    return {"logits": out.logits.numpy()}


if __name__ == "__main__":
    np.savez_compressed(FILE, **computed())
