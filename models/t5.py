"""T5: every task as text in, text out.

Raffel, Shazeer, Roberts, Lee, Narang, Matena, Zhou, Li and Liu (2020). Exploring the Limits of Transfer Learning
with a Unified Text-to-Text Transformer. JMLR 21(140).
Taxonomy: contextual; Transformer; Seq2Seq MLM; no extension.

An encoder reads both ways, a decoder writes left to right, and one loss serves all tasks. For pre-training, spans
of the text are replaced by sentinels and the decoder writes what they hide, which is much shorter than the text.
Compared with the original Transformer: layer-norm before each part and without bias, positions as one learned
scalar per distance and head, embeddings shared by input and output.

    L = - 1/S sum_s ln p(y_s | y_{<s}, x with spans hidden)

Nearest relative: BERT (`models.bert`), whose objective this is with a decoder that writes all hidden tokens in
order, instead of guessing each on its own. A size has L layers in the encoder and L in the decoder: about twice the
weights of BERT of that size.
"""

from models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from models.pretrainable import Pretrainable
from models.tokenizers import Vocabulary

_SURVEY = "Qiu et al. (2020), table 2, T5-11B, without WNLI"
_TABLE_14 = "Raffel et al. (2020), table 14, T5-Base"

CARD = Card(
    title="T5",
    citation="Raffel et al. (2020)",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER,
    objectives=("seq2seq_mlm",),
    loss="L_Seq2SeqMLM",
    tokenizer="unigram",
    corpus="Colossal Clean Crawled Corpus (C4, about 750 GB)",
    parameters="220M (base)",
    reference="transformers' T5ForConditionalGeneration",
    optimizer="Adafactor",
    licence="Apache-2.0",
    reported=(
        Reported(task="glue", metric="average", value=89.7, source=_SURVEY),
        Reported(task="cola", metric="mcc", value=51.1, source=_TABLE_14),
        Reported(task="sst2", metric="accuracy", value=95.2, source=_TABLE_14),
        Reported(task="mrpc", metric="f1", value=90.7, source=_TABLE_14),
        Reported(task="mrpc", metric="accuracy", value=87.5, source=_TABLE_14),
        Reported(task="stsb", metric="pearson", value=89.4, source=_TABLE_14),
        Reported(task="stsb", metric="spearman", value=88.6, source=_TABLE_14),
        Reported(task="qqp", metric="f1", value=72.6, source=_TABLE_14),
        Reported(task="qqp", metric="accuracy", value=89.4, source=_TABLE_14),
        Reported(task="mnli", metric="accuracy", value=87.1, source=_TABLE_14),
        Reported(task="qnli", metric="accuracy", value=93.7, source=_TABLE_14),
        Reported(task="rte", metric="accuracy", value=80.1, source=_TABLE_14),
        Reported(task="wnli", metric="accuracy", value=78.8, source=_TABLE_14),
        Reported(task="squad11", metric="f1", value=92.08, split="dev", source=_TABLE_14),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from models.architectures.transformer import Decoder, Encoder
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
    """Number of all weights of encoder and decoder, and of those in lookup tables (32 distances in each of the two)."""
    D, F = size.width, size.inner
    tables = vocabulary.size * D + 2 * 32 * size.heads
    encoder = size.layers * (4 * D * D + 2 * D * F + 2 * D) + D
    decoder = size.layers * (8 * D * D + 2 * D * F + 3 * D) + D
    return tables + encoder + decoder, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: matrix products and attention."""
    D, F = size.width, size.inner
    return size.layers * (2 * (4 * D * D + 2 * D * F) + 4 * length * D)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per encoder token: three times the forward pass of encoder, decoder and vocabulary.

    Span corruption hides 15 % of the text in spans of 3, so beside each input token stand about 0.22 tokens of the
    decoder: (15 % hidden + 5 % sentinels) of the text, over (85 % kept + 5 % sentinels) of it.
    """
    return 3 * decode_flops(size, vocabulary, length, 0.2 / 0.9 * length) / length


def decode_flops(size: Size, vocabulary: Vocabulary, length: int, targets: float) -> float:
    """FLOPs of `Pretrainable.decode` for one row: ``targets`` tokens of the decoder over ``length`` of the encoder."""
    D, F, V = size.width, size.inner, vocabulary.size
    encoder = encoder_flops_per_token(size, length)
    decoder = 2 * (6 * D * D + 2 * D * F) + 4 * targets * D + 4 * length * D
    memory = 2 * 2 * D * D  # keys and values of cross-attention, once per input token
    return length * (encoder + size.layers * memory) + targets * (size.layers * decoder + 2 * D * V)
