"""ELMo that reads letters: the network of the paper, whole.

Peters, Neumann, Iyyer, Gardner, Clark, Lee and Zettlemoyer (2018). Deep Contextualized Word Representations. NAACL.
Taxonomy: contextual; LSTM; BiLM; no extension.

A word's vector is made from its letters, by filters that find runs of one to seven of them, so that rare words and
endings have something to say; above are the two language models of `models.elmo`, one for each direction, and a task
mixes what the letters say with both layers. What is predicted are words, by an output layer of their own; its softmax
is over the whole vocabulary here, where the paper samples. Words come as the vocabulary has them: a piece is spelled as
a piece, and `--tokenizer word`, which is nearest to the paper, has one [UNK] for all words that it does not know.

    L = - 1/2 [ mean_t ln p(x_t | x_0 ... x_{t-1}) + mean_t ln p(x_t | x_{t+1} ... x_{T-1}) ]

Nearest relative: ELMo (`models.elmo`), which looks tokens up in a table that is its output layer too; it is the quicker
one.
"""

from ptmbench.models.card import Architecture, Card, Reported, Representation, Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary

_TABLE_1 = "Peters et al. (2018), table 1"

CARD = Card(
    title="ELMo (characters)",
    citation="Peters et al. (2018)",
    year=2018,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("bilm",),
    loss="L_BiLM",
    tokenizer="word",
    corpus="1B Word Benchmark (about 800M tokens)",
    parameters="93.6M",
    reference="AllenNLP's _ElmoBiLm and ScalarMix; torch's LSTM with projection; losses, written out in NumPy",
    reported=(
        Reported(task="conll2003", metric="f1", value=92.22, source=_TABLE_1),
        Reported(task="squad11", metric="f1", value=85.8, source=_TABLE_1),
        Reported(task="sst5", metric="accuracy", value=54.7, source=_TABLE_1),
    ),
)

# Those of `models.elmo`; the filters have their part beside them, 2048 at base as in the paper.
SIZES = {
    "tiny": Size(layers=2, width=128, inner=256, length=4096),
    "mini": Size(layers=2, width=256, inner=640, length=4096),
    "small": Size(layers=2, width=512, inner=1280, length=4096),
    "base": Size(layers=2, width=1024, inner=4096, length=4096),
}

LEARNING_RATE = 3e-3
"""As for ELMo (`models.elmo`)."""

_FILTERS = {1: 32, 2: 32, 3: 64, 4: 128, 5: 256, 6: 512, 7: 1024}
"""How many filters there are of each width, at a width D of 1024."""
_LETTERS, _LETTER = 50, 16
"""Symbols of a word, and the width of a symbol's vector (see `models.architectures.character_lstm`)."""


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from ptmbench.models.architectures.character_lstm import CharacterLstm
    from ptmbench.models.objectives import bilm, lm

    encoder = CharacterLstm(size, vocabulary, _filters(size))
    loss = bilm.SpelledBiLm(encoder, vocabulary.size)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lambda corpus, batch, length: lm.batches(corpus, vocabulary, batch, length),
        log_likelihood=loss.log_likelihood,
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights, and of those in the tables: of the symbols that are read and the words that are told."""
    P, C, V, F = size.width // 2, size.inner, vocabulary.size, sum(count for _, count in _filters(size))
    tables = (256 + vocabulary.first + 3) * _LETTER + V * P
    letters = sum((wide * _LETTER + 1) * count for wide, count in _filters(size))
    direction = 2 * P * 4 * C + 4 * C + C * P
    return tables + letters + 2 * (F + 1) * 2 * F + (F + 1) * P + V + size.layers * 2 * direction, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: letters, and both directions."""
    return embedding_flops_per_token(size) + 2 * _direction(size)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the forward pass, both directions with the vocabulary."""
    letters = embedding_flops_per_token(size)
    return 3 * (letters + 2 * (likelihood_flops_per_token(size, vocabulary, length) - letters))


def likelihood_flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs per token of asking how probable a row of ``length`` is: letters, one direction, and the vocabulary."""
    words = (length - 1) / length * 2 * (size.width // 2) * vocabulary.size
    return embedding_flops_per_token(size) + _direction(size) + words


def embedding_flops_per_token(size: Size) -> float:
    """FLOPs per token of the filters at all their places, the two highway layers and the projection."""
    F = sum(count for _, count in _filters(size))
    places = sum((_LETTERS - wide + 1) * wide * count for wide, count in _filters(size))
    return 2 * (places * _LETTER + 2 * F * 2 * F + F * (size.width // 2))


def _filters(size: Size) -> list[tuple[int, int]]:
    """Widths of filters, and how many each has in this size."""
    return [(wide, max(1, count * size.width // 1024)) for wide, count in _FILTERS.items()]


def _direction(size: Size) -> float:
    """FLOPs per token of the layers of one direction."""
    P, C = size.width // 2, size.inner
    return 2 * size.layers * (2 * P * 4 * C + C * P)
