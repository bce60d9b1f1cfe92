"""CBOW: one vector per word, learned from the mean of the words around it.

Mikolov, Chen, Corrado and Dean (2013). Efficient Estimation of Word Representations in Vector Space. ICLR workshop.
Taxonomy: non-contextual; lookup table; CBOW; no extension.

The other half of word2vec. A window's words are thrown into a bag, and the mean of their vectors has to tell the word
in the middle from a few random ones. A word in the middle is predicted once, not once per neighbour: faster by the size
of the window, and smoother, so that frequent words profit more than rare ones.

    L = - ln s(u_w . h) - k E_{n ~ p} ln s(- u_n . h),        h = mean of v_c over the words c around w

Nearest relative: word2vec's skip-gram (`models.word2vec`), the same two tables with the arrow turned round.
"""

from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

_TABLE_4 = "Pennington et al. (2014), table 4, 50 per word, as features of a CRF"

CARD = Card(
    title="CBOW",
    citation="Mikolov et al. (2013)",
    year=2013,
    representation=Representation.NON_CONTEXTUAL,
    architecture=Architecture.LOOKUP,
    objectives=("cbow",),
    loss="L_CBOW-NS",
    tokenizer="word",
    corpus="Google News (6 billion words)",
    parameters="300 per word; vocabulary of one million",
    reference="gensim's Word2Vec: steps, what is dropped and drawn; its equations, written out in NumPy",
    optimizer="SGD",
    reported=(Reported(task="conll2003", metric="f1", value=88.2, source=_TABLE_4),),
)

SIZES = {
    "tiny": Size(layers=0, width=128, length=4096),
    "mini": Size(layers=0, width=256, length=4096),
    "small": Size(layers=0, width=512, length=4096),
    "base": Size(layers=0, width=1000, length=4096),
}

LEARNING_RATE = 1e-2
"""With `tiny`, after 100 steps of 4096 tokens of wikitext-2, the loss is 2.77; with 1e-3 4.09."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The table of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.word_vectors import WordVectors
    from ptmbench.models.objectives import cbow

    encoder = WordVectors(size, vocabulary.size)
    return Pretrainable(encoder=encoder, loss=cbow.Cbow(encoder), batches=cbow.batches)


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in lookup tables: the same, the contexts' and the answers' vectors."""
    return 2 * vocabulary.size * size.width, 2 * vocabulary.size * size.width


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token: a lookup multiplies nothing."""
    return 0.0


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: means over the tokens of a block and beside it, whose shares have no
    gradient, and three times the scores with the row's noise words."""
    noise = 64  # words per row
    blocks = -(-length // 32)
    block = -(-length // blocks)
    means = (block + 2 * 5) * blocks * block / length
    return 2 * 2 * size.width * means + 3 * 2 * size.width * noise
