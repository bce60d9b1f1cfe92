"""ULMFiT: a language model that is fine-tuned twice, and with care.

Howard and Ruder (2018). Universal Language Model Fine-tuning for Text Classification. ACL. The network is the AWD-LSTM
of Merity et al. (2018).
Taxonomy: contextual; LSTM; LM; no extension.

A recurrent language model overfits small sets and forgets what it knew. Against the first, the network has dropout of
its recurrent weights, of words, and of states in time. Against the second, there are three steps: the model learns from
general text, then continues as a language model on the task's texts, then becomes a classifier. Upper layers are
fine-tuned before lower ones, which learn more slowly. `bench.adapt.ulmfit` has these steps. The paper also trains a
model that reads backwards and averages both; this is the forward one.

    L = - 1/(T - 1) sum_{t >= 1} ln p(x_t | x_0 ... x_{t-1}) + 2 mean (m h_t)^2 + mean (h_t - h_{t+1})^2

Nearest relative: LM-LSTM (`lm_lstm`), the same recipe without these measures.
"""

from ptmbench.models.architectures import recurrent_decoders
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import RecurrentModel
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_2, _TABLE_3 = "Howard and Ruder (2018), table 2", "Howard and Ruder (2018), table 3"

CARD = Card(
    title="ULMFiT",
    citation="Howard and Ruder (2018)",
    paper="Universal Language Model Fine-tuning for Text Classification",
    url="https://arxiv.org/abs/1801.06146",
    year=2018,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("awd_lm",),
    loss="L_LM + AR + TAR",
    tokenizer="word",
    corpus="WikiText-103 (103M words)",
    parameters="3 layers of 1150 cells, 400 per word",
    reference="fastai's AWD_LSTM and RNNRegularizer; torch's LSTM; its losses, written out in NumPy",
    reported=(
        Reported(task="imdb", metric="accuracy", value=95.4, source=_TABLE_2),
        Reported(task="trec", metric="accuracy", value=96.4, source=_TABLE_2),
        Reported(task="ag_news", metric="accuracy", value=94.99, source=_TABLE_3),
        Reported(task="dbpedia", metric="accuracy", value=99.2, source=_TABLE_3),
        Reported(task="yelp_polarity", metric="accuracy", value=97.84, source=_TABLE_3),
        Reported(task="yelp_full", metric="accuracy", value=70.02, source=_TABLE_3),
    ),
)

# With this number of cells (``inner``), the layers have as many weights as the Transformer layers of the same size. The
# base size is the paper's.
SIZES = {
    "tiny": Size(layers=3, width=128, inner=128, length=4096),
    "mini": Size(layers=3, width=256, inner=416, length=4096),
    "small": Size(layers=3, width=512, inner=832, length=4096),
    "base": Size(layers=3, width=400, inner=1150, length=4096),
}

LEARNING_RATE = 3e-3
"""As for ELMo (`elmo`)."""

ADAM = {"beta1": 0.7, "beta2": 0.99}
"""Howard and Ruder (2018), section 4.1."""


def describe(size: Size, vocabulary: Vocabulary) -> RecurrentModel:
    """Returns the configuration of the network of ``size``."""
    network = recurrent_decoders.awd_lstm(size, vocabulary.size)
    return RecurrentModel(encoder=network, vocabulary=vocabulary.size, output_bias=True)


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.recurrent_networks import built
    from ptmbench.models.objectives import awd_lm, lm

    encoder = built(describe(size, vocabulary).encoder, name="encoder")
    loss = awd_lm.AwdLm(encoder)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lm.batches.of(vocabulary),
        decode=loss.decode,
        writer=loss,
        log_likelihood=loss.log_likelihood,
    )
