"""BART: a Transformer that writes what a damaged text said before.

Lewis, Liu, Goyal, Ghazvininejad, Mohamed, Levy, Stoyanov and Zettlemoyer (2020). BART: Denoising Sequence-to-Sequence
Pre-training for Natural Language Generation, Translation, and Comprehension. ACL.
Taxonomy: contextual; Transformer; DAE; no extension.

A denoising autoencoder may damage its input in any way, since the decoder writes the whole text from left to right:
positions of input and output need not match. BART shuffles the sentences of a document and replaces spans of 0 to
many tokens by one [MASK] each, so that the model has to find out what is missing, how much of it, and in which
order it all stood. The encoder reads both ways like BERT's, the decoder is GPT's with attention to the encoder.

    L = - 1/S sum_s ln p(x_s | x_{<s}, damaged x)

Nearest relative: T5 (`models.t5`), which writes only what is hidden. The decoder of BART writes the whole text: each
input token costs more, and each text teaches more predictions. The paper classifies from the decoder's last token;
here every form reads the encoder.
"""

from models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from models.pretrainable import Pretrainable
from models.tokenizers import Vocabulary

_SURVEY = "Qiu et al. (2020), table 2, without WNLI: the mean of Lewis et al. (2020), table 2, dev, BART-large"
_TABLE_1 = "Lewis et al. (2020), table 1, BART-base with text infilling and sentence shuffling"
_TABLE_2 = "Lewis et al. (2020), table 2, BART-large"

CARD = Card(
    title="BART",
    citation="Lewis et al. (2020)",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER,
    objectives=("dae",),
    loss="L_DAE",
    tokenizer="bpe",
    corpus="the 160 GB of RoBERTa: news, books, stories and web text (base: Wikipedia and books)",
    parameters="10 % more than BERT of the same size",
    reference="transformers' BartForConditionalGeneration",
    licence="MIT",
    reported=(
        Reported(task="glue", metric="average", value=88.4, split="dev", source=_SURVEY),
        Reported(task="squad11", metric="f1", value=90.8, split="dev", source=_TABLE_1),
        Reported(task="mnli", metric="accuracy", value=83.8, split="dev", source=_TABLE_1),
        Reported(task="sst2", metric="accuracy", value=96.6, split="dev", source=_TABLE_2),
        Reported(task="qqp", metric="accuracy", value=92.5, split="dev", source=_TABLE_2),
        Reported(task="qnli", metric="accuracy", value=94.9, split="dev", source=_TABLE_2),
        Reported(task="rte", metric="accuracy", value=87.0, split="dev", source=_TABLE_2),
        Reported(task="mrpc", metric="accuracy", value=90.4, split="dev", source=_TABLE_2),
        Reported(task="cola", metric="mcc", value=62.8, split="dev", source=_TABLE_2),
        Reported(task="squad20", metric="f1", value=89.2, split="dev", source=_TABLE_2),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=6, width=768, heads=12, inner=3072)}


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed: L layers in the encoder, L in the
    decoder."""
    from models.architectures.transformer_post_norm import Decoder, Encoder
    from models.objectives import dae, seq2seq_mlm

    encoder = Encoder(size, vocabulary.size)
    loss = seq2seq_mlm.Seq2SeqLm(encoder, Decoder(size, encoder), vocabulary.absent)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: dae.batches(corpus, vocabulary, batch, length, longest=size.length),
        decode=loss.decode,
        writer=loss,
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights of encoder and decoder, and of those in lookup tables."""
    D, F = size.width, size.inner
    tables = (vocabulary.size + 2 * size.length) * D
    attention, feed, norm = 4 * (D * D + D), 2 * D * F + F + D, 2 * D
    encoder = size.layers * (attention + feed + 2 * norm) + norm
    decoder = size.layers * (2 * attention + feed + 3 * norm) + norm
    return tables + encoder + decoder, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: matrix products and attention."""
    D, F = size.width, size.inner
    return size.layers * (2 * (4 * D * D + 2 * D * F) + 4 * length * D)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per encoder token: three times the forward pass of encoder, decoder and vocabulary.

    Infilling leaves 70 % of the text and a [MASK] for each 10 %, so beside each input token stand 1.25 of the decoder,
    as far as its positions reach.
    """
    return 3 * decode_flops(size, vocabulary, length, min(1.25 * length, size.length)) / length


def decode_flops(size: Size, vocabulary: Vocabulary, length: int, targets: float) -> float:
    """FLOPs of `Pretrainable.decode` for one row: ``targets`` tokens of the decoder over ``length`` of the encoder."""
    D, F, V = size.width, size.inner, vocabulary.size
    encoder = encoder_flops_per_token(size, length)
    decoder = 2 * (6 * D * D + 2 * D * F) + 4 * targets * D + 4 * length * D
    memory = 2 * 2 * D * D  # keys and values of cross-attention, once per input token
    return length * (encoder + size.layers * memory) + targets * (size.layers * decoder + 2 * D * V)
