"""LM-LSTM: a recurrent language model, fine-tuned as a classifier.

Dai and Le (2015). Semi-supervised Sequence Learning. NIPS.
Taxonomy: contextual; LSTM; LM; no extension.

An LSTM classifier of texts is hard to train from random weights, because the gradient has to pass through hundreds of
steps. The paper first trains the LSTM to predict the next word of texts without labels. It then fine-tunes all weights
with a classifier that reads the state after the last word. Every pre-trained model since has this recipe. One thing
differs here: token vectors are as wide as the state, so that their table is the output layer too.

    L = - 1/(T - 1) sum_{t >= 1} ln p(x_t | x_0 ... x_{t-1})

Nearest relative: GPT (`gpt`), the same objective and the same fine-tuning with attention in place of recurrence.
"""

from ptmbench.models.architectures import recurrent_decoders
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import RecurrentModel
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="LM-LSTM",
    citation="Dai and Le (2015)",
    paper="Semi-supervised Sequence Learning",
    url="https://arxiv.org/abs/1511.01432",
    year=2015,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("lm",),
    loss="L_LM",
    tokenizer="word",
    corpus="the task's own texts and unlabelled ones like them (for IMDb 75,000 reviews)",
    parameters="1024 cells, 512 per word",
    reference="none to install: its equations, written out in NumPy",
    reported=(Reported(task="imdb", metric="accuracy", value=92.36, source="Dai and Le (2015), table 2"),),
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


def describe(size: Size, vocabulary: Vocabulary) -> RecurrentModel:
    """Returns the configuration of the network of ``size``."""
    return RecurrentModel(encoder=recurrent_decoders.lstm(size, vocabulary.size), vocabulary=vocabulary.size)


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.recurrent_networks import built
    from ptmbench.models.objectives import lm

    encoder = built(describe(size, vocabulary).encoder, name="encoder")
    loss = lm.CausalLm(encoder)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lm.batches.of(vocabulary),
        decode=loss.decode,
        writer=loss,
        log_likelihood=loss.log_likelihood,
    )
