"""Compares Transformer-XL with `transformers` on the same random weights.

Release 4.36 removed the class. These tests are skipped with later releases. The equations are also checked by
``tests/models/objectives/test_segment_lm.py``.
"""

import numpy as np
import pytest

from ptmbench.models.card import Size
from ptmbench.models.language_modeling import transformer_xl
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.frozen import mappings, networks
from tests.models.references.common import (
    TOLERANCE,
    VOCABULARY,
    batch,
    check_layers,
    check_loss,
    long,
    reference,
    seeded,
    torch,
    transformers,
)

if not hasattr(transformers, "TransfoXLLMHeadModel"):
    pytest.skip("this release of transformers has no Transformer-XL: use 4.30.2", allow_module_level=True)

SIZE = Size(layers=2, width=32, heads=4, inner=64, length=160)
MEMORY = 40


def settings(size: Size, vocabulary: Vocabulary) -> dict:
    """Returns the settings of the reference. With ``untie_r``, each layer would have its own pair of biases."""
    return {
        "vocab_size": vocabulary.size,
        "cutoffs": [],
        "d_model": size.width,
        "d_embed": size.width,
        "n_head": size.heads,
        "d_head": size.width // size.heads,
        "d_inner": size.inner,
        "div_val": 1,
        "n_layer": size.layers,
        "mem_len": MEMORY,
        "clamp_len": -1,
        "same_length": False,  # otherwise every query sees the same number of keys, in the paper only at evaluation
        "untie_r": False,
        "tie_projs": [False],
        "proj_share_all_but_first": False,
    }


@pytest.fixture(scope="module")
def both():
    """Returns the reference and our network."""
    network = reference(transformers.TransfoXLLMHeadModel, transformers.TransfoXLConfig, **settings(SIZE, VOCABULARY))
    values = mappings.transformer_xl(
        {name: value.detach().numpy() for name, value in network.state_dict().items()}, SIZE
    )
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
    """The memory is the whole first segment. The reference caches its states, and we compute them again."""
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


def test_small(hold):
    """The comparison that `tests.models.frozen` stores."""
    network = transformers.TransfoXLLMHeadModel(
        transformers.TransfoXLConfig(**settings(networks.SIZE, networks.VOCABULARY))
    )
    shapes, given = seeded(network), networks.inputs()
    empty = [torch.zeros(0, 2, networks.SIZE.width)] * 2

    def run(tokens):
        return network.transformer(long(tokens), mems=[x[:, : len(tokens)] for x in empty], output_hidden_states=True)

    short, far = run(given["tokens"]).hidden_states, run(given["far"]).hidden_states
    memory, tokens = np.split(given["far"][:, :20], [networks.MEMORY], axis=1)
    mems = network.transformer(long(memory), mems=[x[:, :1] for x in empty]).mems
    out = network(long(tokens), mems=mems, output_hidden_states=True)
    likely = np.take_along_axis(out.logits[:, :-1].detach().numpy(), tokens[:, 1:, None], axis=2)[..., 0]
    expected = {
        "hidden": torch.stack(tuple(short)).detach().numpy() * (given["tokens"] > 0)[..., None],
        "far": far[-1].detach().numpy()[0, networks.FAR],
        "remembering": torch.stack(tuple(out.hidden_states)).detach(),
        "likelihood": likely,
        "loss": network(long(tokens), mems=mems, labels=long(tokens)).loss.detach(),
    }
    hold("transformer_xl", f"transformers {transformers.__version__}, torch {torch.__version__}", shapes, expected)
