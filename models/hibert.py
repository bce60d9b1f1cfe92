"""HIBERT: a document encoder that learns by writing whole hidden sentences.

Zhang, Wei and Zhou (2019). HIBERT: Document Level Pre-training of Hierarchical Bidirectional Transformers for Document
Summarization. ACL.
Taxonomy: contextual; Transformer; Seq2Seq MLM over sentences; no extension.

To choose the sentences of a summary one wants vectors of sentences that know their document. HIBERT reads each
sentence by itself, then the sentence vectors in their order, and hides 15 % of the sentences. A decoder writes each of
them, word by word, from the one vector that the document encoder gives at its place: all that it can know comes from
the sentences around it. For tasks the decoder is dropped.

    L = - 1/S sum_{k hidden} sum_j ln p(w_j of sentence k | w_1 ... w_{j-1}, d_k)

Nearest relative: BERT (`models.bert`), which hides words where this hides sentences, in one flat encoder. A size has L
layers of each kind: words, sentences, decoder. Not as in the paper: rows are full texts cut to T tokens that may hold
more than one document; word vectors are the decoder's output layer; see `models.architectures.hierarchical_transformer`
and `models.objectives.masked_sentences`.
"""

import math

from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

_CNN = "Zhang et al. (2019), results on CNN/DailyMail"

CARD = Card(
    title="HIBERT",
    citation="Zhang et al. (2019)",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER,
    objectives=("masked_sentences",),
    loss="L_MaskedSentences",
    tokenizer="bpe",
    corpus="GIGA-CM: English Gigaword and CNN/DailyMail, then the articles of the task",
    parameters="width 512 (S) and 768 (M)",
    reference="none to install: its equations, term by term",
    reported=(
        Reported(task="cnn_dailymail", metric="rouge1", value=42.37, source=_CNN),
        Reported(task="cnn_dailymail", metric="rouge2", value=19.95, source=_CNN),
        Reported(task="cnn_dailymail", metric="rougeL", value=38.83, source=_CNN),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=6, width=768, heads=12, inner=3072)}


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.hierarchical_transformer import Decoder, Encoder
    from ptmbench.models.objectives import masked_sentences

    encoder = Encoder(size, vocabulary.size, vocabulary.sep)
    return Pretrainable(
        encoder=encoder,
        loss=masked_sentences.MaskedSentencesLm(encoder, Decoder(size, encoder)),
        batches=lambda corpus, batch, length: masked_sentences.batches(corpus, vocabulary, batch, length),
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in lookup tables: words, their positions, and those of 32 sentences."""
    D, F = size.width, size.inner
    tables = (vocabulary.size + size.length + min(32, size.length // 2 + 1)) * D
    return tables + 3 * size.layers * (4 * (D * D + D) + (2 * D * F + F + D) + 4 * D), tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the forward pass of both encoders per token of a row of ``length``, which has places for up to 32
    sentences. Attention among words is counted over the whole square, as it is computed: the mask saves nothing."""
    sentences = min(32, length // 2 + 1)
    return _layers(size, length) + sentences / length * _layers(size, sentences)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the forward pass of encoders, decoder and vocabulary."""
    written = math.ceil(0.2 * length)  # `masked_sentences.slots`
    writing = _layers(size, written) + 2 * size.width * vocabulary.size
    return 3 * (encoder_flops_per_token(size, length) + written / length * writing)


def _layers(size: Size, length: int) -> float:
    """FLOPs of L layers per token of a row of ``length``: matrix products and attention."""
    D, F = size.width, size.inner
    return size.layers * (2 * (4 * D * D + 2 * D * F) + 4 * length * D)
