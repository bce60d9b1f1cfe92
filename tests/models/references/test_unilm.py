"""Compares UniLM with BERT under 4-D attention masks, which are built here by a rule for each pair of tokens."""

import numpy as np
import pytest

from ptmbench.models import published
from tests.models.references import common

torch, transformers = common.torch, common.transformers


def mask(tokens: np.ndarray, see) -> "torch.Tensor":
    """Returns an additive mask [B, 1, T, T]: 0 where ``see(row, query, key)`` is True and the key is not padding."""
    rows, length = tokens.shape
    found = np.full((rows, 1, length, length), torch.finfo(torch.float32).min, np.float32)
    for row in range(rows):
        for query in range(length):
            for key in range(length):
                if tokens[row, key] and see(row, query, key):
                    found[row, 0, query, key] = 0.0
    return torch.tensor(found)


@pytest.fixture(scope="module")
def pair():
    config = published.load("unilm").config(common.SIZE, common.VOCABULARY)
    assert published.load("unilm").size(config) == common.SIZE
    config = {key: value for key, value in config.items() if key != "model_type"}
    network = common.reference(
        transformers.BertForPreTraining, transformers.BertConfig, attn_implementation="eager", **config
    )
    return network, common.ours("unilm", network)


CUT = 20
KINDS = {
    "bidirectional": (lambda segments: segments, lambda row, query, key: True),
    "left to right": (lambda segments: segments * 0 + 2, lambda row, query, key: key <= query),
    "right to left": (lambda segments: segments * 0 + 3, lambda row, query, key: key >= query),
    "sequence to sequence": (
        lambda segments: segments + 4,
        lambda row, query, key: key < CUT or (query >= CUT and key <= query),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_mask(pair, kind):
    network, built = pair
    number, see = KINDS[kind]
    tokens = common.batch(57)["tokens"]
    tokens[1, 41:] = 0
    segments = number((np.arange(57) >= CUT).astype(np.int32)[None].repeat(2, axis=0))
    positions = np.array([[1, 5, 40], [2, 30, 22]], np.int32)
    labels = np.array([[7, 50, 99], [11, 100, 64]], np.int32)
    marked = np.full(tokens.shape, -100)
    np.put_along_axis(marked, positions, labels, axis=1)
    follows = np.array([1, 0], np.int32)
    theirs = network(
        input_ids=common.long(tokens),
        token_type_ids=common.long(segments),
        attention_mask=mask(tokens, see),
        labels=common.long(marked),
        next_sentence_label=common.long(1 - follows),
        output_hidden_states=True,
    )
    batch = {"tokens": tokens, "segments": segments, "next": follows}
    batch |= {"masked_positions": positions, "masked_labels": labels, "masked_weights": np.ones((2, 3), np.float32)}
    encoding = built.encoder(batch)
    common.check_layers(encoding, theirs.hidden_states, tokens > 0)
    logits = np.reshape(built.loss.heads[0].logits(encoding.tokens, positions), (2, 3, -1))
    expected = np.take_along_axis(theirs.prediction_logits.detach().numpy(), positions[:, :, None], axis=1)
    assert np.abs(logits - expected).max() < common.TOLERANCE
    loss = built.loss(batch)
    if kind == "bidirectional":
        common.check_loss(loss["loss"], theirs.loss)
    else:
        assert float(loss["nsp_loss"]) == 0.0


def test_decoding_predicts_a_mask_after_the_written_tokens(pair):
    network, built = pair
    rng = np.random.default_rng(4)
    source = rng.integers(5, common.VOCABULARY.size, (2, 12)).astype(np.int32)
    source[1, 9:] = 0
    targets = rng.integers(5, common.VOCABULARY.size, (2, 5)).astype(np.int32)
    logits = np.asarray(built.decode({"tokens": source, "targets": targets}))
    for row, count in ((0, 12), (1, 9)):
        for step in range(5):
            text = np.concatenate([source[row, :count], targets[row, 1 : step + 1], [common.VOCABULARY.mask]])[None]
            theirs = network(
                input_ids=common.long(text),
                token_type_ids=common.long(4 + (np.arange(text.shape[1]) >= count))[None],
                attention_mask=mask(text, lambda _, query, key, count=count: key < count or count <= key <= query),
            )
            gap = np.abs(logits[row, step] - theirs.prediction_logits[0, -1].detach().numpy()).max()
            assert gap < common.TOLERANCE, (row, step)


def test_unilm_v2():
    """Compares one pass of `models.objectives.pseudo_masked` with BERT.

    BERT gets the whole input: ids, positions, and the mask plus T5's bias of the distance for every pair of positions
    and every head.
    """
    from transformers.models.t5.modeling_t5 import T5Attention

    network, built = networks_of_v2()
    heads, distances = common.SIZE.heads, np.asarray(built.encoder.distances.table)
    rng = np.random.default_rng(6)
    tokens = rng.integers(5, common.VOCABULARY.size, (2, 150)).astype(np.int32)
    tokens[1, 140:] = 0
    segments = (np.arange(150) >= 70).astype(np.int32)[None].repeat(2, axis=0)
    positions = np.array([[3, 4, 90, 20], [100, 7, 8, 9]], np.int32)
    order = np.array([[5, 5, 1, 8], [4, 2, 2, 2]], np.int32)
    labels = np.take_along_axis(tokens, positions, axis=1)
    np.put_along_axis(tokens, positions, common.VOCABULARY.mask, axis=1)
    batch = {"tokens": tokens, "segments": segments, "order": order, "masked_positions": positions}
    batch |= {"masked_labels": labels, "masked_weights": np.ones((2, 4), np.float32)}

    pseudo = np.full_like(labels, common.VOCABULARY.sentinels[0])
    ids = np.concatenate([tokens, labels, pseudo], axis=1)
    places = np.concatenate([np.arange(150)[None].repeat(2, axis=0), positions, positions], axis=1)
    inside = np.take_along_axis(segments, positions, axis=1)
    blocks = np.concatenate([order, order], axis=1)

    def see(row, query, key):
        if key < 150 or query < 150:
            return key < 150
        theirs, own = blocks[row, key - 150], blocks[row, query - 150]
        if query < 154:
            return key < 154 and theirs <= own
        return theirs < own if key < 154 else theirs == own

    bucket = T5Attention._relative_position_bucket(
        common.long(places[:, None, :] - places[:, :, None]), bidirectional=True, num_buckets=32, max_distance=128
    )
    bias = torch.tensor(distances)[bucket].permute(0, 3, 1, 2)  # [B, H, U, U]
    assert bias.shape[1] == heads
    theirs = network(
        input_ids=common.long(ids),
        token_type_ids=common.long(np.concatenate([segments, inside, inside], axis=1)),
        position_ids=common.long(places),
        attention_mask=mask(ids, see) + bias,
    ).logits.detach()
    logits = np.asarray(built.loss.logits(batch))
    for row in range(2):
        chosen = np.concatenate([positions[row], np.arange(154, 158)])
        assert common.difference(logits[row], theirs[row, chosen]) < common.TOLERANCE
    nll = torch.nn.functional.cross_entropy
    expected = sum(
        nll(torch.cat([theirs[row, at] for row, at in enumerate(where)]), common.long(labels.reshape(-1)))
        for where in (positions, np.tile(np.arange(154, 158), (2, 1)))
    )
    common.check_loss(built.loss(batch)["loss"], expected)


def networks_of_v2():
    """Returns BERT with two segments, and our UniLMv2 with its weights and random distance biases."""
    from ptmbench import models

    config = published.load("bert").config(common.SIZE, common.VOCABULARY) | {"attn_implementation": "eager"}
    del config["model_type"]
    network = common.reference(transformers.BertForMaskedLM, transformers.BertConfig, **config)
    arrays = {key: value.detach().numpy() for key, value in network.state_dict().items()}
    built = models.load("unilm_v2").build(common.SIZE, common.VOCABULARY)
    entries = {weight.ours: weight for weight in published.load("unilm").weights(common.SIZE)}
    for variable in built.loss.variables:
        shape = tuple(variable.shape)
        if variable.path == "encoder/distances/table":
            variable.assign(np.random.default_rng(1).normal(size=shape))
        else:
            variable.assign(entries[variable.path].read(arrays, shape))
    return network, built
