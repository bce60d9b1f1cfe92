"""T5: every task as text in, text out.

Raffel, Shazeer, Roberts, Lee, Narang, Matena, Zhou, Li and Liu (2020). Exploring the Limits of Transfer Learning
with a Unified Text-to-Text Transformer. JMLR 21(140).
Taxonomy: contextual; Transformer; Seq2Seq MLM; no extension.

An encoder reads both ways, a decoder writes left to right, and one loss serves all tasks. In pre-training, sentinels
replace spans of the text and the decoder writes the hidden spans, which are much shorter than the text. There are three
differences from the original Transformer: layer-norm before each part and without bias, positions as one learned
scalar per distance and head, and embeddings shared by input and output.

    L = - 1/S sum_s ln p(y_s | y_{<s}, x with spans hidden)

Nearest relative: BERT (`bert`). It predicts each hidden token independently; T5's decoder writes all of them in
order. A size has L layers in the encoder and L in the decoder, about twice the weights of BERT of that size.
"""

from ptmbench.models.architectures import encoder_decoders
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import SequenceModel, TargetLength
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_SURVEY = "Qiu et al. (2020), table 2, T5-11B, without WNLI"
_TABLE_14 = "Raffel et al. (2020), table 14, T5-Base"

CARD = Card(
    title="T5",
    citation="Raffel et al. (2020)",
    paper="Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
    url="https://arxiv.org/abs/1910.10683",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER,
    objectives=("seq2seq_mlm",),
    loss="L_Seq2SeqMLM",
    tokenizer="unigram",
    corpus="Colossal Clean Crawled Corpus (C4, about 750 GB)",
    parameters="220M (base)",
    reference="transformers' T5ForConditionalGeneration",
    optimizer="Adafactor",
    licence="Apache-2.0",
    reported=(
        Reported(task="glue", metric="average", value=89.7, source=_SURVEY),
        Reported(task="cola", metric="mcc", value=51.1, source=_TABLE_14),
        Reported(task="sst2", metric="accuracy", value=95.2, source=_TABLE_14),
        Reported(task="mrpc", metric="f1", value=90.7, source=_TABLE_14),
        Reported(task="mrpc", metric="accuracy", value=87.5, source=_TABLE_14),
        Reported(task="stsb", metric="pearson", value=89.4, source=_TABLE_14),
        Reported(task="stsb", metric="spearman", value=88.6, source=_TABLE_14),
        Reported(task="qqp", metric="f1", value=72.6, source=_TABLE_14),
        Reported(task="qqp", metric="accuracy", value=89.4, source=_TABLE_14),
        Reported(task="mnli", metric="accuracy", value=87.1, source=_TABLE_14),
        Reported(task="qnli", metric="accuracy", value=93.7, source=_TABLE_14),
        Reported(task="rte", metric="accuracy", value=80.1, source=_TABLE_14),
        Reported(task="wnli", metric="accuracy", value=78.8, source=_TABLE_14),
        Reported(task="squad11", metric="f1", value=92.08, split="dev", source=_TABLE_14),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def describe(size: Size, vocabulary: Vocabulary) -> SequenceModel:
    """Returns the configuration of the network of ``size``.

    Span corruption hides 15 % of the text in spans of 3, so the decoder has about 0.22 tokens for each input token:
    (15 % hidden + 5 % sentinels) of the text, over (85 % kept + 5 % sentinels) of it.
    """
    encoder, decoder = encoder_decoders.t5(size, vocabulary.size)
    return SequenceModel(
        encoder=encoder,
        decoder=decoder,
        vocabulary=vocabulary.size,
        targets=TargetLength(share=0.2, per=0.9),
        blank=2,
    )


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import seq2seq_mlm

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    decoder = built(described.decoder, encoder, name="decoder")
    loss = seq2seq_mlm.SpanLm(encoder, decoder, vocabulary)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=seq2seq_mlm.batches.of(vocabulary),
        decode=loss.decode,
        writer=loss,
    )
