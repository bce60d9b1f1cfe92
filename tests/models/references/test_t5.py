"""Compares T5 with `transformers` on the same random weights."""

import numpy as np

from ptmbench.models import published
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
    transformers,
)


def test_t5():
    """The input has 150 tokens, because the farthest bucket of distances begins at 128."""
    config = published.load("t5").config(SIZE, VOCABULARY)
    network = reference(transformers.T5ForConditionalGeneration, transformers.T5Config, **config)
    assert published.load("t5").size(network.config.to_dict()) == SIZE
    built, given = ours("t5", network), batch()
    targets = np.random.default_rng(1).integers(1, VOCABULARY.size, (2, 40)).astype(np.int32)
    present = given["tokens"] > 0
    theirs = network(
        input_ids=long(given["tokens"]),
        attention_mask=long(present),
        decoder_input_ids=long(targets[:, :-1]),
        labels=long(targets[:, 1:]),
        output_hidden_states=True,
    )
    check_layers(built.encoder(given), theirs.encoder_hidden_states, present)
    scale = np.abs(theirs.logits.detach().numpy()).max().clip(1)
    assert difference(built.decode({**given, "targets": targets[:, :-1]}), theirs.logits) < TOLERANCE * scale
    check_loss(built.loss({**given, "targets": targets})["loss"], theirs.loss, TOLERANCE * max(1.0, theirs.loss.item()))
