"""MultiFiT: ULMFiT for languages other than English, on a quicker network.

Eisenschlos, Ruder, Czapla, Kardas, Gugger and Howard (2019). MultiFiT: Efficient Multi-lingual Language Model
Fine-tuning. EMNLP.
Taxonomy: contextual; quasi-recurrent network; LM; language-specific.

One language model per language is trained on its Wikipedia alone. It reads subwords, which suit languages with many
word forms. The network is quasi-recurrent: the products of a layer are computed for all steps at once, and only gates
run through time, so that it trains several times as fast as an LSTM on accelerators. It is fine-tuned like ULMFiT
(`bench.adapt.ulmfit`). The paper's label smoothing and its teacher for languages without labels are left out.

    L = - 1/(T - 1) sum_{t >= 1} ln p(x_t | x_0 ... x_{t-1}) + 2 mean (m h_t)^2 + mean (h_t - h_{t+1})^2

Nearest relative: ULMFiT (`ulmfit`), the same with an LSTM.
"""

from ptmbench.models.architectures import recurrent_decoders
from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.costs import RecurrentModel
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="MultiFiT",
    citation="Eisenschlos et al. (2019)",
    paper="MultiFiT: Efficient Multi-lingual Language Model Fine-tuning",
    url="https://arxiv.org/abs/1909.04761",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("awd_lm",),
    extensions=("language-specific",),
    loss="L_LM + AR + TAR",
    tokenizer="unigram",
    corpus="100 million words of a language's Wikipedia",
    parameters="4 layers of 1550 units, 400 per subword, 15,000 subwords",
    reference="fastai 1's QRNN; its equations, written out in NumPy",
)

# With this number of units (``inner``), the layers have as many weights as the Transformer layers of the same size. The
# base size is the paper's.
SIZES = {
    "tiny": Size(layers=4, width=128, inner=176, length=4096),
    "mini": Size(layers=4, width=256, inner=560, length=4096),
    "small": Size(layers=4, width=512, inner=1112, length=4096),
    "base": Size(layers=4, width=400, inner=1550, length=4096),
}

LEARNING_RATE = 3e-3
"""As for ELMo (`elmo`)."""

ADAM = {"beta1": 0.8, "beta2": 0.99}
"""The authors' code (n-waves/multifit): fastai's beta2, and a beta1 that moves from 0.8 to 0.7 and back in a cycle.
Here beta1 is constant."""


def describe(size: Size, vocabulary: Vocabulary) -> RecurrentModel:
    """Returns the configuration of the network of ``size``."""
    network = recurrent_decoders.qrnn(size, vocabulary.size)
    return RecurrentModel(encoder=network, vocabulary=vocabulary.size, output_bias=True, writes=False)


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
        log_likelihood=loss.log_likelihood,
    )
