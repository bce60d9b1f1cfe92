"""Compares RoBERTa, and models with BERT's encoder (SpanBERT, InfoWord, StructBERT), with `transformers`."""

import numpy as np
import pytest

from tests.models.references import common

torch, transformers = common.torch, common.transformers

POSITIONS = np.array([[1, 5, 140], [2, 100, 30]], np.int32)
LABELS = np.array([[7, 50, 99], [11, 100, 64]], np.int32)
SHAPE = {
    "vocab_size": common.VOCABULARY.size,
    "hidden_size": common.SIZE.width,
    "num_hidden_layers": common.SIZE.layers,
    "num_attention_heads": common.SIZE.heads,
    "intermediate_size": common.SIZE.inner,
}
MASKED = {"masked_positions": POSITIONS, "masked_labels": LABELS, "masked_weights": np.ones((2, 3), np.float32)}


def marked() -> "torch.Tensor":
    """Returns the labels at their positions, and -100, which the reference ignores, everywhere else."""
    labels = np.full((2, 150), -100)
    np.put_along_axis(labels, POSITIONS, LABELS, axis=1)
    return common.long(labels)


@pytest.mark.parametrize("length", [150, 131])
def test_roberta(length):
    """Position ids are given, because the reference would treat the id 1, which is a piece of text here, as padding."""
    network = common.reference(
        transformers.RobertaForMaskedLM,
        transformers.RobertaConfig,
        **SHAPE,
        max_position_embeddings=common.SIZE.length + 2,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        pad_token_id=1,
    )
    built, batch = common.ours("roberta", network), common.batch(150)
    batch = {key: value[:, :length] for key, value in batch.items()}
    theirs = network(
        input_ids=common.long(batch["tokens"]),
        attention_mask=common.long(batch["tokens"] > 0),
        position_ids=common.long(np.tile(np.arange(2, length + 2), (2, 1))),
        labels=marked()[:, :length].contiguous(),
        output_hidden_states=True,
    )
    common.check_layers(built.encoder(batch), theirs.hidden_states, batch["tokens"] > 0)
    if length == 150:
        loss = built.loss(batch | MASKED)
        common.check_loss(loss["loss"], theirs.loss)
        logits = built.loss.heads[0].logits(built.encoder(batch).tokens, POSITIONS)
        chosen = np.take_along_axis(theirs.logits.detach().numpy(), POSITIONS[:, :, None], axis=1)
        assert np.abs(np.reshape(logits, chosen.shape) - chosen).max() < common.TOLERANCE


def test_roberta_configuration():
    from ptmbench.models import published

    table = published.load("roberta")
    config = table.config(common.SIZE, common.VOCABULARY)
    assert table.size(config) == common.SIZE
    assert transformers.RobertaConfig(**config).max_position_embeddings == common.SIZE.length + 2
    with pytest.raises(published.Unsupported, match="hidden_act"):
        table.size(config | {"hidden_act": "relu"})


@pytest.mark.parametrize(("name", "segments"), [("spanbert", 1), ("infoword", 1), ("structbert", 2)])
def test_encoders_with_the_architecture_of_bert(name, segments):
    """Their encoder and MLM head give the outputs of BERT. Their other heads are only compared with equations."""
    from ptmbench import models
    from ptmbench.models import published

    network = common.reference(
        transformers.BertForPreTraining,
        transformers.BertConfig,
        **SHAPE,
        max_position_embeddings=common.SIZE.length,
        type_vocab_size=segments,
        layer_norm_eps=1e-12,
    )
    arrays = {key: value.detach().numpy() for key, value in network.state_dict().items()}
    built = models.load(name).build(common.SIZE, common.VOCABULARY)
    table = {weight.ours: weight for weight in published.load("bert").weights(common.SIZE)}
    own = [variable.path for variable in built.loss.variables if variable.path not in table]
    assert all(path.startswith(("sbo/", "sentence_order/")) for path in own)
    for variable in built.loss.variables:
        if variable.path in table:
            variable.assign(table[variable.path].read(arrays, tuple(variable.shape)))
    batch = common.batch()
    theirs = network(
        input_ids=common.long(batch["tokens"]),
        token_type_ids=common.long(batch["segments"] * (segments - 1)),
        attention_mask=common.long(batch["tokens"] > 0),
        output_hidden_states=True,
    )
    encoding = built.encoder(batch)
    common.check_layers(encoding, theirs.hidden_states, batch["tokens"] > 0)
    head = built.loss.mlm if hasattr(built.loss, "mlm") else built.loss.heads[0]
    chosen = np.take_along_axis(theirs.prediction_logits.detach().numpy(), POSITIONS[:, :, None], axis=1)
    assert np.abs(np.reshape(head.logits(encoding.tokens, POSITIONS), chosen.shape) - chosen).max() < common.TOLERANCE
