"""GPT: one left-to-right language model, fine-tuned for every task.

Radford, Narasimhan, Salimans and Sutskever (2018). Improving Language Understanding by Generative Pre-Training. OpenAI.
Taxonomy: contextual; Transformer decoder; LM; no extension.

Predicting the next word needs no labels and, over long texts, more than grammar. GPT trains a Transformer decoder
on it and then fine-tunes the whole network with one linear layer on the vector of the last token, the only one that
has seen the whole input. Pairs are written one after the other with a delimiter between them; there are no
segments.

    L = - 1/(T - 1) sum_{t >= 1} ln p(x_t | x_0 ... x_{t-1})

Nearest relative: BERT (`models.bert`), the same layers without the mask over the future. Beside it GPT learns from
every token of a row, not from 15 %, but each token is seen from its left only.
"""

from models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from models.pretrainable import Pretrainable
from models.tokenizers import Vocabulary

_TABLE_2 = "Radford et al. (2018), table 2"
_TABLE_4 = "Radford et al. (2018), table 4"

CARD = Card(
    title="GPT",
    citation="Radford et al. (2018)",
    year=2018,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_DECODER,
    objectives=("lm",),
    loss="L_LM",
    tokenizer="bpe",
    corpus="BooksCorpus (over 7,000 unpublished books)",
    parameters="117M",
    reference="transformers' OpenAIGPTLMHeadModel",
    licence="MIT",
    reported=(
        Reported(task="glue", metric="average", value=72.8, source="Qiu et al. (2020), table 2"),
        Reported(task="cola", metric="mcc", value=45.4, source=_TABLE_4),
        Reported(task="sst2", metric="accuracy", value=91.3, source=_TABLE_4),
        Reported(task="mrpc", metric="f1", value=82.3, source=_TABLE_4),
        Reported(task="stsb", metric="pearson", value=82.0, source=_TABLE_4),
        Reported(task="qqp", metric="f1", value=70.3, source=_TABLE_4),
        Reported(task="mnli", metric="accuracy", value=82.1, source=_TABLE_2),
        Reported(task="mnli_mm", metric="accuracy", value=81.4, source=_TABLE_2),
        Reported(task="qnli", metric="accuracy", value=88.1, source=_TABLE_2),
        Reported(task="rte", metric="accuracy", value=56.0, source=_TABLE_2),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

LEARNING_RATE = 6e-4
"""At width 128; `bench.engine.recipe` lowers it with the width. Normalising after each layer does not bear more: the
mini size stays at unigram loss (6.9 after 320 steps on wikitext-2 and novels) at 1e-3, and learns (6.1 after 230) at
3e-4."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from models.architectures.transformer_decoder import TransformerDecoder
    from models.objectives import lm

    encoder = TransformerDecoder(size, vocabulary.size)
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
    return tables + size.layers * (4 * (D * D + D) + (2 * D * F + F + D) + 4 * D), tables


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
