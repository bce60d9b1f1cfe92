"""NNLM: the first neural language model, whose word vectors were a by-product.

Bengio, Ducharme, Vincent and Jauvin (2003). A Neural Probabilistic Language Model. JMLR 3.
Taxonomy: non-contextual; lookup table; LM; no extension.

An n-gram model has never seen most word sequences. Here each word gets a vector, the vectors of the previous four words
are concatenated, and one hidden layer predicts the next word: similar sequences get similar probabilities. A word's
vector carries over what was learned in other contexts. All later models build on this idea.

    L = - ln softmax(b + U tanh(d + H [v_{t-4}; ...; v_{t-1}]))_{x_t}

Nearest relative: GPT (`gpt`), which has the same objective with all previous words as context. The direct connections
from the vectors to the output are left out, because the paper found that they do not help.
"""

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.costs import WindowModel
from ptmbench.models.layers.vector_heads import WindowLmConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="NNLM",
    citation="Bengio et al. (2003)",
    paper="A Neural Probabilistic Language Model",
    url="https://www.jmlr.org/papers/v3/bengio03a.html",
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

SIZES = word_vectors.WINDOW_SIZES


def describe(size: Size, vocabulary: Vocabulary) -> WindowModel:
    """Returns the configuration of the network of ``size``."""
    head = WindowLmConfig(width=size.width, inner=size.inner, words=vocabulary.size)
    return WindowModel(encoder=word_vectors.words(size, vocabulary.size), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.vectors import built
    from ptmbench.models.objectives import lm, window_lm

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = window_lm.WindowLm.over(encoder, described.heads[0])
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lm.batches.of(vocabulary),
        log_likelihood=loss.log_likelihood,
    )
