"""Skip-thought: the vector of a sentence has to predict the sentences before and after it.

Kiros, Zhu, Salakhutdinov, Zemel, Torralba, Urtasun and Fidler (2015). Skip-Thought Vectors. NIPS.
Taxonomy: contextual; GRU; neighbouring sentences; no extension.

Skip-gram with sentences instead of words. A recurrent network reads a sentence, and two others have to write the
sentences before and after it from its last state alone. No label is needed, only running text. The state keeps what
matters beyond the sentence. Afterwards the paper extends the vocabulary by a linear map from word2vec's vectors. This
is left out here, because every model has the same vocabulary.

    L = - mean over words of  ln p(w of the next sentence | h_i)  and  ln p(w of the previous sentence | h_i)

Nearest relative: SA-LSTM (`sa_lstm`), which writes the sentence itself.
"""

from ptmbench.models.architectures import recurrent_decoders
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.vector_heads import SkipThoughtConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="Skip-thought",
    citation="Kiros et al. (2015)",
    paper="Skip-Thought Vectors",
    url="https://arxiv.org/abs/1506.06726",
    year=2015,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("skip_thought",),
    loss="L_skip, without the paper's vocabulary expansion",
    tokenizer="word",
    corpus="BookCorpus (74 million sentences)",
    parameters="2400 units, 620 per word; vocabulary of 20,000",
    reference="none to install: its equations, written out in NumPy",
    reported=(
        Reported(
            task="trec",
            metric="accuracy",
            value=92.2,
            source="Kiros et al. (2015), section 3.5, combine-skip (this reader and one in both directions)",
        ),
    ),
)

# One layer; word vectors are as wide as the state.
SIZES = {
    "tiny": Size(layers=1, width=128, length=4096),
    "mini": Size(layers=1, width=256, length=4096),
    "small": Size(layers=1, width=512, length=4096),
    "base": Size(layers=1, width=2400, length=4096),
}

LEARNING_RATE = 3e-3
"""As for ELMo (`elmo`)."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    head = SkipThoughtConfig(width=size.width, words=vocabulary.size, cls=vocabulary.cls)
    return EncoderModel(encoder=recurrent_decoders.gru(size, vocabulary), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.recurrent_networks import built
    from ptmbench.models.objectives import skip_thought

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = skip_thought.SkipThought.over(encoder, described.heads[0])
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=skip_thought.batches.of(vocabulary),
    )
