"""MobileBERT: a deep and thin BERT whose layers are a quarter as wide inside as between each other.

Sun, Yu, Song, Liu, Yang and Zhou (2020). MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices. ACL.
Taxonomy: contextual; Transformer encoder; MLM and NSP; distillation, which `mobilebert_pkt` adds.

A phone has little memory and slow arithmetic. MobileBERT keeps the 24 layers of BERT-large but narrows them: one
projection, a bottleneck, leads into each layer and another out of it. That would leave attention with too large a share
of the parameters, so each layer has four feed-forward networks in a row. Norms compute no statistics, ReLU replaces
GELU, and the input is made from narrow vectors of a token and its two neighbours.

    L = L_MLM + L_NSP        norm(x) = scale * x + bias

This model is the network alone, trained from random weights with BERT's losses: its scores measure the architecture.
`mobilebert_pkt` trains it as the paper does, with an inverted-bottleneck BERT (`ib_bert`) as the teacher.

Nearest relative: BERT (`bert`), with wide layers, layer-norm and the same losses.
"""

from dataclasses import replace

from ptmbench.models.architectures.bottleneck_encoder import bottleneck
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import ClassifierConfig, WidenedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_ABSTRACT = "Sun et al. (2020), abstract"

CARD = Card(
    title="MobileBERT",
    citation="Sun et al. (2020)",
    paper="MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices",
    url="https://arxiv.org/abs/2004.02984",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "nsp"),
    extensions=("distillation",),
    loss="L_MLM + L_NSP (the paper adds feature map transfer, attention transfer and distillation)",
    tokenizer="wordpiece",
    corpus="BooksCorpus and English Wikipedia",
    parameters="25.3M",
    layers="24",
    speed_up="4.0 times BERT-large's (Qiu et al., 2020, table 3)",
    source_model="BERT-large",
    reference="transformers' MobileBertForPreTraining",
    optimizer="LAMB",
    licence="Apache-2.0",
    reported=(
        Reported(task="glue", metric="average", value=79.7, source="Qiu et al. (2020), table 3"),
        Reported(task="glue", metric="average", value=77.7, source=_ABSTRACT),
        Reported(task="squad11", metric="f1", value=90.0, split="dev", source=_ABSTRACT),
        Reported(task="squad20", metric="f1", value=79.2, split="dev", source=_ABSTRACT),
    ),
)


def thin_size(size: Size) -> Size:
    """Returns ``size`` with feed-forward layers as wide as the vectors between layers, as the authors configure it."""
    return replace(size, inner=size.width)


_BASE = Size(layers=24, width=512, heads=4, inner=512)
"""The MobileBERT of the paper."""
SIZES = {"tiny": thin_size(TINY), "mini": thin_size(MINI), "small": thin_size(SMALL), "base": _BASE}

ADAM = {"epsilon": 1e-6}
"""The value for LAMB in the authors' code. The paper trains with LAMB (``optimizer=lamb``)."""


def narrow(size: Size) -> int:
    """Returns the width inside the layers and of token vectors: a quarter of ``size.width``, 128 in the paper."""
    return size.width // 4


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    C, D, V = narrow(size), size.width, vocabulary.size
    E = size.embedding or C
    words = WidenedLmConfig(width=D, inner=D, embedding=E, vocabulary=V, activation="relu", absent=vocabulary.absent)
    encoder = bottleneck(replace(size, embedding=E), V, inside=C)
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
