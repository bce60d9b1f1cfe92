"""SA-LSTM: a recurrent sequence autoencoder, fine-tuned as a classifier.

Dai and Le (2015). Semi-supervised Sequence Learning. NIPS.
Taxonomy: contextual; LSTM; sequence autoencoding; no extension.

A language model learns what comes next, but a classifier needs to remember what came before. So the LSTM reads a text
to its end and then has to write it again, with the same weights and from its last state alone. No label is needed, and
everything that the state forgets costs loss. The classifier reads that state. The paper finds this a little better than
the language model. Token vectors are as wide as the state here, so that their table is the output layer too.

    L = - 1/(T - 1) sum_{t >= 1} ln p(x_t | h, x_0 ... x_{t-1}),        h the state after the whole text

Nearest relative: LM-LSTM (`lm_lstm`), the same network as a plain language model. BART (`bart`) is the
same idea with noise in the source and attention to all of it.
"""

from ptmbench.models.architectures import recurrent_decoders
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import AutoencoderModel
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="SA-LSTM",
    citation="Dai and Le (2015)",
    paper="Semi-supervised Sequence Learning",
    url="https://arxiv.org/abs/1511.01432",
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
"""As for ELMo (`elmo`)."""


def describe(size: Size, vocabulary: Vocabulary) -> AutoencoderModel:
    """Returns the configuration of the network of ``size``."""
    return AutoencoderModel(encoder=recurrent_decoders.lstm(size, vocabulary.size), vocabulary=vocabulary.size)


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.recurrent_networks import built
    from ptmbench.models.objectives import sequence_autoencoder

    encoder = built(describe(size, vocabulary).encoder, name="encoder")
    loss = sequence_autoencoder.SequenceAutoencoder(encoder)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=sequence_autoencoder.batches.of(vocabulary),
        decode=loss.decode,
        writer=loss,
    )
