"""DistilBERT: a BERT of half the depth that learns the predictions of a BERT.

Sanh, Debut, Chaumond and Wolf (2019). DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter.
NeurIPS workshop on Energy Efficient Machine Learning and Cognitive Computing.
Taxonomy: contextual; Transformer encoder; MLM and soft targets; distillation.

In a gap after "a beautiful", BERT finds "day" and "life" likely and "stone" unlikely: its probabilities have more
information than the one word of the text. DistilBERT learns them from a pre-trained BERT, together with the hidden
words and the direction of BERT's last vectors. It has every second layer of that BERT, begins with the weights of
these, and has neither segments nor a pooler.

    L = 5 L_soft + 2 L_MLM + L_cos
    L_soft = t^2 KL(teacher || student) of probabilities at temperature t = 2        L_cos = 1 - cos(g, h)

Nearest relative: BERT (`bert`), its teacher, with twice the layers, and with NSP instead of a teacher.
"""

from dataclasses import replace

from ptmbench.models.architectures.encoders import bert, distilbert
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size, Teacher
from ptmbench.models.costs import EncoderModel, StudentModel
from ptmbench.models.layers.heads import MaskedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_SURVEY = "Qiu et al. (2020), table 3"
_CODE = "Sanh et al. (2019), README of the authors' code"
_TABLE_2 = "Sanh et al. (2019), table 2"

CARD = Card(
    title="DistilBERT",
    citation="Sanh et al. (2019)",
    paper="DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter",
    url="https://arxiv.org/abs/1910.01108",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "distillation"),
    extensions=("distillation",),
    loss="5 L_soft + 2 L_MLM + L_cos",
    tokenizer="wordpiece",
    corpus="BooksCorpus and English Wikipedia",
    parameters="66M",
    layers="6",
    speed_up="1.63 times BERT-base's (Qiu et al., 2020, table 3)",
    source_model="BERT-base",
    reference="transformers' DistilBertForMaskedLM",
    licence="Apache-2.0",
    reported=(
        Reported(task="glue", metric="average", value=77.0, split="dev", source=_SURVEY),
        Reported(task="cola", metric="mcc", value=51.3, split="dev", source=_CODE),
        Reported(task="qnli", metric="accuracy", value=89.2, split="dev", source=_CODE),
        Reported(task="rte", metric="accuracy", value=59.9, split="dev", source=_CODE),
        Reported(task="sst2", metric="accuracy", value=91.3, split="dev", source=_CODE),
        Reported(task="wnli", metric="accuracy", value=56.3, split="dev", source=_CODE),
        Reported(task="imdb", metric="accuracy", value=92.82, source=_TABLE_2),
        Reported(task="squad11", metric="f1", value=85.8, split="dev", source=_TABLE_2),
    ),
)


def halved(size: Size) -> Size:
    """Returns the size of the student of a teacher of ``size``: half of its layers."""
    return replace(size, layers=size.layers // 2)


def doubled(size: Size) -> Size:
    """Returns the size of the teacher of a student of ``size``."""
    return replace(size, layers=2 * size.layers)


_BASE = Size(layers=12, width=768, heads=12, inner=3072)
SIZES = {"tiny": halved(TINY), "mini": halved(MINI), "small": halved(SMALL), "base": halved(_BASE)}

TEACHER = Teacher(model="bert", size=doubled, parts=("encoder/embeddings/", "encoder/stack/", "mlm/"))

ADAM = {"beta2": 0.98, "epsilon": 1e-6}
"""As in the authors' code."""


def describe(size: Size, vocabulary: Vocabulary) -> StudentModel:
    """Returns the configurations of the network of ``size`` and its teacher. Both predict the words at all places."""
    D, V = size.width, vocabulary.size
    head = MaskedLmConfig(width=D, inner=D, vocabulary=V, rate=1.0, absent=vocabulary.absent)
    teacher = EncoderModel(encoder=bert(doubled(size), V, pooler=False), heads=(head,))
    return StudentModel(encoder=distilbert(size, V), heads=(head,), teacher=teacher)


def build(size: Size, vocabulary: Vocabulary, teacher: Pretrainable | None = None) -> Pretrainable:
    """Builds the network of ``size``, with weights of ``teacher``, or initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import distillation, mlm, sampling

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")

    def batches(corpus, batch, length):
        texts, rare = sampling.FullSentences(corpus, vocabulary, length), distillation.rarity(corpus, vocabulary)

        def make(step, seed):
            rows, _ = texts(step, batch, seed)
            return mlm.noise(rows, sampling.generator(seed, step), vocabulary, readily=rare)

        return make

    loss = distillation.Distillation(encoder, mlm.MaskedLm(described.heads[0], encoder), teacher)
    return Pretrainable(encoder=encoder, loss=loss, batches=Sampler(batches))
