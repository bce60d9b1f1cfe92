"""XLNet: reads both ways by predicting in every order.

Yang, Dai, Yang, Carbonell, Salakhutdinov and Le (2019). XLNet: Generalized Autoregressive Pretraining for Language
Understanding. NeurIPS.
Taxonomy: contextual; two-stream Transformer encoder; PLM; no extension.

BERT predicts masked words independently of each other, from an input with a [MASK] that no task shows. A language
model does neither, but sees one side only. XLNet is a language model in a random order of the tokens, so that each is
seen from both sides in time. A token's own vector would tell what is to be predicted: a second stream of queries
knows the position and not the token. Memory and relative positions are those of Transformer-XL.

    L = - 1/S sum_s ln p(x_{z_s} | x_{z_<s}, context, memory)

Nearest relative: BERT (`models.bert`); the order in place of masks is what Transformer-XL (`models.transformer_xl`)
needs to become one. The memory reaches one segment back, see `models.objectives.plm`.
"""

from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

_SURVEY = "Qiu et al. (2020), table 2, XLNet-Large, an ensemble"
_TABLE_3 = "Yang et al. (2019), table 3, XLNet-Large"
_TABLE_5 = "Yang et al. (2019), table 5, XLNet-Large, single task, single model"

CARD = Card(
    title="XLNet",
    citation="Yang et al. (2019)",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TWO_STREAM,
    objectives=("plm",),
    loss="L_PLM",
    tokenizer="unigram",
    corpus="BooksCorpus, English Wikipedia, Giga5, ClueWeb 2012-B and Common Crawl (32.89B pieces)",
    parameters="similar to BERT-large",
    reference="transformers' XLNetLMHeadModel, both streams",
    optimizer="Adam without bias correction",
    licence="Apache-2.0",
    reported=(
        Reported(task="glue", metric="average", value=90.5, source=_SURVEY),
        Reported(task="mnli", metric="accuracy", value=90.8, split="dev", source=_TABLE_5),
        Reported(task="qnli", metric="accuracy", value=94.9, split="dev", source=_TABLE_5),
        Reported(task="qqp", metric="accuracy", value=92.3, split="dev", source=_TABLE_5),
        Reported(task="rte", metric="accuracy", value=85.9, split="dev", source=_TABLE_5),
        Reported(task="sst2", metric="accuracy", value=97.0, split="dev", source=_TABLE_5),
        Reported(task="mrpc", metric="accuracy", value=90.8, split="dev", source=_TABLE_5),
        Reported(task="cola", metric="mcc", value=69.0, split="dev", source=_TABLE_5),
        Reported(task="stsb", metric="pearson", value=92.5, split="dev", source=_TABLE_5),
        Reported(task="squad11", metric="f1", value=95.1, split="dev", source=_TABLE_3),
        Reported(task="squad20", metric="f1", value=90.6, split="dev", source=_TABLE_3),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

ADAM = {"epsilon": 1e-6}
"""Yang et al. (2019), the table of hyper-parameters for pre-training."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.two_stream import TwoStream
    from ptmbench.models.objectives import plm

    encoder = TwoStream(size, vocabulary.size)
    return Pretrainable(
        encoder=encoder,
        loss=plm.PermutedLm(encoder, vocabulary.absent),
        batches=lambda corpus, batch, length: plm.batches(corpus, vocabulary, batch, length),
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in the lookup table (the segments' vectors are none: nothing looks them
    up)."""
    D, F, V = size.width, size.inner, vocabulary.size
    layer = 5 * D * D + 5 * D + (2 * D * F + F + D) + 4 * D
    return V * D + V + D + size.layers * layer, V * D


def _layer(size: Size, queries: float, length: int, keys: int) -> float:
    """FLOPs of a layer for ``queries`` vectors that look at ``keys`` keys, ``length`` of them the row's own, keys and
    values not included.

    Scores by distance are computed for all ``length`` places, over keys + length distances. The keys of distances are
    made once for all rows of a step and not counted.
    """
    D, F = size.width, size.inner
    return queries * (2 * (2 * D * D + 2 * D * F) + 4 * keys * D) + length * 2 * (keys + length) * D


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the content stream's forward pass per token of a row of ``length``: matrix products and attention."""
    return size.layers * (_layer(size, length, length, length) / length + 2 * 2 * size.width**2)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the forward pass of both streams and the vocabulary, and
    once that of the memory, half as long as the row, without its last layer.

    The content stream goes without its last layer too. Two products have a gradient for one factor only: those with
    the memory, and those that move a query to its place.
    """
    D, L = size.width, size.layers
    memory, slots = length // 2, -(-length // 6)
    keys = memory + length
    content = (L - 1) * _layer(size, length, length, keys) + L * length * 2 * 2 * D * D
    queries = L * _layer(size, slots, length, keys) + slots * 2 * D * vocabulary.size
    once = L * (memory * 2 * 2 * D * D + 2 * length * slots * D)
    before = (L - 1) * memory * encoder_flops_per_token(size, memory) / L
    return (3 * (content + queries) + 2 * once + before) / length
