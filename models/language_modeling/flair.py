"""Flair: the vector of a word is what a character language model thinks at its ends.

Akbik, Blythe and Vollgraf (2018). Contextual String Embeddings for Sequence Labeling. COLING.
Taxonomy: contextual; LSTM; BiLM over characters; no extension.

Nothing here knows of words while it learns: two language models read lines character by character, one in each
direction. Afterwards a word's vector is the forward state behind its last character and the backward state before its
first, so that it tells of spelling and of both sides at once, and there are no unknown words. That needs `--tokenizer
character`, and rows long enough for characters (`--set length=512`); with another tokenizer it is the same network over
pieces. Two things differ: a character's vector is as wide as the state, so that one table serves both directions and
is their output layer too; and the word vectors that the paper's best tagger adds come with `--adaptation stacked`.

    L = - 1/2 [ mean_t ln p(x_t | x_0 ... x_{t-1}) + mean_t ln p(x_t | x_{t+1} ... x_{T-1}) ]        x characters

Nearest relative: ELMo (`elmo`), where the same two models read words.
"""

from ptmbench.models.architectures import recurrent_encoders
from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.costs import BidirectionalModel
from ptmbench.models.layers.vector_heads import BiLmConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="Flair",
    citation="Akbik et al. (2018)",
    paper="Contextual String Embeddings for Sequence Labeling",
    url="https://aclanthology.org/C18-1139/",
    year=2018,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("bilm",),
    loss="L_BiLM",
    tokenizer="character",
    corpus="1B Word Benchmark",
    parameters="1 layer of 2048 cells in each direction",
    reference="flair's LanguageModel and FlairEmbeddings; its equations, written out in NumPy",
    optimizer="SGD",
)

# One layer, as in the paper, whose 2048 cells a direction are the base size; the others weigh what the Transformer
# layers of the same size's name do.
SIZES = {
    "tiny": Size(layers=1, width=320, length=4096),
    "mini": Size(layers=1, width=896, length=4096),
    "small": Size(layers=1, width=1792, length=4096),
    "base": Size(layers=1, width=4096, length=4096),
}

LEARNING_RATE = 3e-3
"""As for ELMo (`elmo`)."""


def describe(size: Size, vocabulary: Vocabulary) -> BidirectionalModel:
    """What the network of ``size`` is made of."""
    network = recurrent_encoders.flair(size, vocabulary)
    head = BiLmConfig(width=network.embeddings.width, vocabulary=vocabulary.size)
    return BidirectionalModel(encoder=network, head=head)


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
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
