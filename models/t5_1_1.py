"""T5 1.1: T5 as its authors came to build it.

Raffel, Shazeer, Roberts, Lee, Narang, Matena, Zhou, Li and Liu (2020). Exploring the Limits of Transfer Learning with
a Unified Text-to-Text Transformer. JMLR 21(140). The layers: Shazeer (2020). GLU Variants Improve Transformer. arXiv.
Taxonomy: contextual; Transformer; Seq2Seq MLM; no extension.

After the paper the authors released checkpoints with three changes: feed-forward layers whose inner activations are
gated, W (gelu(x G) * x U); an output layer that is no longer the embedding; and no dropout in pre-training, which
only costs where no text is seen twice. Objective and corpus stay, without the tasks that T5 mixed in.

    L = - 1/S sum_s ln p(y_s | y_{<s}, x with spans hidden)

Nearest relative: T5 (`models.t5`). A gated layer has three matrices in the place of two, so the same number of weights
needs F to be 2/3 of T5's: the paper of GLU variants compares at F = 2048 for 3072. The sizes here keep to that.
"""

from models.card import Architecture, Card, Reported, Representation, Size
from models.pretrainable import Pretrainable
from models.tokenizers import Vocabulary

_TABLE_2 = "Shazeer (2020), table 2, dev, base with GEGLU"
_TABLE_4 = "Shazeer (2020), table 4, dev, base with GEGLU"

CARD = Card(
    title="T5 1.1",
    citation="Raffel et al. (2020); Shazeer (2020)",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER,
    objectives=("seq2seq_mlm",),
    loss="L_Seq2SeqMLM",
    tokenizer="unigram",
    corpus="Colossal Clean Crawled Corpus (C4, about 750 GB)",
    parameters="about 250M (base)",
    reference="transformers' T5ForConditionalGeneration",
    optimizer="Adafactor",
    licence="Apache-2.0",
    reported=(
        Reported(task="glue", metric="average", value=84.12, split="dev", source=_TABLE_2),
        Reported(task="cola", metric="mcc", value=53.65, split="dev", source=_TABLE_2),
        Reported(task="sst2", metric="accuracy", value=93.92, split="dev", source=_TABLE_2),
        Reported(task="mrpc", metric="f1", value=92.68, split="dev", source=_TABLE_2),
        Reported(task="stsb", metric="pearson", value=90.26, split="dev", source=_TABLE_2),
        Reported(task="qqp", metric="f1", value=89.11, split="dev", source=_TABLE_2),
        Reported(task="mnli", metric="accuracy", value=86.15, split="dev", source=_TABLE_2),
        Reported(task="qnli", metric="accuracy", value=92.81, split="dev", source=_TABLE_2),
        Reported(task="rte", metric="accuracy", value=79.42, split="dev", source=_TABLE_2),
        Reported(task="squad11", metric="f1", value=91.12, split="dev", source=_TABLE_4),
    ),
)

SIZES = {
    "tiny": Size(layers=2, width=128, heads=2, inner=344),
    "mini": Size(layers=4, width=256, heads=4, inner=688),
    "small": Size(layers=4, width=512, heads=8, inner=1368),
    "base": Size(layers=12, width=768, heads=12, inner=2048),
}


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from models.architectures.transformer_gated import Decoder, Encoder
    from models.objectives import seq2seq_mlm

    encoder = Encoder(size, vocabulary.size)
    loss = seq2seq_mlm.Seq2SeqLm(encoder, Decoder(size, encoder), vocabulary.absent)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: seq2seq_mlm.batches(corpus, vocabulary, batch, length),
        decode=loss.decode,
        writer=loss,
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights of encoder and decoder, and of those in lookup tables (the output layer is none)."""
    D, F = size.width, size.inner
    tables = vocabulary.size * D + 2 * 32 * size.heads
    encoder = size.layers * (4 * D * D + 3 * D * F + 2 * D) + D
    decoder = size.layers * (8 * D * D + 3 * D * F + 3 * D) + D
    return tables + encoder + decoder + vocabulary.size * D, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: matrix products and attention."""
    D, F = size.width, size.inner
    return size.layers * (2 * (4 * D * D + 3 * D * F) + 4 * length * D)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per encoder token: three times the forward pass of encoder, decoder and vocabulary.

    As in T5, beside each input token stand about 0.22 tokens of the decoder.
    """
    return 3 * decode_flops(size, vocabulary, length, 0.2 / 0.9 * length) / length


def decode_flops(size: Size, vocabulary: Vocabulary, length: int, targets: float) -> float:
    """FLOPs of `Pretrainable.decode` for one row: ``targets`` tokens of the decoder over ``length`` of the encoder."""
    D, F, V = size.width, size.inner, vocabulary.size
    encoder = encoder_flops_per_token(size, length)
    decoder = 2 * (6 * D * D + 3 * D * F) + 4 * targets * D + 4 * length * D
    memory = 2 * 2 * D * D  # keys and values of cross-attention, once per input token
    return length * (encoder + size.layers * memory) + targets * (size.layers * decoder + 2 * D * V)
