"""ELECTRA: learn to tell which words were replaced.

Clark, Luong, Le and Manning (2020). ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators. ICLR.
Taxonomy: contextual; Transformer encoder; RTD (with an MLM generator); no extension.

MLM learns from 15 % of the tokens only, and shows the encoder a [MASK] that no task ever shows. Here a small masked
language model, the generator, fills the gaps with samples, and the encoder predicts for every token whether it is the
original. So every token gives a training signal, and the input looks like text. The generator is dropped afterwards.

    L = L_MLM(generator) + 50 L_RTD        L_RTD = - 1/T sum_t ln p(token t is the original | x with samples put in)

Nearest relative: BERT (`bert`), the same encoder without NSP and pooler. The pooled vector is the unchanged vector of
[CLS].
"""

from ptmbench.models.architectures.encoders import bert, post_norm_stack
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.config import LinearConfig
from ptmbench.models.layers.heads import MaskedLmConfig, ReplacedTokensConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_4 = "Clark et al. (2020), table 4, ELECTRA-Base"
_TABLE_8 = "Clark et al. (2020), table 8, ELECTRA-Base"

CARD = Card(
    title="ELECTRA",
    citation="Clark et al. (2020)",
    paper="ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators",
    url="https://arxiv.org/abs/2003.10555",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("rtd", "mlm"),
    loss="L_MLM + 50 L_RTD",
    tokenizer="wordpiece",
    corpus="BooksCorpus and English Wikipedia (3.3B tokens)",
    parameters="110M (base), 14M (small)",
    reference="transformers' ElectraForMaskedLM and ElectraForPreTraining",
    optimizer="Adam without bias correction",
    licence="Apache-2.0",
    reported=(
        Reported(task="glue", metric="average", value=88.6, source="Qiu et al. (2020), table 2, ELECTRA-Large"),
        Reported(task="cola", metric="mcc", value=59.7, source=_TABLE_8),
        Reported(task="sst2", metric="accuracy", value=93.4, source=_TABLE_8),
        Reported(task="mrpc", metric="accuracy", value=86.7, source=_TABLE_8),
        Reported(task="stsb", metric="spearman", value=87.7, source=_TABLE_8),
        Reported(task="qqp", metric="accuracy", value=89.1, source=_TABLE_8),
        Reported(task="mnli", metric="accuracy", value=85.8, source=_TABLE_8),
        Reported(task="qnli", metric="accuracy", value=92.7, source=_TABLE_8),
        Reported(task="rte", metric="accuracy", value=73.1, source=_TABLE_8),
        Reported(task="squad11", metric="f1", value=90.8, split="dev", source=_TABLE_4),
        Reported(task="squad20", metric="f1", value=83.3, split="dev", source=_TABLE_4),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

LEARNING_RATE = 5e-4
"""At width 128; the authors' rate for their small size (table 6). With the demo's budget on the microworld, the tiny
size reaches an RTD loss of 0.30 and, fine-tuned on CoNLL-2003, F1 47. With 1e-3 it reaches 0.35 and F1 36, with 2.5e-4
F1 34."""

ADAM = {"epsilon": 1e-6}
"""Clark et al. (2020), table 6."""


def generator(size: Size) -> Size:
    """Returns the size of the generator for a discriminator of ``size``.

    It has the same depth and a third (base) or a quarter of the width (section 3.2, table 6), but at least the smallest
    width of the paper, 64.
    """
    part = 3 if size.width == SIZES["base"].width else 4
    width = min(size.width, max(64, size.width // part))
    heads = max(1, size.heads * width // size.width)
    return Size(layers=size.layers, width=width, heads=heads, inner=4 * width, length=size.length)


def _embedding(size: Size) -> int:
    """Returns E, the width of the layers unless ``size`` has another: 128 in ELECTRA-small of width 256 (table 6)."""
    return size.embedding or size.width


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    D, E, G, V = size.width, _embedding(size), generator(size).width, vocabulary.size
    head = ReplacedTokensConfig(
        projection=LinearConfig(inputs=E, outputs=G),
        generator=post_norm_stack(generator(size)),
        mlm=MaskedLmConfig(width=G, inner=E, vocabulary=V, absent=vocabulary.absent),
        hidden=LinearConfig(inputs=D, outputs=D),
        score=LinearConfig(inputs=D, outputs=1),
    )
    return EncoderModel(encoder=bert(size, V, pooler=False), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import rtd

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    return Pretrainable(
        encoder=encoder,
        loss=rtd.ReplacedTokens(described.heads[0], encoder),
        batches=rtd.batches.of(vocabulary),
    )
