"""HIBERT: a document encoder that learns by writing whole hidden sentences.

Zhang, Wei and Zhou (2019). HIBERT: Document Level Pre-training of Hierarchical Bidirectional Transformers for Document
Summarization. ACL.
Taxonomy: contextual; Transformer; Seq2Seq MLM over sentences; no extension.

To choose sentences for a summary, a model needs sentence vectors that depend on the document. HIBERT reads each
sentence by itself, then the sentence vectors in their order, and hides 15 % of the sentences. A decoder writes each of
them, word by word, from one vector: the document encoder's output at its place, which depends only on the sentences
around it. For tasks the decoder is dropped.

    L = - 1/S sum_{k hidden} sum_j ln p(w_j of sentence k | w_1 ... w_{j-1}, d_k)

Nearest relative: BERT (`bert`), which hides words and not sentences, and has one flat encoder. A size has L layers of
each kind: words, sentences, decoder. There are two differences from the paper: rows are full texts cut to T tokens and
may have more than one document, and word vectors are the decoder's output layer. See `models.layers.hierarchical` and
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


def target_count(length: int) -> int:
    """Returns the number of tokens that the decoder writes for a row of ``length``.

    See `models.objectives.masked_sentences.slots`.
    """
    return math.ceil(0.2 * length)


def describe(size: Size, vocabulary: Vocabulary) -> SequenceModel:
    """Returns the configuration of the network of ``size``."""
    encoder, decoder = hibert(size, vocabulary.size, vocabulary.sep)
    return SequenceModel(
        encoder=encoder,
        decoder=decoder,
        vocabulary=vocabulary.size,
        targets=target_count,
        writes=False,
        gap=size.length,
    )


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
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
