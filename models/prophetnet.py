"""ProphetNet: a Transformer that predicts the next two tokens at each step.

Qi, Yan, Gong, Liu, Duan, Chen, Zhang and Zhou (2020). ProphetNet: Predicting Future N-gram for Sequence-to-Sequence
Pre-training. Findings of EMNLP.
Taxonomy: contextual; Transformer; Seq2Seq MLM as future n-gram prediction; no extension.

With the true last token at hand, a decoder gets far by knowing which words follow which, and plans nothing. ProphetNet
predicts at each step the next n tokens at once, each by a stream of its own that shares all weights with the main
decoder: one sees all tokens so far, the next does without the last one. For writing only the first stream is kept, so
generation costs hardly more. Pre-training hides spans as in MASS, one in each 64 tokens, and writes only them.

    L = sum_{i < n} alpha_i / S sum_s - ln p_i(y_s | y_{< s - i}, x with spans hidden),    n = 2, alpha_i = 1 / n

Nearest relative: MASS (`models.mass`), the same with n = 1, half of the text in one span, and no distances in the
decoder. The authors train with label smoothing, which the paper's loss is without. Fine-tuning here trains the first
stream only; theirs keeps both.
"""

from ptmbench.models.architectures.encoder_decoders import bart
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

_CNN = "Qi et al. (2020), results on CNN/DailyMail, 16 GB"
_GIGAWORD = "Qi et al. (2020), results on Gigaword, 16 GB"

CARD = Card(
    title="ProphetNet",
    citation="Qi et al. (2020)",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER,
    objectives=("future_ngram",),
    loss="sum_i alpha_i L_i, the token i + 1 steps ahead",
    tokenizer="wordpiece",
    corpus="BooksCorpus and English Wikipedia (16 GB), or the 160 GB of RoBERTa",
    parameters="not given; 12 + 12 layers of width 1024",
    reference="transformers' ProphetNetForConditionalGeneration",
    licence="MIT",
    reported=(
        Reported(task="cnn_dailymail", metric="rouge2", value=20.64, source=_CNN),
        Reported(task="cnn_dailymail", metric="rougeL", value=40.72, source=_CNN),
        Reported(task="gigaword", metric="rougeL", value=36.57, source=_GIGAWORD),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=6, width=768, heads=12, inner=3072)}


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed: L layers in the encoder, L in the
    decoder."""
    from ptmbench.models.architectures.n_stream_decoder import Decoder
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import future_ngram

    encoder = built(bart(size, vocabulary.size)[0], name="encoder")
    loss = future_ngram.FutureNgramLm(encoder, Decoder(size, encoder, future_ngram.STREAMS), vocabulary.absent)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: future_ngram.batches(corpus, vocabulary, batch, length),
        decode=loss.decode,
        writer=loss,
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights of encoder and decoder, and of those in lookup tables. 2 streams, 32 buckets."""
    D, F = size.width, size.inner
    tables = (vocabulary.size + 2 * size.length + 2) * D
    attention, feed, norm = 4 * (D * D + D), 2 * D * F + F + D, 2 * D
    encoder = size.layers * (attention + feed + 2 * norm) + norm
    decoder = size.layers * (2 * attention + 32 * size.heads * (D + 1) + feed + 3 * norm) + norm
    return tables + encoder + decoder, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: matrix products and attention."""
    D, F = size.width, size.inner
    return size.layers * (2 * (4 * D * D + 2 * D * F) + 4 * length * D)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per encoder token: three times the forward pass of encoder, decoder and vocabulary."""
    blocks, rest = divmod(length - 2, 64)
    targets = max(1, blocks * int(0.15 * 64) + int(0.15 * rest))  # `future_ngram.plan`
    return 3 * _forward(size, vocabulary, length, targets, streams=2) / length


def decode_flops(size: Size, vocabulary: Vocabulary, length: int, targets: float) -> float:
    """FLOPs of `Pretrainable.decode` for one row: ``targets`` tokens of the decoder over ``length`` of the encoder."""
    return _forward(size, vocabulary, length, targets, 1)


def _forward(size: Size, vocabulary: Vocabulary, length: int, targets: float, streams: int) -> float:
    """FLOPs of one row. The main stream goes through all layers beside the predicting ones; looking a distance up in
    the 32 that each token gives counts as nothing, as lookups do."""
    D, F, V = size.width, size.inner, vocabulary.size
    encoder = encoder_flops_per_token(size, length)
    decoder = 2 * (6 * D * D + 32 * size.heads * D + 2 * D * F) + 4 * targets * D + 4 * length * D
    memory = 2 * 2 * D * D  # keys and values of cross-attention, once per input token
    writing = (1 + streams) * size.layers * decoder + streams * 2 * D * V
    return length * (encoder + size.layers * memory) + targets * writing
