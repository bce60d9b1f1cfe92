"""TinyBERT: a small BERT that learns every layer of a BERT; here its first stage, general distillation.

Jiao, Yin, Shang, Jiang, Chen, Li, Wang and Liu (2020). TinyBERT: Distilling BERT for Natural Language Understanding.
Findings of EMNLP.
Taxonomy: contextual; Transformer encoder; hidden states and attention of a teacher; distillation.

Each layer of the student imitates one layer of the teacher: its hidden states through a learned projection, and its
attention scores directly. General distillation does this on plain text with a pre-trained BERT as teacher, and predicts
no words. Task distillation is the adaptation `tinybert`: the same on a task's texts with a fine-tuned teacher, and then
its predictions. The student has as many heads as the teacher, but fewer and narrower layers.

    L = sum_{m=0}^{M} MSE(H_m W + b, H'_g(m)) + sum_{m=1}^{M} MSE(A_m, A'_g(m))        g(m) = m N / M

Nearest relative: MiniLM (`minilm`), which imitates only the last attention.
"""

from dataclasses import replace

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size, Teacher
from ptmbench.models.costs import EncoderModel, StudentModel
from ptmbench.models.layers.heads import FitConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="TinyBERT",
    citation="Jiao et al. (2020)",
    paper="TinyBERT: Distilling BERT for Natural Language Understanding",
    url="https://arxiv.org/abs/1909.10351",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("layer_distillation",),
    extensions=("distillation",),
    loss="MSE of embeddings, hidden states and attention scores",
    tokenizer="wordpiece",
    corpus="English Wikipedia",
    parameters="14.5M",
    layers="4",
    speed_up="9.4 times BERT-base's (Qiu et al., 2020, table 3)",
    source_model="BERT-base",
    reference="transformers' BertForMaskedLM, the authors' equations with torch",
    licence="Apache-2.0",
    reported=(Reported(task="glue", metric="average", value=76.5, source="Qiu et al. (2020), table 3"),),
)


def halved(size: Size) -> Size:
    """Returns a teacher's ``size`` with half of the layers and the width."""
    return replace(size, layers=size.layers // 2, width=size.width // 2, inner=size.inner // 2)


_BASE = Size(layers=4, width=312, heads=12, inner=1200)
"""The TinyBERT 4 of the paper."""
SIZES = {"tiny": halved(TINY), "mini": halved(MINI), "small": halved(SMALL), "base": _BASE}


def taught_by(size: Size) -> Size:
    """Returns the size of the teacher of a student of ``size``: twice the layers and width, but BERT-base for
    TinyBERT 4."""
    if (size.layers, size.width) == (_BASE.layers, _BASE.width):
        return replace(size, layers=12, width=768, inner=3072)
    return replace(size, layers=2 * size.layers, width=2 * size.width, inner=2 * size.inner)


TEACHER = Teacher(model="bert", size=taught_by, parts=("encoder/embeddings/", "encoder/stack/"))


def describe(size: Size, vocabulary: Vocabulary) -> StudentModel:
    """Returns the configurations of the network of ``size`` and its teacher."""
    theirs, V = taught_by(size), vocabulary.size
    teacher = EncoderModel(encoder=bert(theirs, V, pooler=False), heads=())
    fit = FitConfig(width=size.width, outputs=theirs.width, layers=size.layers)
    return StudentModel(encoder=bert(size, V, pooler=False), heads=(fit,), teacher=teacher)


def build(size: Size, vocabulary: Vocabulary, teacher: Pretrainable | None = None) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import layer_distillation

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = layer_distillation.LayerDistillation(encoder, described.heads[0], teacher)
    return Pretrainable(encoder=encoder, loss=loss, batches=layer_distillation.batches.of(vocabulary))
