"""MiniLM: a BERT of any depth and width that learns the last attention of a BERT.

Wang, Wei, Dong, Bao, Yang and Zhou (2020). MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of
Pre-Trained Transformers. NeurIPS.
Taxonomy: contextual; Transformer encoder; attention and value relations of a teacher; distillation.

The attention of a Transformer shows much of its knowledge. MiniLM learns the attention of its teacher's last layer, and
the similarities of the values there, which show which tokens that layer treats alike. Both are distributions over
tokens, so the student may have fewer and narrower layers, and need not imitate the teacher layer by layer. It has half
of BERT's layers and width, as many heads, and begins with random weights. It hides no words: it reads plain text.

    L = L_AT + L_VR        L_AT = 1 / (h |x|) sum_{a, t} KL(A'_a,t || A_a,t)
    L_VR = 1 / (h |x|) sum_{a, t} KL(R'_a,t || R_a,t)        R_a = softmax(V_a V_a^T / sqrt(d))

Nearest relative: TinyBERT (`tinybert`), which imitates the hidden states and the attention of every layer.
"""

from dataclasses import replace

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size, Teacher
from ptmbench.models.costs import EncoderModel, StudentModel
from ptmbench.models.layers.heads import RelationsConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="MiniLM",
    citation="Wang et al. (2020)",
    paper="MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained Transformers",
    url="https://arxiv.org/abs/2002.10957",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("relation_distillation",),
    extensions=("distillation",),
    loss="L_AT + L_VR",
    tokenizer="wordpiece",
    corpus="BooksCorpus and English Wikipedia",
    parameters="66M",
    layers="6",
    speed_up="1.99 times BERT-base's (Qiu et al., 2020, table 3)",
    source_model="BERT-base",
    reference="transformers' BertForMaskedLM, the paper's equations with torch",
    licence="MIT",
    reported=(Reported(task="glue", metric="average", value=81.0, source="Qiu et al. (2020), table 3"),),
)


def halved(size: Size) -> Size:
    """Returns a teacher's ``size`` with half of the layers and the width."""
    return replace(size, layers=size.layers // 2, width=size.width // 2, inner=size.inner // 2)


def doubled(size: Size) -> Size:
    """Returns the size of the teacher of a student of ``size``."""
    return replace(size, layers=2 * size.layers, width=2 * size.width, inner=2 * size.inner)


_BASE = Size(layers=12, width=768, heads=12, inner=3072)
SIZES = {"tiny": halved(TINY), "mini": halved(MINI), "small": halved(SMALL), "base": halved(_BASE)}

TEACHER = Teacher(model="bert", size=doubled, parts=("encoder/embeddings/", "encoder/stack/"))


def describe(size: Size, vocabulary: Vocabulary) -> StudentModel:
    """Returns the configurations of the network of ``size`` and its teacher."""
    theirs, V = doubled(size), vocabulary.size
    ours, others = (RelationsConfig(width=one.width, inner=one.inner) for one in (size, theirs))
    teacher = EncoderModel(encoder=bert(theirs, V, pooler=False), heads=(others,))
    return StudentModel(encoder=bert(size, V, pooler=False), heads=(ours,), teacher=teacher)


def build(size: Size, vocabulary: Vocabulary, teacher: Pretrainable | None = None) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import layer_distillation, relation_distillation

    encoder = built(describe(size, vocabulary).encoder, name="encoder")
    loss = relation_distillation.RelationDistillation(encoder, teacher)
    return Pretrainable(encoder=encoder, loss=loss, batches=layer_distillation.batches.of(vocabulary))
