"""StructBERT: BERT that also puts words and sentences in order.

Wang, Bi, Yan, Wu, Bao, Xia, Peng and Si (2020). StructBERT: Incorporating Language Structures into Pre-training for
Deep Language Understanding. ICLR.
Taxonomy: contextual; Transformer encoder; MLM, word structural and sentence structural objective; no extension.

A masked language model may treat a text as a bag of words and two texts as two topics. So some trigrams of words that
are not hidden are shuffled, and the encoder predicts the original order. The second text is the next one, the previous
one or an unrelated one, with equal probability, and has three classes where NSP has two.

    L = L_MLM + L_WSO + L_SSO
    L_WSO = - 1/|S| sum_{t in S} ln p(x_t | x, shuffled in S)        L_SSO = - ln p(next, previous or random | [CLS])

Nearest relative: BERT (`bert`), the same encoder; MLM's output layers serve the shuffled words too.
"""

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import ClassifierConfig, WordStructureConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_ABSTRACT = "Wang et al. (2020), abstract, StructBERT-large"
_TABLE_1 = "Wang et al. (2020), table 1, StructBERT-base"

CARD = Card(
    title="StructBERT",
    citation="Wang et al. (2020)",
    paper="StructBERT: Incorporating Language Structures into Pre-training for Deep Language Understanding",
    url="https://arxiv.org/abs/1908.04577",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "word_structure", "sentence_order"),
    loss="L_MLM + L_WSO + L_SSO",
    tokenizer="wordpiece",
    corpus="BooksCorpus and English Wikipedia (2,500M words)",
    parameters="110M (base), 340M (large)",
    reference="transformers' BertForPreTraining; both structural objectives, term by term",
    licence="Apache-2.0",
    reported=(
        Reported(task="cola", metric="mcc", value=57.2, source=_TABLE_1),
        Reported(task="sst2", metric="accuracy", value=94.7, source=_TABLE_1),
        Reported(task="mrpc", metric="f1", value=89.9, source=_TABLE_1),
        Reported(task="qqp", metric="f1", value=72.0, source=_TABLE_1),
        Reported(task="mnli", metric="accuracy", value=85.5, source=_TABLE_1),
        Reported(task="qnli", metric="accuracy", value=92.6, source=_TABLE_1),
        Reported(task="rte", metric="accuracy", value=76.9, source=_TABLE_1),
        Reported(task="squad11", metric="f1", value=93.0, split="dev", source=_ABSTRACT),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``. One head predicts masked and shuffled words."""
    D, V = size.width, vocabulary.size
    words = WordStructureConfig(width=D, inner=D, vocabulary=V, absent=vocabulary.absent)
    return EncoderModel(encoder=bert(size, V), heads=(words, ClassifierConfig(width=D, classes=3)))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import _joint, mlm, sampling, sentence_order, word_structure

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")

    def batches(corpus, batch, length):
        texts = sampling.Pairs(corpus, vocabulary, length, random_second=0.0)

        def make(step, seed):
            rows, rng = sentence_order.pairs(texts, step, batch, seed)
            return word_structure.shuffle(mlm.noise(rows, rng, vocabulary), rng, vocabulary)

        return make

    words = mlm.MaskedLm(described.heads[0], encoder)
    order = sentence_order.SentenceStructure(described.heads[1])
    heads = [words, word_structure.WordStructure(words), order]
    return Pretrainable(encoder=encoder, loss=_joint.Joint(encoder, heads), batches=Sampler(batches))
