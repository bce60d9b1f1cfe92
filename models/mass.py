"""MASS: hide half of a sentence from the encoder, and the other half from the decoder.

Song, Tan, Qin, Lu and Liu (2019). MASS: Masked Sequence to Sequence Pre-training for Language Generation. ICML.
Taxonomy: contextual; Transformer; Seq2Seq MLM; no extension.

BERT trains an encoder and GPT a decoder; for generation the two have to work together. MASS hides one fragment of half
the text from the encoder, and the decoder writes this fragment while it sees nothing of the rest. So the encoder has
to understand what is left, and the decoder to draw on the encoder. A fragment of one token would be BERT's
objective, one of the whole text GPT's.

    L = - 1/k sum_{t = u ... v} ln p(x_t | x_u ... x_{t-1}, x with u ... v hidden)

Nearest relative: BART (`models.bart`), the same layers; its decoder writes the whole text from its beginning. No
installable reference has MASS: the layers are held against BART's, the fragment's positions tested by themselves.
The authors' code also bars the decoder from attending to [MASK]; the paper does not tell of it and we do not.
"""

from models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from models.pretrainable import Pretrainable
from models.tokenizers import Vocabulary

_GIGAWORD = "Song et al. (2019), results on Gigaword"
_UNSUPERVISED = "Song et al. (2019), unsupervised translation, 6 + 6 layers"

CARD = Card(
    title="MASS",
    citation="Song et al. (2019)",
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


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed: L layers in the encoder, L in the
    decoder."""
    from models.architectures.transformer_post_norm import Decoder, Encoder
    from models.objectives import mass

    encoder = Encoder(size, vocabulary.size)
    loss = mass.FragmentLm(encoder, Decoder(size, encoder))
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: mass.batches(corpus, vocabulary, batch, length),
        decode=loss.decode,
        writer=loss,
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights of encoder and decoder, and of those in lookup tables."""
    D, F = size.width, size.inner
    tables = (vocabulary.size + 2 * size.length) * D
    attention, feed, norm = 4 * (D * D + D), 2 * D * F + F + D, 2 * D
    encoder = size.layers * (attention + feed + 2 * norm) + norm
    decoder = size.layers * (2 * attention + feed + 3 * norm) + norm
    return tables + encoder + decoder, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: matrix products and attention."""
    D, F = size.width, size.inner
    return size.layers * (2 * (4 * D * D + 2 * D * F) + 4 * length * D)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per encoder token: three times the forward pass of encoder, decoder and vocabulary.

    The decoder writes half of the text between [CLS] and [SEP].
    """
    return 3 * decode_flops(size, vocabulary, length, (length - 2) / 2) / length


def decode_flops(size: Size, vocabulary: Vocabulary, length: int, targets: float) -> float:
    """FLOPs of `Pretrainable.decode` for one row: ``targets`` tokens of the decoder over ``length`` of the encoder."""
    D, F, V = size.width, size.inner, vocabulary.size
    encoder = encoder_flops_per_token(size, length)
    decoder = 2 * (6 * D * D + 2 * D * F) + 4 * targets * D + 4 * length * D
    memory = 2 * 2 * D * D  # keys and values of cross-attention, once per input token
    return length * (encoder + size.layers * memory) + targets * (size.layers * decoder + 2 * D * V)
