"""CTRL: a language model that is told what kind of text to write.

Keskar, McCann, Varshney, Xiong and Socher (2019). CTRL: A Conditional Transformer Language Model for Controllable
Generation. arXiv:1909.05858.
Taxonomy: contextual; Transformer decoder; LM; no extension.

What a language model writes can hardly be chosen. CTRL puts a control code before every text it learns from, the name
of the text's source, so that the same code later asks for text of that kind. Codes are ordinary tokens; nothing else
about the objective changes.

    L = - 1/T sum_t ln p(x_t | c, x_0 ... x_{t-1})

Nearest relative: GPT-2 (`models.gpt2`), without codes; CTRL's positions are fixed sines and its inner layers ReLU. The
codes here stand for stretches of the corpus (`models.objectives.conditional_lm` says why); tasks are asked without.
"""

from models.card import MINI, SMALL, TINY, Architecture, Card, Representation, Size
from models.pretrainable import Pretrainable
from models.tokenizers import Vocabulary

CARD = Card(
    title="CTRL",
    citation="Keskar et al. (2019)",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_DECODER,
    objectives=("conditional_lm",),
    loss="L_LM given a control code",
    tokenizer="bpe",
    corpus="140 GB: Wikipedia, Project Gutenberg, Reddit, news, reviews, translations and questions",
    parameters="1.63B",
    reference="transformers' CTRLLMHeadModel",
    optimizer="Adagrad",
    licence="BSD-3-Clause",
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from models.architectures.sine_decoder import SineDecoder
    from models.objectives import conditional_lm

    encoder = SineDecoder(size, vocabulary.size)
    loss = conditional_lm.ConditionalLm(encoder, vocabulary.absent)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: conditional_lm.batches(corpus, vocabulary, batch, length),
        decode=loss.decode,
        writer=loss,
        log_likelihood=loss.log_likelihood,
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in lookup tables."""
    D, F = size.width, size.inner
    tables = vocabulary.size * D
    stack = size.layers * (4 * (D * D + D) + (2 * D * F + F + D) + 4 * D) + 2 * D
    return tables + stack + vocabulary.size, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the decoder stack's forward pass per token of a row of ``length``: matrix products and attention.

    Attention is counted over the whole square, as it is computed: the mask saves nothing.
    """
    D, F = size.width, size.inner
    return size.layers * (2 * (4 * D * D + 2 * D * F) + 4 * length * D)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the forward pass of decoder stack and vocabulary."""
    return 3 * likelihood_flops_per_token(size, vocabulary, length)


def likelihood_flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs per token of asking how probable a row of ``length`` is."""
    return encoder_flops_per_token(size, length) + (length - 1) / length * 2 * size.width * vocabulary.size


def decode_flops(size: Size, vocabulary: Vocabulary, length: int, targets: int) -> float:
    """FLOPs of `Pretrainable.decode` for one row: ``targets`` tokens after ``length``, the vocabulary only for them."""
    whole = length + targets
    return whole * encoder_flops_per_token(size, whole) + targets * 2 * size.width * vocabulary.size
