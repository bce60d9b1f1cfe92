"""ELMo: embeddings from language models.

Peters, Neumann, Iyyer, Gardner, Clark, Lee and Zettlemoyer (2018). Deep Contextualized Word Representations. NAACL.
Taxonomy: contextual; LSTM; BiLM; no extension.

Two language models, one reading forwards and one backwards, are trained together on running text. What a word means
here is then read off all their layers: a task learns how to mix them, since the lower ones know more of syntax and the
higher ones more of sense. The network itself usually stays frozen. Differs from the paper in one thing: tokens are
subwords of the shared vocabulary, looked up in a table, where the paper builds words from characters by a convolution.

    L = - 1/2 [ mean_t ln p(x_t | x_0 ... x_{t-1}) + mean_t ln p(x_t | x_{t+1} ... x_{T-1}) ]

Nearest relative: GPT (`models.gpt`), a language model in one direction only, made of attention instead of recurrence;
where GPT keeps the last layer, ELMo offers them all.
"""

from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

_TABLE_1 = "Peters et al. (2018), table 1"

CARD = Card(
    title="ELMo",
    citation="Peters et al. (2018)",
    year=2018,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("bilm",),
    loss="L_BiLM",
    tokenizer="character",
    corpus="1B Word Benchmark (about 800M tokens)",
    parameters="93.6M",
    reference="none to install: its equations, written out in NumPy",
    licence="Apache-2.0",
    reported=(
        Reported(task="conll2003", metric="f1", value=92.22, source=_TABLE_1),
        Reported(task="squad11", metric="f1", value=85.8, source=_TABLE_1),
        Reported(task="sst5", metric="accuracy", value=54.7, source=_TABLE_1),
    ),
)

# Cells (``inner``) such that the recurrent layers weigh what the Transformer layers of the same size's name do.
SIZES = {
    "tiny": Size(layers=2, width=128, inner=256, length=4096),
    "mini": Size(layers=2, width=256, inner=640, length=4096),
    "small": Size(layers=2, width=512, inner=1280, length=4096),
    "base": Size(layers=2, width=1024, inner=4096, length=4096),
}

LEARNING_RATE = 3e-3
"""With `tiny`, after 150 steps of 1024 tokens of wikitext-2 and novels, the loss is 6.59; with 1e-3 6.92."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.lstm import BidirectionalLstm
    from ptmbench.models.objectives import bilm, lm

    encoder = BidirectionalLstm(size, vocabulary.size)
    loss = bilm.BiLm(encoder)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: lm.batches(corpus, vocabulary, batch, length),
        log_likelihood=loss.log_likelihood,
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in the lookup table, which is the output layer too."""
    P, C, V = size.width // 2, size.inner, vocabulary.size
    direction = 2 * P * 4 * C + 4 * C + C * P
    return V * P + V + size.layers * 2 * direction, V * P


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: matrix products of both directions."""
    P, C = size.width // 2, size.inner
    return 2 * size.layers * 2 * (2 * P * 4 * C + C * P)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the forward pass, both directions with the vocabulary."""
    return 3 * 2 * likelihood_flops_per_token(size, vocabulary, length)


def likelihood_flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs per token of asking how probable a row of ``length`` is: one direction, and the vocabulary once."""
    return encoder_flops_per_token(size, length) / 2 + (length - 1) / length * 2 * (size.width // 2) * vocabulary.size
