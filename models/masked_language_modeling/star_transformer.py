"""The Star-Transformer: tokens attend to their neighbours and to a relay, which attends to all tokens.

Guo, Qiu, Liu, Shao, Xue and Zhang (2019). Star-Transformer. NAACL.
Taxonomy: contextual; Transformer encoder (sparse: a ring and a star); MLM here; no extension.

In a Transformer every word attends to every other. This costs T^2 scores and, because nothing favours near words, needs
much text. Here a word attends to its two neighbours on a ring, to itself and its own embedding, and to a relay; the
relay attends to all words. So any two words are two steps apart, and the cost is proportional to T. The survey lists it
as an architecture: the paper trains it on tasks from scratch. Here it is pre-trained by MLM on rows of full sentences,
so that it can be compared.

    L = L_MLM = - 1/|M| sum_{t in M} ln p(x_t | x with M hidden)

Nearest relative: RoBERTa (`roberta`), the same objective and rows with full attention. This model has no feed-forward
layers, so the layers of a size have two thirds of the weights of RoBERTa's.
"""

from ptmbench.models.architectures.star_encoder import star
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import MaskedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="Star-Transformer",
    citation="Guo et al. (2019)",
    paper="Star-Transformer",
    url="https://arxiv.org/abs/1902.09113",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm",),
    loss="L_MLM",
    tokenizer="word",
    corpus="none: the paper trains on each task by itself, over GloVe vectors",
    parameters="not printed",
    reference="none to install: its equations, term by term",
    reported=(Reported(task="sst5", metric="accuracy", value=52.9, source="Guo et al. (2019), results on SST"),),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    words = MaskedLmConfig(width=size.width, inner=size.width, vocabulary=vocabulary.size)
    return EncoderModel(encoder=star(size, vocabulary.size), heads=(words,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.star import built
    from ptmbench.models.objectives import _joint, mlm, sampling

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")

    def batches(corpus, batch, length):
        texts = sampling.FullSentences(corpus, vocabulary, length)

        def make(step, seed):
            rows, _ = texts(step, batch, seed)
            return mlm.noise(rows, sampling.generator(seed, step), vocabulary)

        return make

    loss = _joint.Joint(encoder, [mlm.MaskedLm(words, encoder) for words in described.heads])
    return Pretrainable(encoder=encoder, loss=loss, batches=Sampler(batches))
