"""GPT-2: a language model large enough to do tasks that nobody trained it for.

Radford, Wu, Child, Luan, Amodei and Sutskever (2019). Language Models are Unsupervised Multitask Learners. OpenAI.
Taxonomy: contextual; Transformer decoder; LM; no extension.

A page that explains, translates or answers is text like any other: whoever predicts it well has learnt the task that it
shows. GPT-2 has GPT's objective, and nothing is added for any task, which is asked for by what stands before it. The
network is pre-normalised, so that many layers can be trained, and reads bytes joined by merges (byte-level BPE), so
that no text is beyond it.

    L = - 1/(T - 1) sum_{t >= 1} ln p(x_t | x_0 ... x_{t-1})

Nearest relative: GPT (`models.gpt`), normalised after each layer and fine-tuned. `bench.adapt.prompt` asks GPT-2 for
tasks as the paper does, with or without examples.
"""

from models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from models.pretrainable import Pretrainable
from models.tokenizers import Vocabulary

_TABLE_3 = "Radford et al. (2019), table 3, 117M, not fine-tuned"

CARD = Card(
    title="GPT-2",
    citation="Radford et al. (2019)",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_DECODER,
    objectives=("lm",),
    loss="L_LM",
    tokenizer="bpe",
    corpus="WebText (40 GB of pages that Reddit links to)",
    parameters="117M, 345M, 762M, 1542M",
    reference="transformers' GPT2LMHeadModel",
    licence="Modified MIT",
    reported=(Reported(task="wikitext2", metric="perplexity", value=29.41, source=_TABLE_3),),
)

SIZES = {
    "tiny": TINY,
    "mini": MINI,
    "small": SMALL,
    "base": Size(layers=12, width=768, heads=12, inner=3072, length=1024),
}


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from models.architectures.pre_norm_decoder import PreNormDecoder
    from models.objectives import lm

    encoder = PreNormDecoder(size, vocabulary.size)
    loss = lm.CausalLm(encoder, vocabulary.absent)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: lm.batches(corpus, vocabulary, batch, length),
        decode=loss.decode,
        writer=loss,
        log_likelihood=loss.log_likelihood,
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in lookup tables."""
    D, F = size.width, size.inner
    tables = (vocabulary.size + size.length) * D
    return tables + size.layers * (4 * (D * D + D) + (2 * D * F + F + D) + 4 * D) + 2 * D, tables


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
