"""UniLMv2: fill all gaps at once and one after the other, in the same pass.

Bao, Dong, Wei, Wang, Yang, Liu, Wang, Piao, Gao, Zhou and Hon (2020). UniLMv2: Pseudo-Masked Language Models for
Unified Language Model Pre-Training. ICML.
Taxonomy: contextual; Transformer encoder; pseudo-masked LM; no extension.

MLM predicts every hidden word independently; a language model sees the words that it wrote before. UniLMv2 hides blocks
of words and learns both: each word from the visible text alone, and each block from the visible text and the blocks
filled before it, in random order. Pseudo masks and the original words come after the text and have the positions of the
hidden words, so that attention masks can separate the two objectives in one pass. The first objective trains an
encoder, the second a decoder.

    L = L_AE + L_PAR:  - 1/|M| sum_{t in M} ln p(x_t | x without M)  and, for t in block M_i, given M_1 ... M_{i-1} too

Nearest relative: UniLM (`unilm`), which needs a row for each mask. There is no reference of UniLMv2 to install: it is
compared with a BERT that gets its masks, positions and distance biases as inputs.
"""

from ptmbench.models.architectures.masked_encoder import MaskedModel, unilm_v2
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.layers.heads import PseudoMaskedConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_2 = "Bao et al. (2020), table 2, base, mean of five runs"
_TABLE_3 = "Bao et al. (2020), table 3, base, mean of five runs"

CARD = Card(
    title="UniLMv2",
    citation="Bao et al. (2020)",
    paper="UniLMv2: Pseudo-Masked Language Models for Unified Language Model Pre-Training",
    url="https://arxiv.org/abs/2002.12804",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("pseudo_masked",),
    loss="L_AE + L_PAR",
    tokenizer="wordpiece",
    corpus="160 GB: English Wikipedia, BooksCorpus, OpenWebText, CC-News and Stories",
    parameters="110M (base)",
    reference="transformers' BERT, given masks, positions and biases of distance from outside",
    licence="MIT",
    reported=(
        Reported(task="mnli", metric="accuracy", value=88.5, split="dev", source=_TABLE_3),
        Reported(task="sst2", metric="accuracy", value=95.1, split="dev", source=_TABLE_3),
        Reported(task="mrpc", metric="accuracy", value=91.8, split="dev", source=_TABLE_3),
        Reported(task="rte", metric="accuracy", value=81.3, split="dev", source=_TABLE_3),
        Reported(task="qnli", metric="accuracy", value=93.5, split="dev", source=_TABLE_3),
        Reported(task="qqp", metric="accuracy", value=91.7, split="dev", source=_TABLE_3),
        Reported(task="stsb", metric="pearson", value=91.0, split="dev", source=_TABLE_3),
        Reported(task="cola", metric="mcc", value=65.2, split="dev", source=_TABLE_3),
        Reported(task="squad11", metric="f1", value=93.1, split="dev", source=_TABLE_2),
        Reported(task="squad20", metric="f1", value=86.1, split="dev", source=_TABLE_2),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

ADAM = {"beta2": 0.98, "epsilon": 1e-6}
"""Bao et al. (2020), section 3.1."""


def describe(size: Size, vocabulary: Vocabulary) -> MaskedModel:
    """Returns the configuration of the network of ``size``."""
    words = PseudoMaskedConfig(width=size.width, inner=size.width, vocabulary=vocabulary.size)
    return MaskedModel(encoder=unilm_v2(size, vocabulary.size), heads=(words,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.masked import built
    from ptmbench.models.objectives import pseudo_masked, unilm

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = pseudo_masked.PseudoMaskedLm(*described.heads, encoder, vocabulary)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=pseudo_masked.batches.of(vocabulary),
        decode=unilm.make_decode(encoder, loss.mlm, loss.pseudo),
    )
