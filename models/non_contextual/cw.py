"""C&W: word vectors from a ranking of text windows above the same windows with a random word in the middle.

Collobert and Weston (2008). A Unified Architecture for Natural Language Processing: Deep Neural Networks with
Multitask Learning. ICML. The details are those of Collobert et al. (2011), Natural Language Processing (Almost) from
Scratch, JMLR 12.
Taxonomy: non-contextual; lookup table; pairwise ranking; no extension.

A language model needs probabilities over the whole vocabulary. To learn vectors, it is enough to score windows: a
window of text has to score higher, by at least 1, than the same window with a random middle word. So no sum over the
vocabulary is needed, and the window has words on both sides. The small network that computes the score is dropped.

    L = max(0, 1 - f(x) + f(x^(w))),        f(x) = a . HardTanh(M [v_1; ...; v_11] + d) + e

Nearest relative: `nnlm`, which predicts the next word from the left context only. Later, word2vec (`word2vec`) removed
the network as well.
"""

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.vector_heads import WindowRankingConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_4 = "Pennington et al. (2014), table 4, 50 per word, as features of a CRF"

CARD = Card(
    title="C&W",
    citation="Collobert and Weston (2008)",
    paper="A Unified Architecture for Natural Language Processing: Deep Neural Networks with Multitask Learning",
    url="https://doi.org/10.1145/1390156.1390177",
    year=2008,
    representation=Representation.NON_CONTEXTUAL,
    architecture=Architecture.LOOKUP,
    objectives=("ranking",),
    loss="L_rank",
    tokenizer="word",
    corpus="English Wikipedia (631 million words); in 2011 with Reuters (852 million)",
    parameters="50 per word; 30,000 words, in 2011 up to 130,000",
    reference="none to install: its equations, written out in NumPy",
    optimizer="SGD",
    reported=(Reported(task="conll2003", metric="f1", value=87.4, source=_TABLE_4),),
)

SIZES = word_vectors.WINDOW_SIZES


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    head = WindowRankingConfig(width=size.width, inner=size.inner)
    return EncoderModel(encoder=word_vectors.words(size, vocabulary.size), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.vectors import built
    from ptmbench.models.objectives import ranking

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = ranking.WindowRanking.over(encoder, described.heads[0])
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=ranking.batches.of(),
    )
