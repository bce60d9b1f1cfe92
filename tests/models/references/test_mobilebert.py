"""Compares MobileBERT, MobileBERT-tiny and IB-BERT with `transformers`: layers, pooled vector, MLM logits and the loss.

The vector of padding is zero on both sides. The reference initialises it with zeros and never changes it. In our
network it never enters a trigram. All layer norms get the configuration's epsilon of 1e-12. In two of seven layer
norms, the class has torch's default 1e-5 instead, which changes IB-BERT's vectors by up to 2e-4.
"""

import numpy as np
import pytest

from tests.models.frozen import bottleneck as ours
from tests.models.frozen.networks import FAR, POSITIONS, VOCABULARY, inputs
from tests.models.references.common import ABOUT, long, seeded, torch, transformers


def configuration(name):
    """Returns the configuration of the reference for the comparison ``name``."""
    settings, size = ours.SETTINGS[name], ours.SIZE
    reads = settings.get("reads", "shared")
    return transformers.MobileBertConfig(
        vocab_size=VOCABULARY.size,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.inner,
        embedding_size=size.embedding,
        max_position_embeddings=size.length,
        intra_bottleneck_size=settings["inside"],
        use_bottleneck_attention=reads == "narrow",
        key_query_shared_bottleneck=reads == "shared",
        num_feedforward_networks=settings.get("feed_forwards", 4),
        normalization_type=settings.get("norm", "no_norm"),
        hidden_act=settings.get("activation", "relu"),
        classifier_activation=settings.get("pooler", False),
    )


@pytest.mark.parametrize("name", list(ours.SETTINGS))
def test_mobilebert(name, hold):
    kind = transformers.MobileBertForPreTraining if name == "mobilebert" else transformers.MobileBertModel
    network, given = kind(configuration(name)), inputs()
    shapes = seeded(network, deviation=ours.DEVIATIONS[name])
    encoder = network.mobilebert if name == "mobilebert" else network
    for layer in network.modules():
        if isinstance(layer, torch.nn.LayerNorm):
            layer.eps = network.config.layer_norm_eps
    with torch.no_grad():
        encoder.embeddings.word_embeddings.weight[0] = 0.0
        present = given["tokens"] > 0
        short_inputs = {
            "input_ids": long(given["tokens"]),
            "token_type_ids": long(given["segments"]),
            "attention_mask": long(present),
        }
        inner = encoder(**short_inputs, output_hidden_states=True)
        segments = long((np.arange(150) >= 70)[None])
        far = encoder(input_ids=long(given["far"]), token_type_ids=segments).last_hidden_state
        expected = {
            "hidden": np.stack([layer.numpy() * present[..., None] for layer in inner.hidden_states]),
            "far": far.numpy()[0, FAR],
            "pooled": inner.pooler_output.numpy(),
        }
        if name == "mobilebert":
            labels = np.full((2, 10), -100)
            np.put_along_axis(labels, POSITIONS, given["labels"], axis=1)
            out = network(**short_inputs, labels=long(labels), next_sentence_label=long(np.array([1, 0])))
            chosen = np.take_along_axis(out.prediction_logits.numpy(), POSITIONS[:, :, None], axis=1)
            expected |= {"logits": chosen, "loss": out.loss.numpy()}
    hold(name, ABOUT, shapes, expected, deviation=ours.DEVIATIONS[name])
