"""BERT: deep bidirectional encoding learned by filling gaps.

Devlin, Chang, Lee and Toutanova (2019). BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding. NAACL.
Taxonomy: contextual; Transformer encoder; MLM and NSP; no extension.

A language model that reads both ways would see the word that it has to predict. BERT hides 15 % of the words and
predicts those, so every layer may look left and right. A second objective asks whether two texts belong together,
which trains the vector of the first token, [CLS], to speak for the pair. One encoder then serves every task with
one thin layer on top.

    L = L_MLM + L_NSP
    L_MLM = - 1/|M| sum_{t in M} ln p(x_t | x with M hidden)        L_NSP = - ln p(B follows A | [CLS])

Nearest relative: GPT (`models.gpt`), the same layers with a mask that hides the future, and language modelling as
its objective.
"""

from models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from models.pretrainable import Pretrainable
from models.tokenizers import Vocabulary

_SURVEY = "Qiu et al. (2020), tables 2 and 3, BERT-large, without WNLI"
_TABLE_1 = "Devlin et al. (2019), table 1, BERT-base"
_TABLE_2 = "Devlin et al. (2019), table 2, BERT-base"

CARD = Card(
    title="BERT",
    citation="Devlin et al. (2019)",
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

LEARNING_RATE = 2e-3
"""At width 128; `bench.engine.recipe` lowers it with the width. After 600k tokens of the microworld in steps of
16 x 32, the MLM loss of tiny is 3.1 at 2e-3, and at 1e-3 in steps of 8 x 32 it is 3.3."""

ADAM = {"epsilon": 1e-6}
"""That of the authors' code; the betas of Devlin et al. (2019), appendix A.2, are the usual ones. Their code corrects
no bias, which their 10,000 steps of warm-up make up for: ``bias_correction=false`` does so here."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from models.architectures.transformer_encoder import TransformerEncoder
    from models.objectives import _joint, mlm, nsp, sampling

    encoder = TransformerEncoder(size, vocabulary.size)

    def batches(corpus, batch, length):
        pairs = sampling.Pairs(corpus, vocabulary, length, nsp.RANDOM_SECOND)

        def make(step, seed):
            rows, rng = pairs(step, batch, seed)
            return mlm.noise(rows, rng, vocabulary)

        return make

    heads = [mlm.MaskedLm(encoder, size.width, absent=vocabulary.absent), nsp.NextSentence(size.width)]
    return Pretrainable(encoder=encoder, loss=_joint.Joint(encoder, heads), batches=batches)


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights of encoder and heads, and of those in lookup tables."""
    D, F, V = size.width, size.inner, vocabulary.size
    tables = (V + size.length + 2) * D
    layer = 4 * (D * D + D) + (2 * D * F + F + D) + 4 * D
    pooler, mlm, nsp = D * D + D, D * D + 3 * D + V, 2 * D + 2
    return tables + 2 * D + size.layers * layer + pooler + mlm + nsp, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: matrix products, attention, pooler."""
    D, F = size.width, size.inner
    layer = 2 * (4 * D * D + 2 * D * F) + 4 * length * D
    return size.layers * layer + 2 * D * D / length


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the forward pass of encoder and heads."""
    D, V = size.width, vocabulary.size
    masked = -(-15 * length // 100) / length  # only these positions reach the vocabulary
    return 3 * (encoder_flops_per_token(size, length) + masked * 2 * (D * D + D * V) + 2 * D * 2 / length)
