"""XLNet: a language model in random orders, which therefore reads both ways.

Yang, Dai, Yang, Carbonell, Salakhutdinov and Le (2019). XLNet: Generalized Autoregressive Pretraining for Language
Understanding. NeurIPS.
Taxonomy: contextual; two-stream Transformer encoder; PLM; no extension.

BERT predicts masked words independently of each other, from an input with a [MASK] that no task shows. A language
model does neither, but sees one side only. XLNet is a language model in a random order of the tokens, so that over time
each token is predicted from both sides. The vector of a token would reveal the word to predict, so a second stream of
queries knows only its position. Memory and relative positions are those of Transformer-XL.

    L = - 1/S sum_s ln p(x_{z_s} | x_{z_<s}, context, memory)

Nearest relative: BERT (`bert`), which has masks instead of a random order. With the order, Transformer-XL
(`transformer_xl`) reads both ways as well. The memory reaches one segment back, see `models.objectives.plm`.
"""

from ptmbench.models.architectures.two_stream import xlnet
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import PermutedLmConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_SURVEY = "Qiu et al. (2020), table 2, XLNet-Large, an ensemble"
_TABLE_3 = "Yang et al. (2019), table 3, XLNet-Large"
_TABLE_5 = "Yang et al. (2019), table 5, XLNet-Large, single task, single model"

CARD = Card(
    title="XLNet",
    citation="Yang et al. (2019)",
    paper="XLNet: Generalized Autoregressive Pretraining for Language Understanding",
    url="https://arxiv.org/abs/1906.08237",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TWO_STREAM,
    objectives=("plm",),
    loss="L_PLM",
    tokenizer="unigram",
    corpus="BooksCorpus, English Wikipedia, Giga5, ClueWeb 2012-B and Common Crawl (32.89B pieces)",
    parameters="similar to BERT-large",
    reference="transformers' XLNetLMHeadModel, both streams",
    optimizer="Adam without bias correction",
    licence="Apache-2.0",
    reported=(
        Reported(task="glue", metric="average", value=90.5, source=_SURVEY),
        Reported(task="mnli", metric="accuracy", value=90.8, split="dev", source=_TABLE_5),
        Reported(task="qnli", metric="accuracy", value=94.9, split="dev", source=_TABLE_5),
        Reported(task="qqp", metric="accuracy", value=92.3, split="dev", source=_TABLE_5),
        Reported(task="rte", metric="accuracy", value=85.9, split="dev", source=_TABLE_5),
        Reported(task="sst2", metric="accuracy", value=97.0, split="dev", source=_TABLE_5),
        Reported(task="mrpc", metric="accuracy", value=90.8, split="dev", source=_TABLE_5),
        Reported(task="cola", metric="mcc", value=69.0, split="dev", source=_TABLE_5),
        Reported(task="stsb", metric="pearson", value=92.5, split="dev", source=_TABLE_5),
        Reported(task="squad11", metric="f1", value=95.1, split="dev", source=_TABLE_3),
        Reported(task="squad20", metric="f1", value=90.6, split="dev", source=_TABLE_3),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

ADAM = {"epsilon": 1e-6}
"""Yang et al. (2019), the table of hyper-parameters for pre-training."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    encoder = xlnet(size, vocabulary.size)
    words = PermutedLmConfig(width=size.width, vocabulary=vocabulary.size, absent=vocabulary.absent)
    return EncoderModel(encoder=encoder, heads=(words,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.two_stream import built
    from ptmbench.models.objectives import plm

    encoder = built(describe(size, vocabulary).encoder, name="encoder")
    return Pretrainable(
        encoder=encoder,
        loss=plm.PermutedLm(encoder, vocabulary.absent),
        batches=plm.batches.of(vocabulary),
    )
