"""IB-BERT: a BERT whose layers are wider inside than between each other, MobileBERT's teacher.

Sun, Yu, Song, Liu, Yang and Zhou (2020). MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices. ACL.
Taxonomy: contextual; Transformer encoder; MLM and NSP; no extension.

MobileBERT imitates its teacher layer by layer, so the vectors between the layers have to be as wide in both. BERT's are
too wide for a phone, and a BERT as thin as MobileBERT teaches little. The paper's way out: bottlenecks that open. A
product in each layer doubles the width, attention and one feed-forward layer work there as in BERT, and a second
product comes back. Token vectors are made of trigrams as in MobileBERT.

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
    """``size`` with feed-forward layers four times as wide as the vectors inside of the layers, which are twice as wide
    as ``size.width``."""
    return replace(size, inner=8 * size.width)


_BASE = Size(layers=24, width=512, heads=4, inner=4096)
"""IB-BERT of the paper."""
SIZES = {"tiny": wide(TINY), "mini": wide(MINI), "small": wide(SMALL), "base": _BASE}

ADAM = {"epsilon": 1e-6}
"""That of LAMB in the authors' code; the paper trains by LAMB (``optimizer=lamb``)."""


def inside(size: Size) -> int:
    """The width inside of the layers."""
    return 2 * size.width


def narrow(size: Size) -> int:
    """The width of token vectors: that of MobileBERT's of the same width."""
    return size.width // 4


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """What the network of ``size`` is made of."""
    D, V, E = size.width, vocabulary.size, size.embedding or narrow(size)
    words = WidenedLmConfig(width=D, inner=D, embedding=E, vocabulary=V, absent=vocabulary.absent)
    opened = {"inside": inside(size), "reads": "wide", "feed_forwards": 1, "norm": "layer_norm", "activation": "gelu"}
    encoder = bottleneck(replace(size, embedding=E), V, **opened, pooler=True)
    return EncoderModel(encoder=encoder, heads=(words, ClassifierConfig(width=D)))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
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
