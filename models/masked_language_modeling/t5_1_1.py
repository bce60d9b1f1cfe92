"""T5 1.1: T5 with its authors' later changes.

Raffel, Shazeer, Roberts, Lee, Narang, Matena, Zhou, Li and Liu (2020). Exploring the Limits of Transfer Learning with
a Unified Text-to-Text Transformer. JMLR 21(140). The layers: Shazeer (2020). GLU Variants Improve Transformer. arXiv.
Taxonomy: contextual; Transformer; Seq2Seq MLM; no extension.

After the paper the authors released checkpoints with three changes: feed-forward layers whose inner activations are
gated, W (gelu(x G) * x U); an output layer with its own weights; and no dropout in pre-training, where it does only
harm if no text is repeated. Objective and corpus stay the same, without the tasks that T5 mixed in.

    L = - 1/S sum_s ln p(y_s | y_{<s}, x with spans hidden)

Nearest relative: T5 (`t5`). A gated layer has three matrices instead of two, so for the same number of weights F has to
be 2/3 of T5's: the paper of GLU variants compares F = 2048 with 3072. The sizes here do the same.
"""

from ptmbench.models.architectures import encoder_decoders
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import SequenceModel, TargetLength
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_2 = "Shazeer (2020), table 2, dev, base with GEGLU"
_TABLE_4 = "Shazeer (2020), table 4, dev, base with GEGLU"

CARD = Card(
    title="T5 1.1",
    citation="Raffel et al. (2020); Shazeer (2020)",
    paper="Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
    url="https://arxiv.org/abs/1910.10683",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER,
    objectives=("seq2seq_mlm",),
    loss="L_Seq2SeqMLM",
    tokenizer="unigram",
    corpus="Colossal Clean Crawled Corpus (C4, about 750 GB)",
    parameters="about 250M (base)",
    reference="transformers' T5ForConditionalGeneration",
    optimizer="Adafactor",
    licence="Apache-2.0",
    reported=(
        Reported(task="glue", metric="average", value=84.12, split="dev", source=_TABLE_2),
        Reported(task="cola", metric="mcc", value=53.65, split="dev", source=_TABLE_2),
        Reported(task="sst2", metric="accuracy", value=93.92, split="dev", source=_TABLE_2),
        Reported(task="mrpc", metric="f1", value=92.68, split="dev", source=_TABLE_2),
        Reported(task="stsb", metric="pearson", value=90.26, split="dev", source=_TABLE_2),
        Reported(task="qqp", metric="f1", value=89.11, split="dev", source=_TABLE_2),
        Reported(task="mnli", metric="accuracy", value=86.15, split="dev", source=_TABLE_2),
        Reported(task="qnli", metric="accuracy", value=92.81, split="dev", source=_TABLE_2),
        Reported(task="rte", metric="accuracy", value=79.42, split="dev", source=_TABLE_2),
        Reported(task="squad11", metric="f1", value=91.12, split="dev", source=_TABLE_4),
    ),
)

SIZES = {
    "tiny": Size(layers=2, width=128, heads=2, inner=344),
    "mini": Size(layers=4, width=256, heads=4, inner=688),
    "small": Size(layers=4, width=512, heads=8, inner=1368),
    "base": Size(layers=12, width=768, heads=12, inner=2048),
}


def describe(size: Size, vocabulary: Vocabulary) -> SequenceModel:
    """Returns the configuration of the network of ``size``. As in T5, the decoder has about 0.22 tokens for each
    input token."""
    encoder, decoder = encoder_decoders.t5(size, vocabulary.size, gated=True)
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
    encoder.dropout = 0.0  # as in the authors' pre-training
    loss = seq2seq_mlm.SpanLm(encoder, decoder, vocabulary)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=seq2seq_mlm.batches.of(vocabulary),
        decode=loss.decode,
        writer=loss,
    )
