"""DualTrain: a narrow BERT with a smaller vocabulary than its teacher, whose projected weights it stays close to.

Zhao, Gupta, Song and Zhou (2019). Extreme Language Model Compression with Optimal Subwords and Shared Projections.
arXiv:1909.11687v1. (The second version of 2021, "Extremely Small BERT Models from Mixed-Vocabulary Training", is
another method.)
Taxonomy: contextual; Transformer encoder; MLM of student and teacher and projected weights; distillation.

Token vectors are a large part of a small BERT. A student with fewer pieces cannot imitate the predictions of a teacher
with more. So the teacher learns the student's pieces: some of the words that it reads and predicts are cut by the
student's vocabulary. Projections, which all layers share, map the teacher's weights to the student's shapes, and the
distance of the two is a part of the loss. The student has the teacher's depth, and is fine-tuned alone.

    L = L_MLM(student) + L_MLM(teacher) + epsilon sum_theta || U theta_t V - theta_s ||^2

Nearest relative: TinyBERT (`tinybert`), which imitates what the teacher computes, and has its vocabulary.
"""

from dataclasses import replace

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Representation, Size, Teacher
from ptmbench.models.costs import EncoderModel, StudentModel
from ptmbench.models.layers.heads import MaskedLmConfig
from ptmbench.models.layers.projections_config import ProjectionsConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.mixed_words import Union
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="DualTrain",
    citation="Zhao et al. (2019)",
    paper="Extreme Language Model Compression with Optimal Subwords and Shared Projections",
    url="https://arxiv.org/abs/1909.11687",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "dual_training"),
    extensions=("distillation",),
    loss="L_MLM of student and teacher + epsilon ||U theta_t V - theta_s||^2",
    tokenizer="wordpiece",
    corpus="that of BERT",
    parameters="1.8M to 19.2M (Qiu et al., 2020, table 3)",
    source_model="BERT-base",
    reference="its equations in NumPy",
)
UP = False
"""Whether the student's weights are projected to the teacher's shapes, and not the teacher's to the student's."""
_FEWER, _LEAST = 6, 256


def smaller(size: int) -> int:
    """Returns the size of the student's vocabulary for a teacher's of ``size``: a sixth, as 4,928 of 30,522, but at
    least 256, because a vocabulary has all letters."""
    return min(size, max(size // _FEWER, _LEAST))


def narrowed(size: Size) -> Size:
    """Returns a teacher's ``size`` with half of the width, and as many layers and heads."""
    return replace(size, width=size.width // 2, inner=size.inner // 2)


_BASE = Size(layers=12, width=192, heads=12, inner=768)
"""With 4,928 pieces it has 6.4M weights; the students in the survey's table 3 have 1.8M to 19.2M."""
SIZES = {"tiny": narrowed(TINY), "mini": narrowed(MINI), "small": narrowed(SMALL), "base": _BASE}


def taught_by(size: Size) -> Size:
    """Returns the size of the teacher of a student of ``size``: twice its width, but BERT-base for the base student."""
    if (size.layers, size.width) == (_BASE.layers, _BASE.width):
        return replace(size, width=768, inner=3072)
    return replace(size, width=2 * size.width, inner=2 * size.inner)


TEACHER = Teacher(
    model="bert", size=taught_by, parts=("encoder/embeddings/", "encoder/stack/", "mlm/"), vocabulary=smaller
)


def _projections(size: Size) -> ProjectionsConfig:
    theirs, ours = (taught_by(size).width, taught_by(size).inner), (size.width, size.inner)
    return ProjectionsConfig(source=ours if UP else theirs, target=theirs if UP else ours)


def _network(size: Size, vocabulary: int, absent: tuple[int, ...] = ()) -> tuple:
    """Returns the configurations of an encoder of ``size`` and its MLM head."""
    head = MaskedLmConfig(width=size.width, inner=size.width, vocabulary=vocabulary, absent=absent)
    return bert(size, vocabulary, pooler=False), head


def describe(size: Size, vocabulary: Vocabulary) -> StudentModel:
    """Returns the configurations of the network and its teacher. ``vocabulary`` is the teacher's too if it has none."""
    union = Union(vocabulary.teacher or vocabulary, vocabulary)
    encoder, head = _network(size, vocabulary.size, vocabulary.absent)
    theirs, others = _network(taught_by(size), union.size, union.teacher.absent)
    return StudentModel(
        encoder=encoder,
        heads=(head,),
        teacher=EncoderModel(encoder=theirs, heads=(others,)),
        co_trained=True,
        weight_flops=_projections(size).weight_flops(encoder),
    )


def build(size: Size, vocabulary: Vocabulary, teacher: Pretrainable | None = None) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import dual_training, mlm

    described, union = describe(size, vocabulary), Union(vocabulary.teacher or vocabulary, vocabulary)
    encoder = built(described.encoder, name="encoder")
    head = mlm.MaskedLm(described.heads[0], encoder)
    taught = None
    if teacher is not None:
        mixed = built(described.teacher.encoder, name="teacher")
        other = mlm.MaskedLm(described.teacher.heads[0], mixed, name="teacher_mlm")
        other.build()
        dual_training.copy_teacher_weights(mixed, other, union, teacher)
        taught = (mixed, other, built(_projections(size), name="projections"))
    loss = dual_training.DualTraining(encoder, head, union, taught, up=UP)
    return Pretrainable(encoder=encoder, loss=loss, batches=dual_training.batches.of(vocabulary))
