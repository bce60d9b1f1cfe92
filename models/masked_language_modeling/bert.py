"""BERT: deep bidirectional encoding learned by filling gaps.

Devlin, Chang, Lee and Toutanova (2019). BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding. NAACL.
Taxonomy: contextual; Transformer encoder; MLM and NSP; no extension.

A language model that reads both ways would see the word that it has to predict. BERT hides 15 % of the words and
predicts those, so every layer may look left and right. A second objective asks whether two texts belong together,
which trains the vector of the first token, [CLS], to represent the pair. One encoder then serves every task with
one thin layer on top.

    L = L_MLM + L_NSP
    L_MLM = - 1/|M| sum_{t in M} ln p(x_t | x with M hidden)        L_NSP = - ln p(B follows A | [CLS])

Nearest relative: GPT (`gpt`), the same layers with a mask that hides the future, and language modelling as
its objective.
"""

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import ClassifierConfig, MaskedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_SURVEY = "Qiu et al. (2020), tables 2 and 3, BERT-large, without WNLI"
_TABLE_1 = "Devlin et al. (2019), table 1, BERT-base"
_TABLE_2 = "Devlin et al. (2019), table 2, BERT-base"

CARD = Card(
    title="BERT",
    citation="Devlin et al. (2019)",
    paper="BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
    url="https://arxiv.org/abs/1810.04805",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "nsp"),
    loss="L_MLM + L_NSP",
    tokenizer="wordpiece",
    corpus="BooksCorpus (800M words) and English Wikipedia (2,500M words)",
    parameters="110M (base), 340M (large)",
    reference="transformers' BertForPreTraining",
    optimizer="Adam without bias correction",
    licence="Apache-2.0",
    reported=(
        Reported(task="glue", metric="average", value=81.9, source=_SURVEY),
        Reported(task="glue", metric="average", value=79.6, source=_TABLE_1),
        Reported(task="mnli", metric="accuracy", value=84.6, source=_TABLE_1),
        Reported(task="mnli_mm", metric="accuracy", value=83.4, source=_TABLE_1),
        Reported(task="qqp", metric="f1", value=71.2, source=_TABLE_1),
        Reported(task="qnli", metric="accuracy", value=90.5, source=_TABLE_1),
        Reported(task="sst2", metric="accuracy", value=93.5, source=_TABLE_1),
        Reported(task="cola", metric="mcc", value=52.1, source=_TABLE_1),
        Reported(task="stsb", metric="spearman", value=85.8, source=_TABLE_1),
        Reported(task="mrpc", metric="f1", value=88.9, source=_TABLE_1),
        Reported(task="rte", metric="accuracy", value=66.4, source=_TABLE_1),
        Reported(task="squad11", metric="f1", value=88.5, split="dev", source=_TABLE_2),
        Reported(task="conll2003", metric="f1", value=92.4, source="Devlin et al. (2019), table 7, BERT-base"),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

ADAM = {"epsilon": 1e-6}
"""The value in the authors' code. The betas of Devlin et al. (2019), appendix A.2, are the usual ones. Their code has
no bias correction, which their warm-up of 10,000 steps makes up for. ``bias_correction=false`` turns it off here."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    D, V = size.width, vocabulary.size
    return EncoderModel(
        encoder=bert(size, V),
        heads=(
            MaskedLmConfig(width=D, inner=D, vocabulary=V, absent=vocabulary.absent),
            ClassifierConfig(width=D),
        ),
    )


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
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
    heads = [mlm.MaskedLm(words, encoder), nsp.NextSentence(follows)]
    return Pretrainable(encoder=encoder, loss=_joint.Joint(encoder, heads), batches=Sampler(batches))
