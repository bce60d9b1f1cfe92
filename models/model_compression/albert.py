"""ALBERT: a BERT whose layers share their weights.

Lan, Chen, Goodman, Gimpel, Sharma and Soricut (2020). ALBERT: A Lite BERT for Self-supervised Learning of Language
Representations. ICLR.
Taxonomy: contextual; Transformer encoder; MLM (of n-grams) and SOP; parameter sharing.

BERT has separate weights for each of its layers, and a vector as wide as the network for every word. Here one layer is
applied L times, and words have narrow vectors that a projection widens. The model has a ninth of the weights and the
same cost per token. SOP, which predicts whether two texts are in order, replaces NSP, and MLM hides one to three whole
words at a time.

    L = L_MLM + L_SOP
    L_MLM = - 1/|M| sum_{t in M} ln p(x_t | x with M hidden)        L_SOP = - ln p(A before B or swapped | [CLS])

Nearest relative: BERT (`bert`), the same computation with separate weights in every layer, single hidden tokens, and
NSP.
"""

from dataclasses import replace

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import ClassifierConfig, MaskedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_SURVEY = "Qiu et al. (2020), table 3, ALBERT-xxlarge, an ensemble, without WNLI"
_TABLE_2 = "Lan et al. (2020), table 2, ALBERT-base"
_TABLE_9 = "Lan et al. (2020), table 9, ALBERT-xxlarge, one model"

CARD = Card(
    title="ALBERT",
    citation="Lan et al. (2020)",
    paper="ALBERT: A Lite BERT for Self-supervised Learning of Language Representations",
    url="https://arxiv.org/abs/1909.11942",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "sop"),
    extensions=("sharing",),
    loss="L_MLM + L_SOP",
    tokenizer="unigram",
    corpus="BooksCorpus and English Wikipedia (16 GB)",
    parameters="12M (base), 18M (large), 60M (xlarge), 235M (xxlarge)",
    speed_up="5.6 to 0.3 times BERT's (Qiu et al., 2020, table 3)",
    source_model="none: pre-trained by itself",
    reference="transformers' AlbertForPreTraining",
    optimizer="LAMB",
    licence="Apache-2.0",
    reported=(
        Reported(task="glue", metric="average", value=89.4, source=_SURVEY),
        Reported(task="squad11", metric="f1", value=89.3, split="dev", source=_TABLE_2),
        Reported(task="squad20", metric="f1", value=80.0, split="dev", source=_TABLE_2),
        Reported(task="mnli", metric="accuracy", value=81.6, split="dev", source=_TABLE_2),
        Reported(task="sst2", metric="accuracy", value=90.3, split="dev", source=_TABLE_2),
        Reported(task="qnli", metric="accuracy", value=95.3, split="dev", source=_TABLE_9),
        Reported(task="qqp", metric="accuracy", value=92.2, split="dev", source=_TABLE_9),
        Reported(task="rte", metric="accuracy", value=89.2, split="dev", source=_TABLE_9),
        Reported(task="mrpc", metric="accuracy", value=90.9, split="dev", source=_TABLE_9),
        Reported(task="cola", metric="mcc", value=71.4, split="dev", source=_TABLE_9),
        Reported(task="stsb", metric="pearson", value=93.0, split="dev", source=_TABLE_9),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

ADAM = {"epsilon": 1e-6}
"""The value for LAMB in the authors' code. The paper trains with LAMB (``optimizer=lamb``)."""


def embedding(size: Size) -> int:
    """Returns E, the width of token vectors: 128 as in the paper (table 1), but at most half of D."""
    return min(128, size.width // 2)


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``. GELU is in the tanh form, as in the authors' code."""
    D, E, V = size.width, embedding(size), vocabulary.size
    encoder = bert(replace(size, embedding=E), V, activation="gelu_tanh", shared=True)
    words = MaskedLmConfig(width=D, inner=E, vocabulary=V, activation="gelu_tanh", absent=vocabulary.absent)
    return EncoderModel(encoder=encoder, heads=(words, ClassifierConfig(width=D)))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import _joint, masking, mlm, sampling, sop

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")

    def batches(corpus, batch, length):
        texts = sampling.Pairs(corpus, vocabulary, length, random_second=0.0)

        def make(step, seed):
            rows, where, rng = sop.pairs(texts, step, batch, seed)
            return masking.ngrams(rows, sampling.heads(corpus, where), rng, vocabulary)

        return make

    words, order = described.heads
    heads = [mlm.MaskedLm(words, encoder), sop.SentenceOrder(order)]
    return Pretrainable(encoder=encoder, loss=_joint.Joint(encoder, heads), batches=Sampler(batches))
