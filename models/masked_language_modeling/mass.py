"""MASS: hide half of a sentence from the encoder, and the other half from the decoder.

Song, Tan, Qin, Lu and Liu (2019). MASS: Masked Sequence to Sequence Pre-training for Language Generation. ICML.
Taxonomy: contextual; Transformer; Seq2Seq MLM; no extension.

BERT trains an encoder and GPT a decoder; for generation the two have to work together. MASS hides one fragment of half
the text from the encoder. The decoder writes this fragment and sees nothing of the rest. So the encoder has to
understand the rest, and the decoder has to use the encoder. With a fragment of one token this is BERT's objective,
with the whole text it is GPT's.

    L = - 1/k sum_{t = u ... v} ln p(x_t | x_u ... x_{t-1}, x with u ... v hidden)

Nearest relative: BART (`bart`), the same layers, whose decoder writes the whole text. There is no reference of MASS to
install: the layers are compared with BART's, and the positions of the fragment have their own tests. In the authors'
code, the decoder may not attend to [MASK]. The paper does not mention this, and we do not do it.
"""

from ptmbench.models.architectures import encoder_decoders
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import SequenceModel, TargetLength
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_GIGAWORD = "Song et al. (2019), results on Gigaword"
_UNSUPERVISED = "Song et al. (2019), unsupervised translation, 6 + 6 layers"

CARD = Card(
    title="MASS",
    citation="Song et al. (2019)",
    paper="MASS: Masked Sequence to Sequence Pre-training for Language Generation",
    url="https://arxiv.org/abs/1905.02450",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER,
    objectives=("mass",),
    loss="L_MASS",
    tokenizer="bpe",
    corpus="WMT News Crawl, 2007 to 2017 (English: 190M sentences)",
    parameters="not given; 6 + 6 layers of width 1024",
    reference="none to install: BART's layers, held against transformers; positions and loss, term by term",
    reported=(
        Reported(task="wmt14_en_fr", metric="bleu", value=37.5, source=_UNSUPERVISED),
        Reported(task="wmt16_en_de", metric="bleu", value=28.3, source=_UNSUPERVISED),
        Reported(task="gigaword", metric="rouge2", value=19.71, source=_GIGAWORD),
        Reported(task="gigaword", metric="rougeL", value=35.96, source=_GIGAWORD),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=6, width=768, heads=12, inner=3072)}

ADAM = {"beta2": 0.98}
"""The authors' command (microsoft/MASS)."""


def describe(size: Size, vocabulary: Vocabulary) -> SequenceModel:
    """Returns the configuration of the network of ``size``. The decoder writes half of the text between [CLS] and
    [SEP]."""
    encoder, decoder = encoder_decoders.bart(size, vocabulary.size)
    return SequenceModel(
        encoder=encoder,
        decoder=decoder,
        vocabulary=vocabulary.size,
        targets=TargetLength(share=0.5, marks=2),
        blank=1,
    )


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed: L encoder and L decoder layers."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import mass

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    decoder = built(described.decoder, encoder, name="decoder")
    loss = mass.FragmentLm(encoder, decoder, vocabulary.mask)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=mass.batches.of(vocabulary),
        decode=loss.decode,
        writer=loss,
    )
