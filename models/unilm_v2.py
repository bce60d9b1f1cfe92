"""UniLMv2: fill all gaps at once, and one after the other, in the same pass.

Bao, Dong, Wei, Wang, Yang, Liu, Wang, Piao, Gao, Zhou and Hon (2020). UniLMv2: Pseudo-Masked Language Models for
Unified Language Model Pre-Training. ICML.
Taxonomy: contextual; Transformer encoder; pseudo-masked LM; no extension.

MLM guesses every hidden word on its own; a language model knows what it wrote before. UniLMv2 hides blocks of words and
learns both: each word from the text around alone, and each block from the text and the blocks filled before it, in
random order. Pseudo masks and the original words stand behind the text, at the positions they are about, so that masks
of attention make the two out of one pass. The first makes an encoder, the second a decoder.

    L = L_AE + L_PAR:  - 1/|M| sum_{t in M} ln p(x_t | x without M)  and, for t in block M_i, given M_1 ... M_{i-1} too

Nearest relative: UniLM (`models.unilm`), which takes a row for each mask. There is no reference of it to install: it is
held against BERT, given its masks, positions and biases of distance from outside.
"""

from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

_TABLE_2 = "Bao et al. (2020), table 2, base, mean of five runs"
_TABLE_3 = "Bao et al. (2020), table 3, base, mean of five runs"

CARD = Card(
    title="UniLMv2",
    citation="Bao et al. (2020)",
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

READS_AGAIN = True
"""Each token is asked for by a mask of its own, which no later one sees: `decode` is all there is to write with."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures import masked_encoder
    from ptmbench.models.objectives import pseudo_masked, unilm

    encoder = masked_encoder.unilm_v2(size, vocabulary.size)
    loss = pseudo_masked.PseudoMaskedLm(encoder, vocabulary)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: pseudo_masked.batches(corpus, vocabulary, batch, length),
        decode=unilm.decode(encoder, loss.mlm, loss.pseudo),
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights of encoder and head, and of those in lookup tables (2 segments, 32 distances)."""
    D, F, V = size.width, size.inner, vocabulary.size
    tables = (V + size.length + 2) * D + 32 * size.heads
    layer = 4 * (D * D + D) + (2 * D * F + F + D) + 4 * D
    return tables + 2 * D + size.layers * layer + D * D + 3 * D + V, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: matrix products and attention."""
    D, F = size.width, size.inner
    return size.layers * (2 * (4 * D * D + 2 * D * F) + 4 * length * D)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per token of text: three times the forward pass of encoder and head.

    Behind the text stand two more for each hidden token, and each of these is predicted twice.
    """
    D, V = size.width, vocabulary.size
    hidden = -(-15 * length // 100)
    whole = length + 2 * hidden
    layers = whole * encoder_flops_per_token(size, whole)
    return 3 * (layers + 2 * hidden * 2 * (D * D + D * V)) / length


def decode_flops(size: Size, vocabulary: Vocabulary, length: int, targets: int) -> float:
    """FLOPs of `Pretrainable.decode` for one row: the source, ``targets`` - 1 written tokens, and a mask for each of
    ``targets``, which alone reach the vocabulary."""
    D, V = size.width, vocabulary.size
    whole = length + 2 * targets - 1
    return whole * encoder_flops_per_token(size, whole) + targets * 2 * (D * D + D * V)
