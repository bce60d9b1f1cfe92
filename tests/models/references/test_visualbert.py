"""Compares VisualBERT with `transformers`: pictures with and without words that name regions, and text alone."""

import numpy as np

from tests.models.frozen import regions as ours
from tests.models.references.common import ABOUT, long, seeded, torch, transformers


def test_visualbert(hold):
    size, given = ours.SIZE, ours.inputs()
    config = transformers.VisualBertConfig(
        vocab_size=ours.VOCABULARY.size,
        hidden_size=size.width,
        visual_embedding_dim=ours.FEATURES,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.inner,
        max_position_embeddings=size.length,
        pad_token_id=0,
    )
    network = transformers.VisualBertForPreTraining(config)
    shapes, expected = seeded(network), {}
    present, there = given["tokens"] > 0, given["boxes"].any(axis=-1)
    text = {
        "input_ids": long(given["tokens"]),
        "token_type_ids": long(given["segments"]),
        "attention_mask": long(present),
    }
    picture = {"visual_embeds": torch.tensor(given["regions"]), "visual_attention_mask": long(there)}
    labels = np.full((2, 15), -100)
    np.put_along_axis(labels, ours.POSITIONS, given["masked_labels"], axis=1)
    targets = {"labels": long(labels), "sentence_image_labels": long(1 - given["next"])}
    for name, picture_inputs in (
        ("named", picture | {"image_text_alignment": long(given["alignments"])} | targets),
        ("unnamed", picture | targets),
        ("text", {"visual_attention_mask": None}),
    ):
        with torch.no_grad():
            inner = network.visual_bert(
                **text, **{k: v for k, v in picture_inputs.items() if k not in targets}, return_dict=True
            )
            layers = network.visual_bert(
                **text, **{k: v for k, v in picture_inputs.items() if k not in targets}, output_hidden_states=True
            ).hidden_states
            scores, related = network.cls(inner.last_hidden_state, inner.pooler_output)
            if name != "text":
                expected[f"{name}_loss"] = network(**text, **picture_inputs).loss.numpy()
        chosen = np.take_along_axis(scores.numpy(), ours.POSITIONS[:, :, None], axis=1)
        expected |= {
            f"{name}_hidden": np.stack([layer[:, :10].numpy() * present[..., None] for layer in layers]),
            f"{name}_pooled": inner.pooler_output.numpy(),
            f"{name}_logits": chosen,
            f"{name}_related": related.numpy()[:, ::-1],  # class 1 of the reference is a random caption
        }
    hold("visualbert", ABOUT, shapes, expected)
