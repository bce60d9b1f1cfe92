"""MobileBERT as its paper trains it: by progressive knowledge transfer from IB-BERT.

Sun, Yu, Song, Liu, Yang and Zhou (2020). MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices. ACL.
Taxonomy: contextual; Transformer encoder; MLM, NSP, and what a teacher computes; distillation.

A deep and thin network is hard to train. So each layer of MobileBERT, from the lowest one up, first learns to imitate
the same layer of IB-BERT: its output vectors and its attention. The vectors between layers are equally wide in both
networks, so no projection is needed. Then the whole network learns hidden words and next sentences; half of the loss of
hidden words comes from IB-BERT's predictions. MobileBERT starts with IB-BERT's embeddings and its MLM head.

    L = transfer_l in the phase of layer l        L = 1/2 L_MLM + 1/2 KL(p' || p) + L_NSP in the end

Nearest relative: `mobilebert`, the same network from random weights and without a teacher.
"""

from dataclasses import replace

from ptmbench.models.architectures.bottleneck_encoder import bottleneck
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size, Teacher
from ptmbench.models.costs import EncoderModel, StudentModel
from ptmbench.models.layers.heads import ClassifierConfig, WidenedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_ABSTRACT = "Sun et al. (2020), abstract"

CARD = Card(
    title="MobileBERT (taught)",
    citation="Sun et al. (2020)",
    paper="MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices",
    url="https://arxiv.org/abs/2004.02984",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "nsp", "progressive_transfer"),
    extensions=("distillation",),
    loss="L_FMT + L_AT of each layer, then L_MLM + L_KD + L_NSP",
    tokenizer="wordpiece",
    corpus="BooksCorpus and English Wikipedia",
    parameters="25.3M",
    layers="24",
    speed_up="4.0 times BERT-large's (Qiu et al., 2020, table 3)",
    source_model="BERT-large",
    reference="transformers' MobileBertForPreTraining, the authors' losses with torch",
    optimizer="LAMB",
    licence="Apache-2.0",
    reported=(
        Reported(task="glue", metric="average", value=77.7, source=_ABSTRACT),
        Reported(task="squad11", metric="f1", value=90.0, split="dev", source=_ABSTRACT),
        Reported(task="squad20", metric="f1", value=79.2, split="dev", source=_ABSTRACT),
    ),
)


def thin_size(size: Size) -> Size:
    """Returns ``size`` with feed-forward layers as wide as the vectors between layers, as the authors configure it."""
    return replace(size, inner=size.width)


def teacher_size(size: Size) -> Size:
    """Returns the size of the teacher of a student of ``size``."""
    return replace(size, inner=8 * size.width)


_BASE = Size(layers=24, width=512, heads=4, inner=512)
"""The MobileBERT of the paper."""
SIZES = {"tiny": thin_size(TINY), "mini": thin_size(MINI), "small": thin_size(SMALL), "base": _BASE}

TEACHER = Teacher(model="ib_bert", size=teacher_size, parts=("encoder/embeddings/", "encoder/stack/", "mlm/"))

ADAM = {"epsilon": 1e-6}
"""The value for LAMB in the authors' code. The paper trains with LAMB (``optimizer=lamb``)."""


def narrow(size: Size) -> int:
    """Returns the width inside the layers and of token vectors."""
    return size.width // 4


def wide(size: Size) -> int:
    """Returns the width inside the teacher's layers."""
    return 2 * size.width


def describe(size: Size, vocabulary: Vocabulary) -> StudentModel:
    """Returns the configurations of the network of ``size`` and its teacher."""
    D, V, E = size.width, vocabulary.size, size.embedding or narrow(size)
    given = {"width": D, "inner": D, "embedding": E, "vocabulary": V, "absent": vocabulary.absent}
    theirs = {"inside": wide(size), "reads": "wide", "feed_forwards": 1, "norm": "layer_norm", "activation": "gelu"}
    teacher = bottleneck(replace(teacher_size(size), embedding=E), V, **theirs)
    return StudentModel(
        encoder=bottleneck(replace(size, embedding=E), V, inside=narrow(size)),
        heads=(WidenedLmConfig(**given, activation="relu"), ClassifierConfig(width=D)),
        teacher=EncoderModel(encoder=teacher, heads=(WidenedLmConfig(**given),)),
    )


def build(size: Size, vocabulary: Vocabulary, teacher: Pretrainable | None = None) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.bottleneck import built
    from ptmbench.models.objectives import mlm, nsp, progressive_transfer, sampling

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")

    def batches(corpus, batch, length):
        pairs = sampling.Pairs(corpus, vocabulary, length, nsp.RANDOM_SECOND)

        def make(step, seed):
            rows, rng = pairs(step, batch, seed)
            return mlm.noise(rows, rng, vocabulary)

        return make

    words, follows = described.heads
    heads = (mlm.WidenedLm(words, encoder), nsp.NextSentence(follows))
    loss = progressive_transfer.ProgressiveTransfer(encoder, heads, teacher)
    return Pretrainable(encoder=encoder, loss=loss, batches=Sampler(batches, scheduled=True))
