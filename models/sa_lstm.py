"""SA-LSTM: a recurrent sequence autoencoder, fine-tuned as a classifier.

Dai and Le (2015). Semi-supervised Sequence Learning. NIPS.
Taxonomy: contextual; LSTM; sequence autoencoding; no extension.

A language model learns what comes next; a classifier has to know what has been. So the LSTM reads a text to its end and
then has to write it, from nothing but the state that is left, with the weights that it has read with: no label is
needed, and whatever the state forgets is paid for. The classifier reads that state. The paper finds it a little better
than the language model. Token vectors are as wide as the state here, so that their table is the output layer too.

    L = - 1/(T - 1) sum_{t >= 1} ln p(x_t | h, x_0 ... x_{t-1}),        h the state after the whole text

Nearest relative: LM-LSTM (`models.lm_lstm`), the same network as a plain language model. BART (`models.bart`) is the
same idea with noise in the source and attention to all of it.
"""

from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

CARD = Card(
    title="SA-LSTM",
    citation="Dai and Le (2015)",
    year=2015,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("sequence_autoencoder",),
    loss="L_SA",
    tokenizer="word",
    corpus="the task's own texts and unlabelled ones like them (for IMDb 75,000 reviews)",
    parameters="1024 cells, 512 per word",
    reference="none to install: its equations, written out in NumPy",
    reported=(Reported(task="imdb", metric="accuracy", value=92.76, source="Dai and Le (2015), table 2"),),
)

# One layer, as in the paper, whose 1024 cells are the base size.
SIZES = {
    "tiny": Size(layers=1, width=128, length=4096),
    "mini": Size(layers=1, width=256, length=4096),
    "small": Size(layers=1, width=512, length=4096),
    "base": Size(layers=1, width=1024, length=4096),
}

LEARNING_RATE = 3e-3
"""As for ELMo (`models.elmo`)."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.left_lstm import LeftLstm
    from ptmbench.models.objectives import sequence_autoencoder

    encoder = LeftLstm(size, vocabulary.size)
    loss = sequence_autoencoder.SequenceAutoencoder(encoder)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: sequence_autoencoder.batches(corpus, vocabulary, batch, length),
        decode=loss.decode,
        writer=loss,
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in the lookup table, which is the output layer too."""
    D, table = size.width, vocabulary.size * size.width
    return table + size.layers * (2 * D * 4 * D + 4 * D), table


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token: the two products of each layer, whatever the ``length``."""
    return size.layers * 2 * 2 * size.width * 4 * size.width


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times reading the row and writing all of it but [CLS]."""
    return 3 * decode_flops(size, vocabulary, length, length - 1) / length


def decode_flops(size: Size, vocabulary: Vocabulary, length: int, targets: int) -> float:
    """FLOPs of `Pretrainable.decode` for one row: ``targets`` tokens after ``length``, the vocabulary only for them."""
    whole = (length + targets) * encoder_flops_per_token(size, length + targets)
    return whole + targets * 2 * size.width * vocabulary.size
