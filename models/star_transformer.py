"""The Star-Transformer: neighbours talk to each other, and all of them to one relay.

Guo, Qiu, Liu, Shao, Xue and Zhang (2019). Star-Transformer. NAACL.
Taxonomy: contextual; Transformer encoder (sparse: a ring and a star); MLM here; no extension.

In a Transformer every word looks at every other, which takes T^2 looks and, for want of any notion of nearness, much
text to learn from. Here a word looks at its two neighbours on a ring, at itself and its own embedding, and at a relay;
the relay looks at all words. So any two are two steps apart, and the cost grows with T. The survey lists it as an
architecture: the paper trains it on tasks from scratch. Here it is pre-trained by MLM on rows of full sentences, so
that it can be compared.

    L = L_MLM = - 1/|M| sum_{t in M} ln p(x_t | x with M hidden)

Nearest relative: RoBERTa (`models.roberta`), the same objective and rows over layers in which all words see each
other, with feed-forward layers, which this has not: the layers of a size weigh two thirds of RoBERTa's.
"""

from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.layers.heads import MaskedLmConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

CARD = Card(
    title="Star-Transformer",
    citation="Guo et al. (2019)",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm",),
    loss="L_MLM",
    tokenizer="word",
    corpus="none: the paper trains on each task by itself, over GloVe vectors",
    parameters="not printed",
    reference="none to install: its equations, term by term",
    reported=(Reported(task="sst5", metric="accuracy", value=52.9, source="Guo et al. (2019), results on SST"),),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.star_encoder import StarEncoder
    from ptmbench.models.objectives import _joint, mlm, sampling

    encoder = StarEncoder(size, vocabulary.size)

    def batches(corpus, batch, length):
        texts = sampling.FullSentences(corpus, vocabulary, length)

        def make(step, seed):
            rows, _ = texts(step, batch, seed)
            return mlm.noise(rows, sampling.generator(seed, step), vocabulary)

        return make

    words = MaskedLmConfig(width=size.width, inner=size.width, vocabulary=vocabulary.size)
    loss = _joint.Joint(encoder, [mlm.MaskedLm(words, encoder)])
    return Pretrainable(encoder=encoder, loss=loss, batches=batches)


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights of encoder and head, and of those in lookup tables."""
    D, L, V = size.width, size.layers, vocabulary.size
    tables = (V + size.length) * D
    return tables + (2 * L - 1) * (4 * (D * D + D) + 2 * D) + D * D + 3 * D + V, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: matrix products, and attention over five
    keys for each token, and over the row for the relay."""
    D, L = size.width, size.layers
    satellite = 2 * (6 * D * D + 2 * D * D / length) + 4 * 5 * D
    relay = 2 * (2 * D * D + 4 * D * D / length) + 4 * D * (length + 1) / length
    return L * satellite + (L - 1) * relay


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the forward pass of encoder and head."""
    D, V = size.width, vocabulary.size
    masked = -(-15 * length // 100) / length  # only these positions reach the vocabulary
    return 3 * (encoder_flops_per_token(size, length) + masked * 2 * (D * D + D * V))
