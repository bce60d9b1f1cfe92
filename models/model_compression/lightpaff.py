"""LightPAFF: a small BERT that learns from the text and from a BERT, in pre-training and in fine-tuning.

Song, Sun, Tan, Qin, Lu, Liu and Liu (2020). LightPAFF: A Two-Stage Distillation Framework for Pre-training and
Fine-tuning. arXiv:2004.12817.
Taxonomy: contextual; Transformer encoder; MLM and soft targets; distillation.

A student that learns only from a fine-tuned teacher lacks the teacher's pre-training. LightPAFF distils in both stages,
with one kind of loss: for the hidden words or gold answers, and for the teacher's probabilities of them. This file is
the first stage; the second is the adaptation `distil`, at temperature 1. The student is a BERT of half the depth, width
and heads, begins with random weights, and imitates neither vectors nor attention.

    L = (1 - lambda) L_MLM + lambda L_KD        L_KD = 1/|M| sum_{t in M} KL(teacher || student)        lambda = 1/2

Nearest relative: DistilBERT (`distilbert`). It has soft targets at all places with a temperature, the cosine of the
last vectors in its loss, and the teacher's width. It hides rare words more often, and begins with the teacher's
weights.
"""

from dataclasses import replace

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Representation, Size, Teacher
from ptmbench.models.costs import EncoderModel, StudentModel
from ptmbench.models.layers.heads import MaskedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="LightPAFF",
    citation="Song et al. (2020)",
    paper="LightPAFF: A Two-Stage Distillation Framework for Pre-training and Fine-tuning",
    url="https://arxiv.org/abs/2004.12817",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "masked_distillation"),
    extensions=("distillation",),
    loss="(1 - lambda) L_MLM + lambda L_KD",
    tokenizer="wordpiece",
    corpus="BooksCorpus and English Wikipedia",
    parameters="nearly 5 times fewer than BERT's",
    speed_up="5 to 7 times (Song et al., 2020, abstract)",
    source_model="BERT",
    reference="its equations in NumPy",
)


def halved(size: Size) -> Size:
    """Returns a teacher's ``size`` with half of the layers, the width and the heads."""
    return replace(size, layers=size.layers // 2, width=size.width // 2, heads=size.heads // 2, inner=size.inner // 2)


def doubled(size: Size) -> Size:
    """Returns the size of the teacher of a student of ``size``."""
    return replace(size, layers=2 * size.layers, width=2 * size.width, heads=2 * size.heads, inner=2 * size.inner)


_BASE = Size(layers=12, width=768, heads=12, inner=3072)
SIZES = {"tiny": halved(TINY), "mini": halved(MINI), "small": halved(SMALL), "base": halved(_BASE)}

TEACHER = Teacher(model="bert", size=doubled, parts=("encoder/embeddings/", "encoder/stack/", "mlm/"))


def describe(size: Size, vocabulary: Vocabulary) -> StudentModel:
    """Returns the configurations of the network of ``size`` and its teacher. Both predict the hidden words."""
    theirs, V = doubled(size), vocabulary.size
    ours, others = (
        MaskedLmConfig(width=one.width, inner=one.width, vocabulary=V, absent=vocabulary.absent)
        for one in (size, theirs)
    )
    teacher = EncoderModel(encoder=bert(theirs, V, pooler=False), heads=(others,))
    return StudentModel(encoder=bert(size, V, pooler=False), heads=(ours,), teacher=teacher)


def build(size: Size, vocabulary: Vocabulary, teacher: Pretrainable | None = None) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import masked_distillation, mlm, sampling

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")

    def batches(corpus, batch, length):
        texts = sampling.FullSentences(corpus, vocabulary, length)

        def make(step, seed):
            rows, _ = texts(step, batch, seed)
            return mlm.noise(rows, sampling.generator(seed, step), vocabulary)

        return make

    head = mlm.MaskedLm(described.heads[0], encoder)
    loss = masked_distillation.MaskedDistillation(encoder, head, teacher)
    return Pretrainable(encoder=encoder, loss=loss, batches=Sampler(batches))
