"""ProphetNet: a Transformer that predicts the next two tokens at each step.

Qi, Yan, Gong, Liu, Duan, Chen, Zhang and Zhou (2020). ProphetNet: Predicting Future N-gram for Sequence-to-Sequence
Pre-training. Findings of EMNLP.
Taxonomy: contextual; Transformer; Seq2Seq MLM as future n-gram prediction; no extension.

With teacher forcing, a decoder can rely on the last true token and does not learn to plan. ProphetNet predicts the next
n tokens at each step, each with a separate stream that shares all weights with the main decoder. The first stream sees
all tokens so far, the next one all but the last. Generation uses the first stream only, so it costs hardly more.
Pre-training hides spans as in MASS, one in each 64 tokens, and the decoder writes only these.

    L = sum_{i < n} alpha_i / S sum_s - ln p_i(y_s | y_{< s - i}, x with spans hidden),    n = 2, alpha_i = 1 / n

Nearest relative: MASS (`mass`), the same with n = 1, half of the text in one span, and no relative distances in
the decoder. The authors train with label smoothing, which is not in the paper's loss. Fine-tuning here trains the first
stream only; theirs keeps both.
"""

from ptmbench.models.architectures.encoder_decoders import prophetnet
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import StreamModel
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_CNN = "Qi et al. (2020), results on CNN/DailyMail, 16 GB"
_GIGAWORD = "Qi et al. (2020), results on Gigaword, 16 GB"

CARD = Card(
    title="ProphetNet",
    citation="Qi et al. (2020)",
    paper="ProphetNet: Predicting Future N-gram for Sequence-to-Sequence Pre-training",
    url="https://arxiv.org/abs/2001.04063",
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


def targets(length: int) -> int:
    """Returns the number of tokens that the decoder writes for a row of ``length``.

    See `models.objectives.future_ngram.plan`.
    """
    blocks, rest = divmod(length - 2, 64)
    return max(1, blocks * int(0.15 * 64) + int(0.15 * rest))


def describe(size: Size, vocabulary: Vocabulary) -> StreamModel:
    """Returns the configuration of the network of ``size``, with L encoder and L decoder layers."""
    encoder, decoder = prophetnet(size, vocabulary.size)
    return StreamModel(encoder=encoder, decoder=decoder, vocabulary=vocabulary.size, targets=targets, blank=1)


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.streams import built
    from ptmbench.models.objectives import future_ngram

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    decoder = built(described.decoder, encoder, name="decoder")
    loss = future_ngram.FutureNgramLm(encoder, decoder, vocabulary)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=future_ngram.batches.of(vocabulary),
        decode=loss.decode,
        writer=loss,
    )
