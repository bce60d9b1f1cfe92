"""Compares ALBERT with `transformers.AlbertForPreTraining`: hidden states, pooled vector, MLM logits and the loss."""

import numpy as np
import pytest

from ptmbench.models import published
from tests.models.references import common
from tests.models.references.test_mlm_encoders import LABELS, MASKED, POSITIONS, SHAPE, marked

torch, transformers = common.torch, common.transformers


def network(kind):
    return common.reference(
        kind,
        transformers.AlbertConfig,
        **SHAPE,
        embedding_size=16,
        max_position_embeddings=common.SIZE.length,
        hidden_act="gelu_new",
    )


@pytest.mark.parametrize("length", [150, 131])
def test_albert(length):
    theirs = network(transformers.AlbertForPreTraining)
    built = common.ours("albert", theirs)
    batch = {key: value[:, :length] for key, value in common.batch(150).items()}
    swapped = np.array([1, 0], np.int32)
    given = {
        "input_ids": common.long(batch["tokens"]),
        "token_type_ids": common.long(batch["segments"]),
        "attention_mask": common.long(batch["tokens"] > 0),
    }
    inner = theirs.albert(**given, output_hidden_states=True)
    encoding = built.encoder(batch)
    common.check_layers(encoding, inner.hidden_states, batch["tokens"] > 0)
    assert common.difference(encoding.pooled, inner.pooler_output) < common.TOLERANCE
    if length == 150:
        out = theirs(**given, labels=marked(), sentence_order_label=common.long(swapped))
        loss = built.loss(batch | MASKED | {"swapped": swapped})
        # The class of a swapped pair is 1 on both sides.
        common.check_loss(loss["loss"], out.loss)
        logits = built.loss.heads[0].logits(encoding.tokens, POSITIONS)
        chosen = np.take_along_axis(out.prediction_logits.detach().numpy(), POSITIONS[:, :, None], axis=1)
        assert np.abs(np.reshape(logits, chosen.shape) - chosen).max() < common.TOLERANCE
        assert LABELS.max() < chosen.shape[-1]


def test_albert_configuration():
    table = published.load("albert")
    config = table.config(common.SIZE, common.VOCABULARY)
    assert table.size(config) == common.SIZE
    assert transformers.AlbertConfig(**config).embedding_size == 16
    for name, value in (("hidden_act", "gelu"), ("num_hidden_groups", 2), ("embedding_size", 24)):
        with pytest.raises(published.Unsupported, match=name):
            table.size(config | {name: value})
