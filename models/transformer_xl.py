"""Transformer-XL: a language model that remembers the segment before.

Dai, Yang, Yang, Carbonell, Le and Salakhutdinov (2019). Transformer-XL: Attentive Language Models beyond a Fixed-Length
Context. ACL.
Taxonomy: contextual; Transformer decoder; LM; no extension.

A Transformer that reads text in segments forgets everything at each cut. Here the hidden states of the segment before
stand as further keys and values in every layer, without gradient: segment recurrence. Positions then have to be
relative, since the same place would mean two tokens; a score depends on the distance of query and key, through
fixed waves and two learned biases.

    L = - 1/(T - 1) sum_{t >= 1} ln p(x_t | x_0 ... x_{t-1}, states of the T tokens before x_0)

Nearest relative: GPT (`models.gpt`), the same objective without memory, with absolute positions and GELU. The memory
reaches one segment back (`models.objectives.segment_lm` says what that leaves out), and the softmax is a plain one.
"""

from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

CARD = Card(
    title="Transformer-XL",
    citation="Dai et al. (2019)",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_DECODER,
    objectives=("lm",),
    loss="L_LM",
    tokenizer="word",
    corpus="WikiText-103 (103M words); also enwik8, text8, One Billion Word and Penn Treebank",
    parameters="151M (standard, WikiText-103), 257M (large)",
    reference="transformers' TransfoXLLMHeadModel (last in release 4.35)",
    licence="Apache-2.0",
    reported=(
        Reported(
            task="wikitext103",
            metric="perplexity",
            value=24.0,
            source="Dai et al. (2019), table 1, Transformer-XL Standard, words",
        ),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

READS_AGAIN = True
"""Distances are shifted along whole rows of keys, which hypotheses that branch do not have: `decode` writes."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.relative_decoder import RelativeDecoder
    from ptmbench.models.objectives import segment_lm

    encoder = RelativeDecoder(size, vocabulary.size)
    loss = segment_lm.SegmentLm(encoder)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: segment_lm.batches(corpus, vocabulary, batch, length),
        decode=loss.decode,
        log_likelihood=loss.log_likelihood,
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in the lookup table."""
    D, F, V = size.width, size.inner, vocabulary.size
    return V * D + V + 2 * D + size.layers * (5 * D * D + (2 * D * F + F + D) + 4 * D), V * D


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the decoder stack's forward pass per token of a row of ``length``, without a memory."""
    return size.layers * _layer(size, length, length)


def _layer(size: Size, length: int, keys: int) -> float:
    """FLOPs of a layer per token, over ``keys`` keys of which ``length`` are the row's own.

    Scores by content, scores by distance (one distance more than keys) and mixing are three products over all keys,
    computed over the whole square: the mask saves nothing. The keys of distances are made once for all rows of a step
    and not counted.
    """
    D, F = size.width, size.inner
    memory = (keys - length) / length * 2 * 2 * D * D  # keys and values of the memory
    return 2 * (4 * D * D + 2 * D * F) + memory + (4 * keys + 2 * (keys + 1)) * D


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the forward pass of decoder stack and vocabulary, and once
    that of the memory, as long as the row, without its last layer.

    Products with the memory have no gradient for their input: their backward pass is once the forward, not twice.
    """
    D = size.width
    memory = (size.layers - 1) * _layer(size, length, length)
    forward = size.layers * _layer(size, length, 2 * length) + _vocabulary(size, vocabulary, length)
    return 3 * forward - size.layers * 2 * 2 * D * D + memory


def _vocabulary(size: Size, vocabulary: Vocabulary, length: int) -> float:
    return (length - 1) / length * 2 * size.width * vocabulary.size


def likelihood_flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs per token of asking how probable a row of ``length`` is, without a memory."""
    return encoder_flops_per_token(size, length) + _vocabulary(size, vocabulary, length)


def decode_flops(size: Size, vocabulary: Vocabulary, length: int, targets: int) -> float:
    """FLOPs of `Pretrainable.decode` for one row: ``targets`` tokens after ``length``, the vocabulary only for them."""
    whole = length + targets
    return whole * encoder_flops_per_token(size, whole) + targets * 2 * size.width * vocabulary.size
