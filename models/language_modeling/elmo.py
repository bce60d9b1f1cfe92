"""ELMo: embeddings from language models.

Peters, Neumann, Iyyer, Gardner, Clark, Lee and Zettlemoyer (2018). Deep Contextualized Word Representations. NAACL.
Taxonomy: contextual; LSTM; BiLM; no extension.

Two language models, one reading forwards and one backwards, are trained together on running text. The vector of a word
in its context is then a mixture of all their layers. A task learns the mixture, because lower layers encode more of the
syntax and higher layers more of the meaning. The network itself usually stays frozen. There is one difference from the
paper: tokens are subwords of the shared vocabulary with a lookup table, and not words built from characters by a
convolution.

    L = - 1/2 [ mean_t ln p(x_t | x_0 ... x_{t-1}) + mean_t ln p(x_t | x_{t+1} ... x_{T-1}) ]

Nearest relative: GPT (`gpt`), a language model in one direction only, with attention instead of recurrence. A task gets
GPT's last layer, but all layers of ELMo.
"""

from ptmbench.models.architectures import recurrent_encoders
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import BidirectionalModel
from ptmbench.models.layers.vector_heads import BiLmConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_1 = "Peters et al. (2018), table 1"

CARD = Card(
    title="ELMo",
    citation="Peters et al. (2018)",
    paper="Deep Contextualized Word Representations",
    url="https://arxiv.org/abs/1802.05365",
    year=2018,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("bilm",),
    loss="L_BiLM",
    tokenizer="character",
    corpus="1B Word Benchmark (about 800M tokens)",
    parameters="93.6M",
    reference="none to install: its equations, written out in NumPy",
    licence="Apache-2.0",
    reported=(
        Reported(task="conll2003", metric="f1", value=92.22, source=_TABLE_1),
        Reported(task="squad11", metric="f1", value=85.8, source=_TABLE_1),
        Reported(task="sst5", metric="accuracy", value=54.7, source=_TABLE_1),
    ),
)

# With this number of cells (``inner``), the layers have as many weights as the Transformer layers of the same size.
SIZES = {
    "tiny": Size(layers=2, width=128, inner=256, length=4096),
    "mini": Size(layers=2, width=256, inner=640, length=4096),
    "small": Size(layers=2, width=512, inner=1280, length=4096),
    "base": Size(layers=2, width=1024, inner=4096, length=4096),
}

LEARNING_RATE = 3e-3
"""With `tiny`, after 150 steps of 1024 tokens of wikitext-2 and novels, the loss is 6.59; with 1e-3 6.92."""


def describe(size: Size, vocabulary: Vocabulary) -> BidirectionalModel:
    """Returns the configuration of the network of ``size``."""
    network = recurrent_encoders.elmo(size, vocabulary.size)
    head = BiLmConfig(width=network.embeddings.width, vocabulary=vocabulary.size)
    return BidirectionalModel(encoder=network, head=head)


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.recurrent_networks import built
    from ptmbench.models.objectives import bilm, lm

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = bilm.BiLm.over(encoder, described.head)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lm.batches.of(vocabulary),
        log_likelihood=loss.log_likelihood,
    )
