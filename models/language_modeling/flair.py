"""Flair: the vector of a word is the state of two character language models at its ends.

Akbik, Blythe and Vollgraf (2018). Contextual String Embeddings for Sequence Labeling. COLING.
Taxonomy: contextual; LSTM; BiLM over characters; no extension.

Pre-training does not use words: two language models read lines character by character, one in each direction.
Afterwards a word's vector is the forward state after its last character and the backward state before its first. It
depends on spelling and on both sides, and there are no unknown words. This needs `--tokenizer character`, and rows long
enough for characters (`--set length=512`). With another tokenizer, the same network reads pieces. Two things differ
from the paper. A character's vector is as wide as the state, so that one table serves both directions and is their
output layer too. The word vectors that the paper's best tagger adds come with `--adaptation stacked`.

    L = - 1/2 [ mean_t ln p(x_t | x_0 ... x_{t-1}) + mean_t ln p(x_t | x_{t+1} ... x_{T-1}) ]        x characters

Nearest relative: ELMo (`elmo`), in which the same two models read words.
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

# One layer, as in the paper, whose 2048 cells for each direction are the base size. The layers of the other sizes have
# as many weights as the Transformer layers of the same size.
SIZES = {
    "tiny": Size(layers=1, width=320, length=4096),
    "mini": Size(layers=1, width=896, length=4096),
    "small": Size(layers=1, width=1792, length=4096),
    "base": Size(layers=1, width=4096, length=4096),
}

LEARNING_RATE = 3e-3
"""As for ELMo (`elmo`)."""


def describe(size: Size, vocabulary: Vocabulary) -> BidirectionalModel:
    """Returns the configuration of the network of ``size``."""
    network = recurrent_encoders.flair(size, vocabulary)
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
