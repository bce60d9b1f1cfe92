"""BERT's checkpoints: `transformers.BertForPreTraining`, and all others with a ``BertModel``."""

from collections.abc import Mapping
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published import _bert_like as layers
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("bert",)
PREFIX = "bert."


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape.

    Raises `Unsupported` for another activation, epsilon, kind of position or number of segments.
    """
    return layers.size(config)


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json."""
    return {"model_type": "bert", "architectures": ["BertForPreTraining"], **layers.config(size, vocabulary)}


def weights(size: Size) -> list[Weight]:
    """One entry for each variable. The pooler belongs to NSP, which trains it: checkpoints of MLM alone lack it."""
    head = "cls.predictions."
    words = (f"{head}decoder.weight",)
    return [
        *layers.embeddings("encoder/embeddings/", f"{PREFIX}embeddings.", words),
        *layers.stack("encoder/stack/", f"{PREFIX}encoder.layer.", size.layers),
        *layers.dense("encoder/pooler/", f"{PREFIX}pooler.dense", head=True),
        *layers.dense("mlm/transform/", f"{head}transform.dense", head=True),
        *layers.norm("mlm/norm/", f"{head}transform.LayerNorm", head=True),
        Weight(
            ours="mlm/output_bias",
            theirs=(f"{head}bias",),
            vocabulary=True,
            copies=(f"{head}decoder.bias",),
            head=True,
        ),
        # The classes of NSP have the reverse order there: 0 is "follows".
        Weight(
            ours="nsp/scores/kernel", theirs=("cls.seq_relationship.weight",), transposed=True, reversed=True, head=True
        ),
        Weight(ours="nsp/scores/bias", theirs=("cls.seq_relationship.bias",), reversed=True, head=True),
    ]
