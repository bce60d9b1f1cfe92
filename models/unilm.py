"""UniLM: one network that is an encoder, a language model and an encoder-decoder, by its masks.

Dong, Yang, Wang, Wei, Liu, Wang, Gao, Zhou and Hon (2019). Unified Language Model Pre-training for Natural Language
Understanding and Generation. NeurIPS.
Taxonomy: contextual; Transformer encoder; MLM under four masks, and NSP; no extension.

What a Transformer can do depends on who may see whom, and that is a matrix added to its scores. UniLM trains one BERT
under four of them: both texts see everything, each token sees what stands before it, or after it, or the second text
sees the first and what it has so far. Filling gaps is the task under each. So the same weights understand, as BERT's
do, and write, as a decoder's do: a [MASK] behind what is written asks for the next token.

    L = L_MLM + L_NSP,   L_MLM = - 1/|M| sum_{t in M} ln p(x_t | what t may see of x with M hidden)

Nearest relative: BERT (`models.bert`), which is UniLM under the first mask alone. The paper begins from BERT's weights,
here all weights begin fresh, as for every model.
"""

from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.layers.heads import ClassifierConfig, MaskedLmConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

_QA = "Dong et al. (2019), section 3.2, extractive, UniLM-large"
_TABLE_11 = "Dong et al. (2019), table 11, UniLM-large"

CARD = Card(
    title="UniLM",
    citation="Dong et al. (2019)",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("unilm", "mlm", "nsp"),
    loss="L_MLM under four masks + L_NSP",
    tokenizer="wordpiece",
    corpus="English Wikipedia and BooksCorpus",
    parameters="340M",
    reference="transformers' BertForPreTraining under each of its masks",
    licence="MIT",
    reported=(
        Reported(task="glue", metric="average", value=80.8, source="Qiu et al. (2020), table 2, UniLM-large"),
        Reported(task="cola", metric="mcc", value=61.1, source=_TABLE_11),
        Reported(task="sst2", metric="accuracy", value=94.5, source=_TABLE_11),
        Reported(task="mrpc", metric="f1", value=90.0, source=_TABLE_11),
        Reported(task="stsb", metric="spearman", value=87.7, source=_TABLE_11),
        Reported(task="qqp", metric="f1", value=71.7, source=_TABLE_11),
        Reported(task="mnli", metric="accuracy", value=87.0, source=_TABLE_11),
        Reported(task="mnli_mm", metric="accuracy", value=85.9, source=_TABLE_11),
        Reported(task="qnli", metric="accuracy", value=92.7, source=_TABLE_11),
        Reported(task="rte", metric="accuracy", value=70.9, source=_TABLE_11),
        Reported(task="squad20", metric="f1", value=83.4, split="dev", source=_QA),
        Reported(task="coqa", metric="f1", value=84.9, split="dev", source=_QA),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

READS_AGAIN = True
"""Each token is asked for by a mask of its own, which no later one sees: `decode` is all there is to write with."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures import masked_encoder
    from ptmbench.models.objectives import _joint, mlm, unilm

    encoder = masked_encoder.unilm(size, vocabulary.size)
    words = MaskedLmConfig(
        width=size.width,
        inner=size.width,
        vocabulary=vocabulary.size,
        epsilon=masked_encoder.EPSILON,
        absent=vocabulary.absent,
    )
    head = mlm.MaskedLm(words, encoder)
    return Pretrainable(
        encoder=encoder,
        loss=_joint.Joint(encoder, [head, unilm.NextSentence(ClassifierConfig(width=size.width))]),
        batches=lambda corpus, batch, length: unilm.batches(corpus, vocabulary, batch, length),
        decode=unilm.decode(encoder, head, vocabulary.mask),
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights of encoder and heads, and of those in lookup tables (6 segments)."""
    D, F, V = size.width, size.inner, vocabulary.size
    tables = (V + size.length + 6) * D
    layer = 4 * (D * D + D) + (2 * D * F + F + D) + 4 * D
    pooler, mlm, nsp = D * D + D, D * D + 3 * D + V, 2 * D + 2
    return tables + 2 * D + size.layers * layer + pooler + mlm + nsp, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: matrix products, attention, pooler.

    Attention is counted over the whole square, as it is computed: masks save nothing.
    """
    D, F = size.width, size.inner
    layer = 2 * (4 * D * D + 2 * D * F) + 4 * length * D
    return size.layers * layer + 2 * D * D / length


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the forward pass of encoder and heads."""
    D, V = size.width, vocabulary.size
    masked = -(-15 * length // 100) / length  # only these positions reach the vocabulary
    return 3 * (encoder_flops_per_token(size, length) + masked * 2 * (D * D + D * V) + 2 * D * 2 / length)


def decode_flops(size: Size, vocabulary: Vocabulary, length: int, targets: int) -> float:
    """FLOPs of `Pretrainable.decode` for one row: the source, ``targets`` - 1 written tokens, and a mask for each of
    ``targets``, which alone reach the vocabulary."""
    D, V = size.width, vocabulary.size
    whole = length + 2 * targets - 1
    layers = whole * encoder_flops_per_token(size, whole) - 2 * D * D  # nothing is pooled
    return layers + targets * 2 * (D * D + D * V)
