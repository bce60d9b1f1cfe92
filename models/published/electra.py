"""ELECTRA's checkpoints: `transformers.ElectraForPreTraining`, the discriminator.

The generator is published separately (`transformers.ElectraForMaskedLM`). Export writes its weights into the same file
with the prefix "generator.", which `transformers` ignores. If a file has none, only the encoder and RTD's head are
read.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.contrastive_learning.electra import generator
from ptmbench.models.published import _bert_like as layers
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("electra",)
PREFIX = "electra."


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape. Raises `Unsupported` for the same settings as BERT's `size`."""
    found, embedding = layers.size(config), config.get("embedding_size", 128)
    return replace(found, embedding=0 if embedding == found.width else embedding)


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json."""
    return {
        "model_type": "electra",
        "architectures": ["ElectraForPreTraining"],
        "embedding_size": size.embedding or size.width,
        **layers.config(size, vocabulary),
    }


def weights(size: Size) -> list[Weight]:
    """One entry for each variable. RTD's head and the generator belong to the objective."""
    mlm, found = "generator.generator_predictions", "discriminator_predictions."
    widening = layers.dense("encoder/widening/", f"{PREFIX}embeddings_project")
    return [
        *layers.embeddings("encoder/embeddings/", f"{PREFIX}embeddings."),
        *(widening if size.embedding not in (0, size.width) else ()),
        *layers.stack("encoder/stack/", f"{PREFIX}encoder.layer.", size.layers),
        *layers.dense("rtd/hidden/", f"{found}dense", head=True),
        *layers.dense("rtd/score/", f"{found}dense_prediction", head=True),
        *layers.dense("rtd/projection/", f"generator.{PREFIX}embeddings_project", head=True),
        *layers.stack("generator/stack/", f"generator.{PREFIX}encoder.layer.", generator(size).layers, head=True),
        *layers.dense("generator/mlm/transform/", f"{mlm}.dense", head=True),
        *layers.norm("generator/mlm/norm/", f"{mlm}.LayerNorm", head=True),
        Weight(
            ours="generator/mlm/output_bias",
            theirs=("generator.generator_lm_head.bias",),
            vocabulary=True,
            head=True,
        ),
    ]
