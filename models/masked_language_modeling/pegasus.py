"""PEGASUS: hide the most important sentences and write them, which trains summarisation without summaries.

Zhang, Zhao, Saleh and Liu (2020). PEGASUS: Pre-training with Extracted Gap-sentences for Abstractive Summarization.
ICML.
Taxonomy: contextual; Transformer; Seq2Seq MLM; no extension.

A pre-training objective helps most if it is like the task. PEGASUS takes whole sentences out of a document and
lets the decoder write them one after the other. It chooses the sentences that have most words in common with the
rest of the document, so that the target looks like a summary of the input. Encoder and decoder are those
of the Transformer with layer-norm before each part.

    L = - 1/S sum_s ln p(y_s | y_{<s}, x with gap sentences hidden)

Nearest relative: T5 (`t5`), which hides short random spans and marks them with sentinels. The recipe is the paper's
choice at the base size (section 6.1.2): 30 % of the sentences, and no masked words in the others. Its large model
chooses 45 % and leaves a fifth of these in the input, for summaries that copy (section 6.2).
"""

from ptmbench.models.architectures import encoder_decoders
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import SequenceModel, TargetLength
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_BASE = "Zhang et al. (2020), table 1, PEGASUS-base"
_LARGE = "Zhang et al. (2020), table 1, PEGASUS-large, pre-trained on C4"

CARD = Card(
    title="PEGASUS",
    citation="Zhang et al. (2020)",
    paper="PEGASUS: Pre-training with Extracted Gap-sentences for Abstractive Summarization",
    url="https://arxiv.org/abs/1912.08777",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER,
    objectives=("gap_sentences",),
    loss="L_GSG",
    tokenizer="unigram",
    corpus="C4 (750 GB) and HugeNews (1.5B articles, 3.8 TB)",
    parameters="223M (base), 568M (large)",
    reference="transformers' PegasusForConditionalGeneration",
    optimizer="Adafactor",
    licence="Apache-2.0",
    reported=(
        Reported(task="aeslc", metric="author_rouge1", value=34.85, source=_BASE),
        Reported(task="aeslc", metric="author_rouge2", value=18.94, source=_BASE),
        Reported(task="aeslc", metric="author_rougeL", value=34.10, source=_BASE),
        Reported(task="aeslc", metric="author_rouge1", value=37.69, source=_LARGE),
        Reported(task="aeslc", metric="author_rouge2", value=21.85, source=_LARGE),
        Reported(task="aeslc", metric="author_rougeL", value=36.84, source=_LARGE),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def describe(size: Size, vocabulary: Vocabulary) -> SequenceModel:
    """Returns the configuration of the network of ``size``. The decoder has half as many positions as the encoder,
    including the padding after short targets."""
    encoder, decoder = encoder_decoders.pegasus(size, vocabulary.size)
    return SequenceModel(
        encoder=encoder, decoder=decoder, vocabulary=vocabulary.size, targets=TargetLength(share=0.5), gap=3
    )


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed: L encoder and L decoder layers."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import gap_sentences

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    decoder = built(described.decoder, encoder, name="decoder")
    loss = gap_sentences.GapSentencesLm(encoder, decoder, vocabulary)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=gap_sentences.batches.of(vocabulary),
        decode=loss.decode,
        writer=loss,
    )
