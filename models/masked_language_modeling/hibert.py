"""HIBERT: a document encoder that learns by writing whole hidden sentences.

Zhang, Wei and Zhou (2019). HIBERT: Document Level Pre-training of Hierarchical Bidirectional Transformers for Document
Summarization. ACL.
Taxonomy: contextual; Transformer; Seq2Seq MLM over sentences; no extension.

To choose the sentences of a summary one wants vectors of sentences that know their document. HIBERT reads each
sentence by itself, then the sentence vectors in their order, and hides 15 % of the sentences. A decoder writes each of
them, word by word, from the one vector that the document encoder gives at its place: all that it can know comes from
the sentences around it. For tasks the decoder is dropped.

    L = - 1/S sum_{k hidden} sum_j ln p(w_j of sentence k | w_1 ... w_{j-1}, d_k)

Nearest relative: BERT (`bert`), which hides words where this hides sentences, in one flat encoder. A size has L
layers of each kind: words, sentences, decoder. Not as in the paper: rows are full texts cut to T tokens that may hold
more than one document; word vectors are the decoder's output layer; see `models.layers.hierarchical` and
`models.objectives.masked_sentences`.
"""

import math

from ptmbench.models.architectures.hierarchical_transformer import hibert
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import SequenceModel
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_CNN = "Zhang et al. (2019), results on CNN/DailyMail"

CARD = Card(
    title="HIBERT",
    citation="Zhang et al. (2019)",
    paper="HIBERT: Document Level Pre-training of Hierarchical Bidirectional Transformers for Document Summarization",
    url="https://arxiv.org/abs/1905.06566",
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


def written(length: int) -> int:
    """Tokens that the decoder writes for a row of ``length`` (`models.objectives.masked_sentences.slots`)."""
    return math.ceil(0.2 * length)


def describe(size: Size, vocabulary: Vocabulary) -> SequenceModel:
    """What the network of ``size`` is made of."""
    encoder, decoder = hibert(size, vocabulary.size, vocabulary.sep)
    return SequenceModel(
        encoder=encoder,
        decoder=decoder,
        vocabulary=vocabulary.size,
        targets=written,
        writes=False,
        gap=size.length,
    )


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.layers.hierarchical import built
    from ptmbench.models.objectives import masked_sentences

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    decoder = built(described.decoder, encoder, name="decoder")
    return Pretrainable(
        encoder=encoder,
        loss=masked_sentences.MaskedSentencesLm(encoder, decoder, vocabulary),
        batches=masked_sentences.batches.of(vocabulary),
    )
