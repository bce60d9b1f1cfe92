"""GloVe: word vectors whose products are the logarithms of co-occurrence counts.

Pennington, Socher and Manning (2014). GloVe: Global Vectors for Word Representation. EMNLP.
Taxonomy: non-contextual; lookup table; weighted least squares on co-occurrences; no extension.

The corpus is read once, to count how often two words occur near each other; training needs only these counts. Ratios of
co-occurrence counts show meaning: "solid" is near "ice" more often than near "steam", and "gas" less often. Differences
of logarithms are such ratios, so vectors are fitted to logarithms. Rare pairs are noise and have less weight; the
weight of very frequent pairs is limited. In the end, the two vectors of a word are added.

    L = f(X_ij) (w_i . w~_j + b_i + b~_j - ln X_ij)^2,        f(x) = min(1, (x / 100)^(3/4)),        v_i = w_i + w~_i

Nearest relative: `word2vec`, which reads the same pairs one by one and fits them by logistic regression. The
paper trains with AdaGrad (`--set optimizer=adagrad`); here the default optimizer is the same for all models.
"""

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.vector_heads import GloveConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_4 = "Pennington et al. (2014), table 4, 50 per word, as features of a CRF"

CARD = Card(
    title="GloVe",
    citation="Pennington et al. (2014)",
    paper="GloVe: Global Vectors for Word Representation",
    url="https://aclanthology.org/D14-1162/",
    year=2014,
    representation=Representation.NON_CONTEXTUAL,
    architecture=Architecture.LOOKUP,
    objectives=("glove",),
    loss="L_GloVe",
    tokenizer="word",
    corpus="Wikipedia 2014 and Gigaword 5 (6 billion words); Common Crawl (42 billion)",
    parameters="300 per word; 400,000 words",
    reference="mittens' GloVe: cost, gradient and vectors; its counts, by brute force in NumPy",
    optimizer="AdaGrad",
    licence="PDDL 1.0",
    reported=(Reported(task="conll2003", metric="f1", value=88.3, source=_TABLE_4),),
)

SIZES = word_vectors.SIZES

LEARNING_RATE = 1e-2
"""The rate of `word2vec`, which also has a pair of tables."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    head = GloveConfig(width=size.width, words=vocabulary.size)
    return EncoderModel(encoder=word_vectors.sums(size, vocabulary.size), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.vectors import built
    from ptmbench.models.objectives import glove

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    loss = glove.Glove.over(encoder, described.heads[0])
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=glove.batches.of(),
    )
