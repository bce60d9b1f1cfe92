"""Writes the arrays that `tests.models.test_frozen` compares with. Needs torch and transformers, and no TensorFlow.

    python -m tests.models.frozen.make

The files in the repository come from torch 2.13.0 and transformers 5.23.0, on a CPU.
"""

import json

import numpy as np
import torch
import transformers

from ptmbench.models import published
from tests.models.frozen import CLASSES, FOLDER, SIZE, SIZES, VOCABULARY, inputs, weight


def computed(name: str) -> dict[str, np.ndarray]:
    """Hidden vectors of all layers [L + 1, B, T, D] for the model ``name``, of an encoder-decoder also the logits
    [B, S, V]; and its weights' names with their shapes."""
    config = published.load(name).config(SIZES.get(name, SIZE), VOCABULARY) | {"attn_implementation": "eager"}
    for key in ("model_type", "architectures"):
        config.pop(key, None)
    kind = getattr(transformers, CLASSES[name])
    network = kind(kind.config_class(**config)).eval()
    if name == "t5_1_1":  # this release ties the output layer to the token vectors whatever the configuration says
        network.lm_head.weight = torch.nn.Parameter(torch.zeros(VOCABULARY.size, SIZE.width))
    shapes = {key: tuple(parameter.shape) for key, parameter in network.named_parameters()}
    given = {key: torch.tensor(array.astype(np.int64)) for key, array in inputs().items()}
    seen = {"input_ids": given["tokens"], "output_hidden_states": True}
    with torch.no_grad():
        for key, parameter in network.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.tensor(weight(key, shapes[key])))
        if name in ("bert", "electra", "albert"):
            seen["token_type_ids"] = given["segments"]
        if name == "roberta":  # the reference would count positions from the first token that is not its padding
            seen["position_ids"] = torch.arange(2, 12)[None].repeat(2, 1)
        if name not in ("gpt", "gpt2", "ctrl"):
            seen["attention_mask"] = (given["tokens"] > 0).long()
        if network.config.is_encoder_decoder:
            seen["decoder_input_ids"] = given["targets"]
        out = network(**seen)
    arrays = {"weights": np.frombuffer(json.dumps(shapes).encode(), np.uint8)}
    if network.config.is_encoder_decoder:
        return arrays | {
            "hidden": torch.stack(out.encoder_hidden_states).numpy(),
            "logits": out.logits.numpy(),
        }
    return arrays | {"hidden": torch.stack(out.hidden_states).numpy()}


if __name__ == "__main__":
    for model in CLASSES:
        np.savez_compressed(FOLDER / f"{model}.npz", **computed(model))
        print(model, (FOLDER / f"{model}.npz").stat().st_size)
