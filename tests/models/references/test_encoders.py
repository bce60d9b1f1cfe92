"""Compares BERT, DistilBERT and ELECTRA with `transformers` on the same random weights."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ptmbench.models import published
from ptmbench.models.contrastive_learning import electra
from tests.models.references.common import (
    SIZE,
    TOLERANCE,
    VOCABULARY,
    batch,
    check_layers,
    check_loss,
    difference,
    long,
    ours,
    reference,
    torch,
    transformers,
)

POSITIONS = np.array([[1, 5, 140], [2, 100, 30]], np.int32)
LABELS = np.array([[7, 50, 99], [11, 99, 64]], np.int32)


def inputs(given):
    return {
        "input_ids": long(given["tokens"]),
        "token_type_ids": long(given["segments"]),
        "attention_mask": long(given["tokens"] > 0),
    }


def masked(given):
    """Returns ``given`` with `LABELS` at `POSITIONS`, and the labels in the reference's format."""
    full = np.full(given["tokens"].shape, -100)
    np.put_along_axis(full, POSITIONS, LABELS, axis=1)
    noise = {"masked_positions": POSITIONS, "masked_labels": LABELS, "masked_weights": np.ones((2, 3), np.float32)}
    return given | noise, long(full)


@pytest.mark.parametrize("length", [150, 37])
def test_bert(length):
    config = published.load("bert").config(SIZE, VOCABULARY)
    network = reference(transformers.BertForPreTraining, transformers.BertConfig, **config)
    assert published.load("bert").size(network.config.to_dict()) == SIZE
    built = ours("bert", network)
    given = {name: value[:, :length] for name, value in batch().items()}
    theirs = network.bert(**inputs(given), output_hidden_states=True)
    encoding = built.encoder(given)
    check_layers(encoding, theirs.hidden_states, given["tokens"] > 0)
    assert difference(encoding.pooled, theirs.pooler_output) < TOLERANCE
    if length < 150:
        return
    noised, labels = masked(given)
    loss = built.loss({**noised, "next": np.array([0, 1], np.int32)})
    # The reference has the classes of NSP in the other order: 0 is "follows".
    theirs = network(**inputs(given), labels=labels, next_sentence_label=torch.tensor([1, 0]))
    check_loss(loss["loss"], theirs.loss)


def test_distilbert():
    settings = {"vocab_size": VOCABULARY.size, "dim": SIZE.width, "n_layers": SIZE.layers, "n_heads": SIZE.heads}
    settings |= {"hidden_dim": SIZE.inner, "max_position_embeddings": SIZE.length}
    network = reference(transformers.DistilBertForMaskedLM, transformers.DistilBertConfig, **settings)
    table = published.load("distilbert")
    assert table.size(network.config.to_dict()) == SIZE
    built = ours("distilbert", network)
    given, labels = masked(batch())
    encoding = built.encoder(given)
    seen = {"input_ids": long(given["tokens"]), "attention_mask": long(given["tokens"] > 0)}
    theirs = network(**seen, labels=labels, output_hidden_states=True)
    check_layers(encoding, theirs.hidden_states, given["tokens"] > 0)
    assert difference(encoding.pooled, theirs.hidden_states[-1][:, 0]) < TOLERANCE
    (head,) = built.loss.heads
    check_loss(head(encoding, given, head.totals(given))["mlm_loss"], theirs.loss)


@pytest.mark.parametrize("embedding", [0, 16])
def test_electra(embedding):
    """Token vectors are as wide as the layers, or narrower as in ELECTRA-small."""
    size = replace(SIZE, embedding=embedding)
    small = electra.generator(size)
    config = published.load("electra").config(size, VOCABULARY)
    narrow = {"hidden_size": small.width, "intermediate_size": small.inner, "num_attention_heads": small.heads}
    network = reference(transformers.ElectraForPreTraining, transformers.ElectraConfig, **config)
    generator = reference(transformers.ElectraForMaskedLM, transformers.ElectraConfig, **(config | narrow))
    # Two networks are passed as one: in the table, the generator's weights have the prefix "generator.".
    if not hasattr(generator.electra, "embeddings_project"):  # no projection, because all widths are equal
        identity = {
            "embeddings_project.weight": torch.eye(SIZE.width),
            "embeddings_project.bias": torch.zeros(SIZE.width),
        }
    else:
        identity = {}
    with torch.no_grad():  # as in the authors' training, both share one table of embeddings
        generator.electra.embeddings.load_state_dict(network.electra.embeddings.state_dict())
    arrays = network.state_dict() | {f"generator.{name}": value for name, value in generator.state_dict().items()}
    arrays |= {f"generator.electra.{name}": value for name, value in identity.items()}
    assert published.load("electra").size(network.config.to_dict()) == size
    built = ours("electra", SimpleNamespace(state_dict=lambda: arrays), size)
    given = batch()
    hidden = network(**inputs(given), output_hidden_states=True).hidden_states
    check_layers(built.encoder(given), hidden, given["tokens"] > 0)
    original = given["tokens"].copy()
    np.put_along_axis(original, POSITIONS, LABELS, axis=1)
    hiding = original.copy()
    np.put_along_axis(hiding, POSITIONS, VOCABULARY.mask, axis=1)
    noised, _ = masked(given | {"tokens": hiding})
    loss = built.loss({**noised, "original": original})
    logits = generator(**inputs(given | {"tokens": hiding})).logits
    chosen = np.take_along_axis(logits.detach().numpy(), POSITIONS[:, :, None], axis=1)
    nll = torch.nn.functional.cross_entropy(torch.tensor(chosen.reshape(6, -1)), long(LABELS.reshape(-1)))
    replaced = original.copy()
    np.put_along_axis(replaced, POSITIONS, chosen.argmax(-1).astype(np.int32), axis=1)  # no seed: the most likely piece
    theirs = network(**inputs(given | {"tokens": replaced}), labels=long(replaced != original))
    check_loss(loss["mlm_loss"], nll)
    check_loss(loss["rtd_loss"], theirs.loss)
    check_loss(loss["loss"], nll.item() + 50 * theirs.loss, 50 * TOLERANCE)


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("bert", "hidden_act", "relu"),
        ("bert", "layer_norm_eps", 1e-5),
        ("bert", "position_embedding_type", "relative_key"),
        ("electra", "hidden_act", "gelu_new"),
        ("gpt", "afn", "relu"),
        ("t5", "feed_forward_proj", "gated-gelu"),
        ("t5", "d_kv", 64),
    ],
)
def test_unsupported_settings_are_refused(name, setting, value):
    size = (
        SIZE
        if name != "gpt"
        else published.load("gpt").size({"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 9})
    )
    config = published.load(name).config(size, VOCABULARY)
    assert published.load(name).size(config) == size
    with pytest.raises(published.Unsupported, match=f"{setting} is {value!r}"):
        published.load(name).size(config | {setting: value})
