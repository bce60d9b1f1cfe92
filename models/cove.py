"""CoVe: context vectors that were learned in translation.

McCann, Bradbury, Xiong and Socher (2017). Learned in Translation: Contextualized Word Vectors. NIPS.
Taxonomy: contextual; LSTM; machine translation, which is supervised; no extension.

Who translates a sentence has to know what each of its words means there. So a translator is trained on pairs of
sentences, and its decoder is put aside: the states of the encoder, two layers that read both ways, are the words'
vectors in context. Tasks read them beside the plain word vectors, [word vector; CoVe]. No label of a task is needed,
but a corpus that people have translated: texts beside their translations.

    L = - 1/S sum_s ln p(y_s | y_{<s}, x)

Differs from the paper in that word vectors are learned with the rest, where it has GloVe's, and that those of source
and target and the output layer are one table. Nearest relative: ELMo (`models.elmo`), two directions as language
models, which need no pairs.
"""

from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

CARD = Card(
    title="CoVe",
    citation="McCann et al. (2017)",
    year=2017,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("translation",),
    loss="L_MT",
    tokenizer="word",
    corpus="WMT 2017 English-German (7 million pairs of sentences; smaller ones: Multi30k, IWSLT 2016)",
    parameters="2 layers of 300 cells in each direction, 300 per word",
    reference="none to install: its equations, written out in NumPy",
)

PAIRS = True
"""Learns from texts beside their translations."""

# Half of the width are word vectors, as many cells reach the other half from both directions; the paper's 300 cells in
# each are the base size.
SIZES = {
    "tiny": Size(layers=2, width=128, length=4096),
    "mini": Size(layers=2, width=256, length=4096),
    "small": Size(layers=2, width=512, length=4096),
    "base": Size(layers=2, width=1200, length=4096),
}

LEARNING_RATE = 3e-3
"""As for ELMo (`models.elmo`)."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.lstm_translator import Decoder, Encoder
    from ptmbench.models.objectives import translation

    encoder = Encoder(size, vocabulary.size, vocabulary.cls)
    loss = translation.Translation(encoder, Decoder(size, encoder), vocabulary.cls)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: translation.batches(corpus, vocabulary, batch, length),
        decode=loss.decode,
        writer=loss,
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in the lookup table, which is the output layer too."""
    E, C, V = size.width // 2, size.width // 4, vocabulary.size
    encoder = size.layers * 2 * ((E + C) * 4 * C + 4 * C)
    decoder = size.layers * (2 * E * 4 * E + 4 * E) + E * 4 * E + (E * E + E) + (2 * E * E + E)
    return V * E + V + encoder + decoder, V * E


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token: both products of each layer and direction, whatever the
    ``length``."""
    E, C = size.width // 2, size.width // 4
    return size.layers * 2 * 2 * (E + C) * 4 * C


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per token of the source: three times the forward pass, with as long a row of targets, of
    which the last one is not gone on from."""
    return 3 * decode_flops(size, vocabulary, length, length - 1) / length


def decode_flops(size: Size, vocabulary: Vocabulary, length: int, targets: int) -> float:
    """FLOPs of `Pretrainable.decode` for one row: ``targets`` tokens of the decoder over ``length`` of the source."""
    E = size.width // 2
    cells = size.layers * 2 * E * 4 * E + E * 4 * E  # the first layer reads what was said besides the token
    looks = E * E + 2 * length * E + 2 * E * E
    return length * encoder_flops_per_token(size, length) + targets * 2 * (cells + looks + E * vocabulary.size)
