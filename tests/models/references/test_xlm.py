"""Compares XLM with `transformers` on the same weights."""

import numpy as np
import pytest

from tests.models.frozen import weight
from tests.models.frozen.xlm import SIZE, VOCABULARY, inputs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.reference


def test_xlm_has_the_logits_of_transformers(hold):
    config = transformers.XLMConfig(
        vocab_size=VOCABULARY.size, emb_dim=SIZE.width, n_layers=SIZE.layers, n_heads=SIZE.heads, n_langs=3,
        max_position_embeddings=SIZE.length, gelu_activation=True, use_lang_emb=True,
        bos_index=2, eos_index=3, pad_index=0, unk_index=1, mask_index=4,
    )  # fmt: skip
    network = transformers.XLMWithLMHeadModel(config).eval()
    shapes = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
    given = {name: torch.tensor(array.astype(np.int64)) for name, array in inputs().items()}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.tensor(weight(name, shapes[name])))
        logits = network(
            input_ids=given["tokens"],
            langs=given["languages"] - 1,
            position_ids=given["positions"],
            attention_mask=given["documents"],
        ).logits[given["tokens"] > 0]
    about = f"torch {torch.__version__}, transformers {transformers.__version__}"
    hold("xlm", about, shapes, {"logits": logits.numpy()})
