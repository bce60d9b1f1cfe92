"""NNLM: the first neural language model, whose word vectors were a by-product.

Bengio, Ducharme, Vincent and Jauvin (2003). A Neural Probabilistic Language Model. JMLR 3.
Taxonomy: non-contextual; lookup table; LM; no extension.

An n-gram model has never seen most word sequences. Here each word gets a vector, the vectors of the four words before
are put side by side, and one hidden layer predicts the next word: sequences that are alike get alike probabilities.
What a word has learned elsewhere comes with its vector, which is the idea that all later models live on.

    L = - ln softmax(b + U tanh(d + H [v_{t-4}; ...; v_{t-1}]))_{x_t}

Nearest relative: GPT (`models.gpt`), the same question asked of all the words before. The direct connections from the
vectors to the output, which the paper found to be of no help, are left out.
"""

from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

CARD = Card(
    title="NNLM",
    citation="Bengio et al. (2003)",
    year=2003,
    representation=Representation.NON_CONTEXTUAL,
    architecture=Architecture.LOOKUP,
    objectives=("window_lm",),
    loss="L_LM",
    tokenizer="word",
    corpus="Brown corpus (1.2 million words); AP News (14 million)",
    parameters="30 or 60 per word, 16,383 words (Brown); 100 per word, 17,964 words (AP News)",
    reference="none to install: its equations, written out in NumPy",
    optimizer="SGD",
)

SIZES = {
    "tiny": Size(layers=0, width=128, inner=128, length=4096),
    "mini": Size(layers=0, width=256, inner=256, length=4096),
    "small": Size(layers=0, width=512, inner=512, length=4096),
    "base": Size(layers=0, width=1000, inner=1000, length=4096),
}


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The table and the network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.word_vectors import WordVectors
    from ptmbench.models.objectives import lm, window_lm

    encoder = WordVectors(size, vocabulary.size)
    loss = window_lm.WindowLm(encoder, size.inner)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: lm.batches(corpus, vocabulary, batch, length),
        log_likelihood=loss.log_likelihood,
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in the lookup table."""
    D, F, V = size.width, size.inner, vocabulary.size
    return V * D + 4 * D * F + F + F * V + V, V * D


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token: a lookup multiplies nothing."""
    return 0.0


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the forward pass."""
    return 3 * likelihood_flops_per_token(size, vocabulary, length)


def likelihood_flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs per token of asking how probable a row of ``length`` is: the first token is not predicted."""
    return 2 * 4 * size.width * size.inner + (length - 1) / length * 2 * size.inner * vocabulary.size
