"""ELMo that reads characters: the complete network of the paper.

Peters, Neumann, Iyyer, Gardner, Clark, Lee and Zettlemoyer (2018). Deep Contextualized Word Representations. NAACL.
Taxonomy: contextual; LSTM; BiLM; no extension.

Filters over one to seven characters make the vector of a word, so that rare words and endings are informative too.
Above them are the two language models of `elmo`, one for each direction. A task mixes the word vectors and both layers.
The output layer predicts words and has its own weights. Its softmax is over the whole vocabulary here, and sampled in
the paper. Words are the tokens of the vocabulary: a word piece is read as its characters, and `--tokenizer word`, which
is nearest to the paper, has one [UNK] for all words that it does not know.

    L = - 1/2 [ mean_t ln p(x_t | x_0 ... x_{t-1}) + mean_t ln p(x_t | x_{t+1} ... x_{T-1}) ]

Nearest relative: ELMo (`elmo`), which has a lookup table for tokens that is its output layer too. It is faster.
"""

from ptmbench.models.architectures import recurrent_encoders
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import BidirectionalModel
from ptmbench.models.layers.vector_heads import SpelledBiLmConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_1 = "Peters et al. (2018), table 1"

CARD = Card(
    title="ELMo (characters)",
    citation="Peters et al. (2018)",
    paper="Deep Contextualized Word Representations",
    url="https://arxiv.org/abs/1802.05365",
    year=2018,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("bilm",),
    loss="L_BiLM",
    tokenizer="word",
    corpus="1B Word Benchmark (about 800M tokens)",
    parameters="93.6M",
    reference="AllenNLP's _ElmoBiLm and ScalarMix; torch's LSTM with projection; losses, written out in NumPy",
    reported=(
        Reported(task="conll2003", metric="f1", value=92.22, source=_TABLE_1),
        Reported(task="squad11", metric="f1", value=85.8, source=_TABLE_1),
        Reported(task="sst5", metric="accuracy", value=54.7, source=_TABLE_1),
    ),
)

# The sizes of `elmo`. In addition there are the filters, 2048 at base as in the paper.
SIZES = {
    "tiny": Size(layers=2, width=128, inner=256, length=4096),
    "mini": Size(layers=2, width=256, inner=640, length=4096),
    "small": Size(layers=2, width=512, inner=1280, length=4096),
    "base": Size(layers=2, width=1024, inner=4096, length=4096),
}

LEARNING_RATE = 3e-3
"""As for ELMo (`elmo`)."""

_FILTERS = {1: 32, 2: 32, 3: 64, 4: 128, 5: 256, 6: 512, 7: 1024}
"""The number of filters of each width, for D = 1024."""


def describe(size: Size, vocabulary: Vocabulary) -> BidirectionalModel:
    """Returns the configuration of the network of ``size``."""
    filters = tuple((window, _filters(count, size)) for window, count in _FILTERS.items())
    network = recurrent_encoders.elmo_cnn(size, vocabulary, filters)
    head = SpelledBiLmConfig(width=network.embeddings.width, vocabulary=vocabulary.size)
    return BidirectionalModel(encoder=network, head=head)


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.recurrent_networks import built
    from ptmbench.models.objectives import bilm, lm

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = bilm.SpelledBiLm.over(encoder, described.head)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lm.batches.of(vocabulary),
        log_likelihood=loss.log_likelihood,
    )


def _filters(count: int, size: Size) -> int:
    """Scales ``count`` filters for D = 1024 to the width of ``size``."""
    return max(1, count * size.width // 1024)
