"""MPNet: masked words, predicted one after the other.

Song, Tan, Qin, Lu and Liu (2020). MPNet: Masked and Permuted Pre-training for Language Understanding. NeurIPS.
Taxonomy: contextual; two-stream Transformer encoder; masked and permuted LM (MLM and PLM); no extension.

BERT predicts the masked words of a row independently of each other. XLNet predicts one after the other, but does not
know how many will follow. MPNet orders the tokens at random, keeps the first 85 % as context, and predicts the others
in turn. Tokens that are not yet predicted are masks at their places (position compensation), so that every prediction
depends on the length of the whole row, as in every task.

    L = - 1/|M| sum_{t > c} ln p(x_{z_t} | x_{z_<t}, M_{z_>c})

Nearest relative: XLNet (`xlnet`). MPNet has XLNet's two streams, with BERT's layers and without a memory.
Downstream it is BERT (`bert`) with relative positions, and without segments or a pooler.
"""

from ptmbench.models.architectures.position_compensated import mpnet
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import MaskedLmConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_GLUE = "Song et al. (2020), results on the dev sets of GLUE, MPNet-base"
_SQUAD = "Song et al. (2020), results on SQuAD, MPNet-base"

CARD = Card(
    title="MPNet",
    citation="Song et al. (2020)",
    paper="MPNet: Masked and Permuted Pre-training for Language Understanding",
    url="https://arxiv.org/abs/2004.09297",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TWO_STREAM,
    objectives=("masked_permuted",),
    loss="L_MPNet",
    tokenizer="wordpiece",
    corpus="English Wikipedia, BooksCorpus, OpenWebText, CC-News and Stories (160 GB)",
    parameters="110M (base)",
    reference="transformers' MPNetForMaskedLM",
    licence="MIT",
    reported=(
        Reported(task="glue", metric="average", value=87.9, split="dev", source=_GLUE),
        Reported(task="mnli", metric="accuracy", value=88.5, split="dev", source=_GLUE),
        Reported(task="qnli", metric="accuracy", value=93.3, split="dev", source=_GLUE),
        Reported(task="qqp", metric="accuracy", value=91.9, split="dev", source=_GLUE),
        Reported(task="rte", metric="accuracy", value=85.8, split="dev", source=_GLUE),
        Reported(task="sst2", metric="accuracy", value=95.5, split="dev", source=_GLUE),
        Reported(task="mrpc", metric="accuracy", value=91.8, split="dev", source=_GLUE),
        Reported(task="cola", metric="mcc", value=65.0, split="dev", source=_GLUE),
        Reported(task="stsb", metric="pearson", value=91.1, split="dev", source=_GLUE),
        Reported(task="squad11", metric="f1", value=92.7, split="dev", source=_SQUAD),
        Reported(task="squad20", metric="f1", value=85.7, split="dev", source=_SQUAD),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

ADAM = {"beta2": 0.98, "epsilon": 1e-6}
"""The authors' command (microsoft/MPNet)."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    D, V = size.width, vocabulary.size
    encoder = mpnet(size, V)
    epsilon = encoder.stack.block.norm.epsilon
    words = MaskedLmConfig(width=D, inner=D, vocabulary=V, epsilon=epsilon, absent=vocabulary.absent)
    return EncoderModel(encoder=encoder, heads=(words,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.compensated import built
    from ptmbench.models.objectives import masked_permuted

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    (words,) = described.heads
    return Pretrainable(
        encoder=encoder,
        loss=masked_permuted.MaskedPermutedLm(words, encoder),
        batches=masked_permuted.batches.of(vocabulary),
    )
