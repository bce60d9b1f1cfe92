"""MPNet: masked words, predicted one after the other.

Song, Tan, Qin, Lu and Liu (2020). MPNet: Masked and Permuted Pre-training for Language Understanding. NeurIPS.
Taxonomy: contextual; two-stream Transformer encoder; masked and permuted LM (MLM and PLM); no extension.

BERT predicts the masked words of a row as if they had nothing to do with each other. XLNet predicts one after the
other, but does not know how many are still to come. MPNet orders the tokens at random, keeps the first 85 % as
context, and predicts the others in turn; those not yet predicted are seen as masks at their places (position
compensation), so that every prediction knows the whole row's length, as every task will.

    L = - 1/|M| sum_{t > c} ln p(x_{z_t} | x_{z_<t}, M_{z_>c})

Nearest relative: XLNet (`models.xlnet`), whose two streams these are, over BERT's layers and without a memory.
Downstream it is BERT (`models.bert`) with relative positions, and without segments or a pooler.
"""

from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

_GLUE = "Song et al. (2020), results on the dev sets of GLUE, MPNet-base"
_SQUAD = "Song et al. (2020), results on SQuAD, MPNet-base"

CARD = Card(
    title="MPNet",
    citation="Song et al. (2020)",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TWO_STREAM,
    objectives=("masked_permuted",),
    loss="L_MPNet",
    tokenizer="wordpiece",
    corpus="English Wikipedia, BooksCorpus, OpenWebText, CC-News and Stories (160 GB)",
    parameters="110M (base)",
    reference="transformers' MPNetForMaskedLM",
    licence="MIT",
    reported=(
        Reported(task="glue", metric="average", value=87.9, split="dev", source=_GLUE),
        Reported(task="mnli", metric="accuracy", value=88.5, split="dev", source=_GLUE),
        Reported(task="qnli", metric="accuracy", value=93.3, split="dev", source=_GLUE),
        Reported(task="qqp", metric="accuracy", value=91.9, split="dev", source=_GLUE),
        Reported(task="rte", metric="accuracy", value=85.8, split="dev", source=_GLUE),
        Reported(task="sst2", metric="accuracy", value=95.5, split="dev", source=_GLUE),
        Reported(task="mrpc", metric="accuracy", value=91.8, split="dev", source=_GLUE),
        Reported(task="cola", metric="mcc", value=65.0, split="dev", source=_GLUE),
        Reported(task="stsb", metric="pearson", value=91.1, split="dev", source=_GLUE),
        Reported(task="squad11", metric="f1", value=92.7, split="dev", source=_SQUAD),
        Reported(task="squad20", metric="f1", value=85.7, split="dev", source=_SQUAD),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

ADAM = {"beta2": 0.98, "epsilon": 1e-6}
"""The authors' command (microsoft/MPNet)."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.position_compensated import EPSILON, PositionCompensated
    from ptmbench.models.objectives import masked_permuted

    encoder = PositionCompensated(size, vocabulary.size)
    return Pretrainable(
        encoder=encoder,
        loss=masked_permuted.MaskedPermutedLm(encoder, EPSILON, vocabulary.absent),
        batches=lambda corpus, batch, length: masked_permuted.batches(corpus, vocabulary, batch, length),
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights of encoder and head, and of those in lookup tables (32 distances for each head)."""
    D, F, V = size.width, size.inner, vocabulary.size
    tables = (V + size.length) * D + 32 * size.heads
    layer = 4 * (D * D + D) + (2 * D * F + F + D) + 4 * D
    return tables + 2 * D + size.layers * layer + D * D + 3 * D + V, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: matrix products and attention."""
    D, F = size.width, size.inner
    return size.layers * (2 * (4 * D * D + 2 * D * F) + 4 * length * D)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the forward pass of the row, both streams and the head.

    The last layer has keys and values of row and content, and goes on with the queries alone.
    """
    D, F, L = size.width, size.inner, size.layers
    slots = -(-15 * length // 100)
    keys = length + slots
    content = 2 * (4 * D * D + 2 * D * F) + 4 * keys * D
    query = content - 2 * 2 * D * D  # keys and values are those of the others
    row = encoder_flops_per_token(size, length) / L
    layers = (L - 1) * (length * row + slots * content) + keys * 2 * 2 * D * D + L * slots * query
    return 3 * (layers + slots * 2 * (D * D + D * vocabulary.size)) / length
