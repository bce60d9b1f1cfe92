"""BART: a Transformer that restores a damaged text.

Lewis, Liu, Goyal, Ghazvininejad, Mohamed, Levy, Stoyanov and Zettlemoyer (2020). BART: Denoising Sequence-to-Sequence
Pre-training for Natural Language Generation, Translation, and Comprehension. ACL.
Taxonomy: contextual; Transformer; DAE; no extension.

A denoising autoencoder may damage its input in any way, since the decoder writes the whole text from left to right:
positions of input and output need not match. BART shuffles the sentences of a document and replaces spans of 0 to many
tokens by one [MASK] each. The model has to restore the missing text, its length and the order. The encoder reads both
ways like BERT's, the decoder is GPT's with attention to the encoder.

    L = - 1/S sum_s ln p(x_s | x_{<s}, damaged x)

Nearest relative: T5 (`t5`), whose decoder writes only the hidden text. BART's decoder writes the whole text, so each
input token costs more, and each text trains more predictions. The paper classifies from the decoder's last token;
here every form reads the encoder.
"""

from ptmbench.models.architectures import encoder_decoders
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import SequenceModel, TargetLength
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_SURVEY = "Qiu et al. (2020), table 2, without WNLI: the mean of Lewis et al. (2020), table 2, dev, BART-large"
_TABLE_1 = "Lewis et al. (2020), table 1, BART-base with text infilling and sentence shuffling"
_TABLE_2 = "Lewis et al. (2020), table 2, BART-large"

CARD = Card(
    title="BART",
    citation="Lewis et al. (2020)",
    paper="BART: Denoising Sequence-to-Sequence Pre-training for Natural Language Generation, Translation, and "
    "Comprehension",
    url="https://arxiv.org/abs/1910.13461",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER,
    objectives=("dae",),
    loss="L_DAE",
    tokenizer="bpe",
    corpus="the 160 GB of RoBERTa: news, books, stories and web text (base: Wikipedia and books)",
    parameters="10 % more than BERT of the same size",
    reference="transformers' BartForConditionalGeneration",
    licence="MIT",
    reported=(
        Reported(task="glue", metric="average", value=88.4, split="dev", source=_SURVEY),
        Reported(task="squad11", metric="f1", value=90.8, split="dev", source=_TABLE_1),
        Reported(task="mnli", metric="accuracy", value=83.8, split="dev", source=_TABLE_1),
        Reported(task="sst2", metric="accuracy", value=96.6, split="dev", source=_TABLE_2),
        Reported(task="qqp", metric="accuracy", value=92.5, split="dev", source=_TABLE_2),
        Reported(task="qnli", metric="accuracy", value=94.9, split="dev", source=_TABLE_2),
        Reported(task="rte", metric="accuracy", value=87.0, split="dev", source=_TABLE_2),
        Reported(task="mrpc", metric="accuracy", value=90.4, split="dev", source=_TABLE_2),
        Reported(task="cola", metric="mcc", value=62.8, split="dev", source=_TABLE_2),
        Reported(task="squad20", metric="f1", value=89.2, split="dev", source=_TABLE_2),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=6, width=768, heads=12, inner=3072)}


def describe(size: Size, vocabulary: Vocabulary) -> SequenceModel:
    """Returns the configuration of the network of ``size``. Infilling leaves 70 % of the text and a [MASK] for each
    10 %, so the decoder has 1.25 tokens for each input token, up to its number of positions."""
    encoder, decoder = encoder_decoders.bart(size, vocabulary.size)
    return SequenceModel(
        encoder=encoder,
        decoder=decoder,
        vocabulary=vocabulary.size,
        targets=TargetLength(share=1.25, most=size.length),
        blank=size.length,
    )


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed: L encoder and L decoder layers."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import dae

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    decoder = built(described.decoder, encoder, name="decoder")
    loss = dae.DenoisingLm(encoder, decoder, vocabulary)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=dae.batches.of(vocabulary, longest=size.length),
        decode=loss.decode,
        writer=loss,
    )
