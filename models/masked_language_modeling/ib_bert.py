"""IB-BERT: MobileBERT's teacher, a BERT whose layers are wider inside than between each other.

Sun, Yu, Song, Liu, Yang and Zhou (2020). MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices. ACL.
Taxonomy: contextual; Transformer encoder; MLM and NSP; no extension.

MobileBERT imitates its teacher layer by layer, so the vectors between the layers must have the same width in both.
BERT's are too wide for a phone, and a BERT as thin as MobileBERT is a poor teacher. The paper's solution is an inverted
bottleneck: a projection at the start of each layer doubles the width, attention and one feed-forward layer work as in
BERT, and a second projection restores the width. Token vectors are made of trigrams as in MobileBERT.

    L = L_MLM + L_NSP

Nearest relative: `mobilebert`, whose bottlenecks close.
"""

from dataclasses import replace

from ptmbench.models.architectures.bottleneck_encoder import bottleneck
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import ClassifierConfig, WidenedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="IB-BERT",
    citation="Sun et al. (2020)",
    paper="MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices",
    url="https://arxiv.org/abs/2004.02984",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "nsp"),
    loss="L_MLM + L_NSP",
    tokenizer="wordpiece",
    corpus="BooksCorpus and English Wikipedia",
    parameters="293M",
    layers="24",
    reference="the encoder of transformers' MobileBertForPreTraining with inverted bottlenecks",
    optimizer="LAMB",
    licence="Apache-2.0",
)


def wide(size: Size) -> Size:
    """Returns ``size`` with feed-forward layers four times as wide as the vectors inside the layers.

    The vectors inside the layers are twice as wide as ``size.width``.
    """
    return replace(size, inner=8 * size.width)


_BASE = Size(layers=24, width=512, heads=4, inner=4096)
"""The IB-BERT of the paper."""
SIZES = {"tiny": wide(TINY), "mini": wide(MINI), "small": wide(SMALL), "base": _BASE}

ADAM = {"epsilon": 1e-6}
"""The value for LAMB in the authors' code. The paper trains with LAMB (``optimizer=lamb``)."""


def inside(size: Size) -> int:
    """Returns the width inside the layers."""
    return 2 * size.width


def narrow(size: Size) -> int:
    """Returns the width of token vectors, as in a MobileBERT of the same width."""
    return size.width // 4


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    D, V, E = size.width, vocabulary.size, size.embedding or narrow(size)
    words = WidenedLmConfig(width=D, inner=D, embedding=E, vocabulary=V, absent=vocabulary.absent)
    opened = {"inside": inside(size), "reads": "wide", "feed_forwards": 1, "norm": "layer_norm", "activation": "gelu"}
    encoder = bottleneck(replace(size, embedding=E), V, **opened, pooler=True)
    return EncoderModel(encoder=encoder, heads=(words, ClassifierConfig(width=D)))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.bottleneck import built
    from ptmbench.models.objectives import _joint, mlm, nsp, sampling

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")

    def batches(corpus, batch, length):
        pairs = sampling.Pairs(corpus, vocabulary, length, nsp.RANDOM_SECOND)

        def make(step, seed):
            rows, rng = pairs(step, batch, seed)
            return mlm.noise(rows, rng, vocabulary)

        return make

    words, follows = described.heads
    heads = [mlm.WidenedLm(words, encoder), nsp.NextSentence(follows)]
    return Pretrainable(encoder=encoder, loss=_joint.Joint(encoder, heads), batches=Sampler(batches))
