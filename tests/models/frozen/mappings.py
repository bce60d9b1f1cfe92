"""The weights of references that no importer in `models.published` reads, as our variables are named and laid out.

The tests of `tests.models.references` and `tests.models.test_frozen` share these: a variable that is renamed is renamed
here.
"""

from collections.abc import Mapping

import numpy as np

from ptmbench.models.card import Size


def transformer_xl(weights: Mapping[str, np.ndarray], size: Size) -> dict[str, np.ndarray]:
    """`transformers.TransfoXLLMHeadModel`, by the paths of our variables."""
    values = {"loss/output_bias": weights["crit.out_layers.0.bias"]}
    values["encoder/tokens"] = weights["transformer.word_emb.emb_layers.0.weight"]
    values["encoder/content_bias"] = weights["transformer.r_w_bias"][:, None]
    values["encoder/position_bias"] = weights["transformer.r_r_bias"][:, None]
    for index in range(size.layers):
        layer, place = f"transformer.layers.{index}.", f"encoder/layer_{index}_"
        qkv = weights[f"{layer}dec_attn.qkv_net.weight"].T
        values[f"{place}q_kernel"], values[f"{place}kv_kernel"] = np.split(qkv, [size.width], axis=1)
        values[f"{place}distance_kernel"] = weights[f"{layer}dec_attn.r_net.weight"].T
        values[f"{place}output_kernel"] = weights[f"{layer}dec_attn.o_net.weight"].T
        for ours, theirs in (("inner", "pos_ff.CoreNet.0"), ("outer", "pos_ff.CoreNet.3")):
            values[f"{place}{ours}_kernel"] = weights[f"{layer}{theirs}.weight"].T
            values[f"{place}{ours}_bias"] = weights[f"{layer}{theirs}.bias"]
        for ours, theirs in (("attention_norm", "dec_attn.layer_norm"), ("norm", "pos_ff.layer_norm")):
            values[f"{place}{ours}_scale"] = weights[f"{layer}{theirs}.weight"]
            values[f"{place}{ours}_bias"] = weights[f"{layer}{theirs}.bias"]
    return values
