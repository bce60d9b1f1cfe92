"""The objectives of T5's comparison: six ways to make an input and a target from one text.

Source: Raffel et al. (2020), sections 3.3.1 and 3.3.2, table 3. The loss of all is that of `seq2seq_mlm`:

    L = - 1/S sum_s ln p(y_s | y_{<s}, x)

    row             "one two three four five six", two and five hidden       target
    prefix_lm       one two three                                            four five six
    bert_style      one [MASK] three four ten six (9 : 1)                    the original
    deshuffling     four one six two five three                              the original
    mask_tokens     one [MASK] three four [MASK] six                         the original
    replace_spans   one <0> three four <1> six                               <0> two <1> five
    drop_tokens     one three four six                                       two five

The seventh, random spans, is T5's own: `seq2seq_mlm`. In bert_style, mask_tokens, replace_spans and drop_tokens, 15 %
of the tokens are drawn one by one (i.i.d. noise). Their number is fixed per row, which keeps rows full.
"""

from collections.abc import Callable

import numpy as np

from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives._rows import add_cls_and_sep, pack_left, pad_to_width
from ptmbench.models.objectives.sampling import TokenRuns, generator
from ptmbench.models.objectives.seq2seq_mlm import RATE
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

SourceAndTarget = tuple[np.ndarray, np.ndarray]
"""Input and target without [CLS] and [SEP], int32 [B, T'] and [B, S'], padded with 0 at the right end."""


def draw_hidden(text: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws `hidden_count` of the L tokens of each row, without replacement: bool [B, L]."""
    drawn = np.zeros(text.shape, bool)
    np.put_along_axis(drawn, np.argsort(rng.random(text.shape), axis=1)[:, : hidden_count(text.shape[1])], True, axis=1)
    return drawn


def hidden_count(length: int) -> int:
    """Returns how many of ``length`` tokens are drawn."""
    return max(1, round(RATE * length))


def prefix_lm(text: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary) -> SourceAndTarget:
    """The first half of the text, and the second. The paper splits at a random point; here it is the middle, which
    keeps rows full."""
    half = text.shape[1] // 2
    return text[:, :half], text[:, half:]


def bert_style(text: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary) -> SourceAndTarget:
    """Of the drawn tokens 90 % become [MASK] and 10 % a random one; the target is the original (section 3.3.1)."""
    drawn, masked = draw_hidden(text, rng), rng.random(text.shape) < 0.9
    other = rng.integers(vocabulary.first, vocabulary.size, text.shape)
    return np.where(drawn, np.where(masked, vocabulary.mask, other), text), text


def deshuffling(text: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary) -> SourceAndTarget:
    """All tokens in random order; the target is the original."""
    return rng.permuted(text, axis=1), text


def mask_tokens(text: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary) -> SourceAndTarget:
    """All drawn tokens become [MASK]; the target is the original. This is the paper's "MASS-style" (section 3.3.2).
    MASS itself hides one fragment, see `models.objectives.mass`."""
    return np.where(draw_hidden(text, rng), vocabulary.mask, text), text


def replace_spans(text: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary) -> SourceAndTarget:
    """Each run of drawn tokens becomes one sentinel; the target lists the sentinels, each followed by the tokens that
    it replaces. Raises `ValueError` if the vocabulary has too few sentinels."""
    drawn, width = draw_hidden(text, rng), hidden_count(text.shape[1])
    opens = drawn & ~np.pad(drawn[:, :-1], [(0, 0), (1, 0)])
    if width > len(vocabulary.sentinels):
        raise ValueError(
            f"A text of {text.shape[1]} tokens can need {width} sentinels and the vocabulary has "
            f"{len(vocabulary.sentinels)}: use shorter inputs."
        )
    number = np.cumsum(opens, axis=1) - 1
    sentinel = np.asarray(vocabulary.sentinels)[np.maximum(number, 0)]
    source = pack_left(np.where(opens, sentinel, text), ~drawn | opens, text.shape[1])
    pairs = np.stack([sentinel, text], axis=2).reshape(len(text), -1)  # each token after its sentinel
    return source, pack_left(pairs, np.stack([opens, drawn], axis=2).reshape(len(text), -1), 2 * width)


def drop_tokens(text: np.ndarray, rng: np.random.Generator, vocabulary: Vocabulary) -> SourceAndTarget:
    """Drawn tokens are removed; the target is these tokens, in order."""
    drawn = draw_hidden(text, rng)
    return text[~drawn].reshape(len(text), -1), text[drawn].reshape(len(text), -1)


NOISES: dict[str, Callable[[np.ndarray, np.random.Generator, Vocabulary], SourceAndTarget]] = {
    noise.__name__: noise for noise in (prefix_lm, bert_style, deshuffling, mask_tokens, replace_spans, drop_tokens)
}


def text_length(length: int, noise: str) -> int:
    """Returns the number of tokens of text whose input fills ``length``, [CLS] and [SEP] included."""
    room = length - 2
    if noise == "prefix_lm":
        return 2 * room
    if noise == "drop_tokens":
        return max(raw for raw in range(2, 2 * length) if raw - hidden_count(raw) <= room)
    return room


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int, noise: str) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` [B, T] and ``targets`` [B, S], each [CLS] ... [SEP]. ``noise``
    is one of `NOISES`. Raises `ValueError` for another one, and for a ``length`` of less than 8."""
    if noise not in NOISES:
        raise ValueError(f"There is no noise {noise}: choose from {', '.join(NOISES)}.")
    if length < 8:
        raise ValueError(f"Inputs of {length} tokens are too short to be damaged: use at least 8.")
    runs = TokenRuns(corpus.ids, text_length(length, noise))

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        source, target = NOISES[noise](runs(step, batch, seed), generator(seed, step), vocabulary)
        return {
            "tokens": pad_to_width(add_cls_and_sep(source, vocabulary), length),
            "targets": add_cls_and_sep(target, vocabulary),
        }

    return make
