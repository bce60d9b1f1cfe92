"""Context2Vec: a vector for the sentence around a word, in the same space as the words.

Melamud, Goldberger and Dagan (2016). context2vec: Learning Generic Context Embedding with Bidirectional LSTM. CoNLL.
Taxonomy: contextual; LSTM; word from its sentence by negative sampling; no extension.

CBOW with a better bag: one LSTM reads the words before a word, another reads the words after it in reverse, and a small
network makes one vector of the two. This vector has to be near the vector of the missing word and far from random
words. So contexts can be compared with words, and with each other.

    L = - ln s(u_x . c) - k E_{n ~ p} ln s(- u_n . c),        c = MLP([forward up to the word; backward up to the word])

Nearest relative: ELMo (`elmo`), which trains the same network as two language models, each of which sees one side only.
Here both directions share the word vectors, and a layer has a projection.
"""

from ptmbench.models.architectures import recurrent_encoders
from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.vector_heads import Context2VecConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="Context2Vec",
    citation="Melamud et al. (2016)",
    paper="context2vec: Learning Generic Context Embedding with Bidirectional LSTM",
    url="https://aclanthology.org/K16-1006/",
    year=2016,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("context2vec",),
    loss="L_c2v",
    tokenizer="word",
    corpus="ukWaC (two billion words)",
    parameters="300 per word, 600 per context",
    reference="none to install: its equations, written out in NumPy",
)

# One layer of cells (``inner``), as in the paper.
SIZES = {
    "tiny": Size(layers=1, width=128, inner=512, length=4096),
    "mini": Size(layers=1, width=256, inner=1280, length=4096),
    "small": Size(layers=1, width=512, inner=2560, length=4096),
    "base": Size(layers=1, width=1024, inner=8192, length=4096),
}


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    head = Context2VecConfig(width=size.width, words=vocabulary.size)
    return EncoderModel(encoder=recurrent_encoders.elmo(size, vocabulary.size), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.recurrent_networks import built
    from ptmbench.models.objectives import context2vec

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = context2vec.Context2Vec.over(encoder, described.heads[0])
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=context2vec.batches.of(vocabulary),
    )
