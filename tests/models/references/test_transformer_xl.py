"""Transformer-XL against `transformers` on the same random weights.

Its class is gone since release 4.36: with a later one this is skipped, and the equations are held by
``tests/models/objectives/test_segment_lm.py``.
"""

import numpy as np
import pytest

from ptmbench.models import transformer_xl
from ptmbench.models.card import Size
from tests.models.references.common import (
    TOLERANCE,
    VOCABULARY,
    batch,
    check_layers,
    check_loss,
    long,
    reference,
    torch,
    transformers,
)

if not hasattr(transformers, "TransfoXLLMHeadModel"):
    pytest.skip("this release of transformers has no Transformer-XL: use 4.30.2", allow_module_level=True)

SIZE = Size(layers=2, width=32, heads=4, inner=64, length=160)
MEMORY = 40


@pytest.fixture(scope="module")
def both():
    """The reference and ours; biases that are not shared there would be one pair per layer."""
    network = reference(
        transformers.TransfoXLLMHeadModel,
        transformers.TransfoXLConfig,
        vocab_size=VOCABULARY.size,
        cutoffs=[],
        d_model=SIZE.width,
        d_embed=SIZE.width,
        n_head=SIZE.heads,
        d_head=SIZE.width // SIZE.heads,
        d_inner=SIZE.inner,
        div_val=1,
        n_layer=SIZE.layers,
        mem_len=MEMORY,
        clamp_len=-1,
        same_length=False,  # else every query sees as many keys, which the paper does at evaluation only
        untie_r=False,
        tie_projs=[False],
        proj_share_all_but_first=False,
    )
    weights = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    values = {"loss/output_bias": weights["crit.out_layers.0.bias"]}
    values["encoder/embeddings/tokens/table"] = weights["transformer.word_emb.emb_layers.0.weight"]
    values["encoder/content_bias"] = weights["transformer.r_w_bias"][:, None]
    values["encoder/position_bias"] = weights["transformer.r_r_bias"][:, None]
    for index in range(SIZE.layers):
        layer, place = f"transformer.layers.{index}.", f"encoder/stack/layer_{index}/"
        qkv = weights[f"{layer}dec_attn.qkv_net.weight"].T
        own = f"{place}attention/"
        values[f"{own}query/kernel"], values[f"{own}key_value/kernel"] = np.split(qkv, [SIZE.width], axis=1)
        values[f"{own}distance/kernel"] = weights[f"{layer}dec_attn.r_net.weight"].T
        values[f"{own}projection/kernel"] = weights[f"{layer}dec_attn.o_net.weight"].T
        for ours, theirs in (("inner", "pos_ff.CoreNet.0"), ("outer", "pos_ff.CoreNet.3")):
            values[f"{place}feed_forward/{ours}/kernel"] = weights[f"{layer}{theirs}.weight"].T
            values[f"{place}feed_forward/{ours}/bias"] = weights[f"{layer}{theirs}.bias"]
        for ours, theirs in (("attention_norm", "dec_attn.layer_norm"), ("norm", "pos_ff.layer_norm")):
            values[f"{place}{ours}/scale"] = weights[f"{layer}{theirs}.weight"]
            values[f"{place}{ours}/bias"] = weights[f"{layer}{theirs}.bias"]
    built = transformer_xl.build(SIZE, VOCABULARY)
    assert {variable.path for variable in built.loss.variables} == set(values)
    for variable in built.loss.variables:
        variable.assign(values[variable.path])
    return network, built


def test_without_memory(both):
    network, built = both
    tokens = batch()["tokens"]
    theirs = network.transformer(long(tokens), mems=[torch.zeros(0, 2, SIZE.width)] * 2, output_hidden_states=True)
    check_layers(built.encoder({"tokens": tokens}), theirs.hidden_states, tokens > 0)


def test_with_memory(both):
    """The memory is the whole first segment, whose states are cached there and computed again here."""
    network, built = both
    tokens = batch()["tokens"][:1, : MEMORY + 70]
    first, second = tokens[:, :MEMORY], tokens[:, MEMORY:]
    empty = [torch.zeros(0, 1, SIZE.width)] * SIZE.layers
    memory = network.transformer(long(first), mems=empty).mems
    theirs = network(long(second), mems=memory, output_hidden_states=True)
    ours = built.encoder.hidden(second, memory=first)
    gaps = [
        np.abs(np.reshape(x, (1, 70, -1)) - y.detach().numpy()).max()
        for x, y in zip(ours, theirs.hidden_states, strict=True)
    ]
    assert max(gaps) < TOLERANCE, gaps
    expected = theirs.logits[:, :-1].detach().numpy()  # log-probabilities
    expected = np.take_along_axis(expected, second[:, 1:, None], axis=2)[:, :, 0]
    scores = built.log_likelihood({"tokens": second, "memory": first})[:, 1:]
    assert np.abs(scores - expected).max() < TOLERANCE * np.abs(expected).max()
    loss = built.loss({"tokens": second, "memory": first})["loss"]
    check_loss(loss, network(long(second), mems=memory, labels=long(second)).loss, 1e-4)
