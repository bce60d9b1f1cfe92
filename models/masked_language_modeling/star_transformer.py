"""The Star-Transformer: neighbours talk to each other, and all of them to one relay.

Guo, Qiu, Liu, Shao, Xue and Zhang (2019). Star-Transformer. NAACL.
Taxonomy: contextual; Transformer encoder (sparse: a ring and a star); MLM here; no extension.

In a Transformer every word looks at every other, which takes T^2 looks and, for want of any notion of nearness, much
text to learn from. Here a word looks at its two neighbours on a ring, at itself and its own embedding, and at a relay;
the relay looks at all words. So any two are two steps apart, and the cost grows with T. The survey lists it as an
architecture: the paper trains it on tasks from scratch. Here it is pre-trained by MLM on rows of full sentences, so
that it can be compared.

    L = L_MLM = - 1/|M| sum_{t in M} ln p(x_t | x with M hidden)

Nearest relative: RoBERTa (`roberta`), the same objective and rows over layers in which all words see each
other, with feed-forward layers, which this has not: the layers of a size weigh two thirds of RoBERTa's.
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
    """What the network of ``size`` is made of."""
    words = MaskedLmConfig(width=size.width, inner=size.width, vocabulary=vocabulary.size)
    return EncoderModel(encoder=star(size, vocabulary.size), heads=(words,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
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
