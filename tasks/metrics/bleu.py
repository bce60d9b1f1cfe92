"""Corpus BLEU (Papineni et al., 2002), chrF (Popovic, 2015) and TER (Snover et al., 2006), by sacrebleu with its
defaults (Post, 2018), and its signatures, which say in one line how each was computed.

BLEU: tokenizer 13a, or sacrebleu's own for Chinese, Japanese and Korean (`bleu_into`), mixed case, exponential
smoothing. chrF: character 6-grams, beta 2. TER: edits and shifts of words in lower case, over the references' mean
length; lower is better, and it may pass 100; words are what blanks divide, whatever the language. Texts must be
detokenised.

sacrebleu keeps per-sentence counts for its own bootstrap; the same counts serve ours. They are behind underscores, so
the version is pinned and a test holds our figures against ``corpus_score``.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import hypotheses, references
from ptmbench.tasks.task import DataError

APART = ("zh", "ja", "ko")
"""Languages whose words sacrebleu tells apart in a way of their own, for BLEU."""

_BLEU = 10
"""Columns of BLEU: words of prediction and reference, then right and all n-grams for n = 1 .. 4."""
_CHRF = 18
"""Columns of chrF: predicted, reference and common n-grams of characters for n = 1 .. 6."""

_TER = 2
"""Columns of TER: edits, mean length of the references."""


@cache
def _scorers(language: str = "") -> tuple[Any, Any, Any]:
    from sacrebleu.metrics import BLEU, CHRF, TER  # a fifth of a second: not before a score is asked for

    try:  # ``force`` only silences the warning about texts that look tokenised.
        return BLEU(force=True, trg_lang=language), CHRF(), TER()
    except RuntimeError as error:  # Japanese and Korean are told apart by dictionaries
        raise DataError(
            f"BLEU into '{language}' takes a tokenizer that is not installed: pip install 'sacrebleu[{language}]'."
        ) from error


def _statistics(gold: Sequence[Sequence[str]], predictions: Sequence[str], language: str = "") -> np.ndarray:
    if not len(gold):
        return np.zeros((0, _BLEU + _CHRF + _TER))
    guesses = hypotheses(predictions)
    texts_of = [texts for texts, _ in zip(references(gold), guesses, strict=True)]
    # First references, second references, ...: None where a sentence has fewer of them than another.
    most = max(map(len, texts_of))
    padded = [texts + [None] * (most - len(texts)) for texts in texts_of]
    streams = list(zip(*padded, strict=True))
    parts = [scorer._extract_corpus_statistics(guesses, streams) for scorer in _scorers(language)]
    return np.concatenate([np.array(part, np.float64) for part in parts], axis=1)  # [N, 30]


def _value(sums: np.ndarray) -> dict[str, float]:
    bleu, chrf, ter = _scorers()
    counts = sums.tolist()
    return {
        "bleu": float(bleu._compute_score_from_stats(counts[:_BLEU]).score),
        "chrf": float(chrf._compute_score_from_stats(counts[_BLEU : _BLEU + _CHRF]).score),
        "ter": float(ter._compute_score_from_stats(counts[_BLEU + _CHRF :]).score),
    }


def _signatures(gold: Sequence[Sequence[str]], language: str = "") -> dict[str, str]:
    counts, found = {len(texts) for texts in references(gold)}, {}
    for name, scorer in zip(("bleu", "chrf", "ter"), _scorers(language), strict=True):
        scorer.num_refs = min(counts) if len(counts) == 1 else -1  # -1: not every sentence has as many
        found[name] = str(scorer.get_signature())
    return found


bleu = Additive(_statistics, _value, _signatures)
"""{"bleu", "chrf", "ter"} in percent, over the whole corpus (not the mean over sentences)."""


@cache
def bleu_into(language: str) -> Additive:
    """`bleu` of texts in ``language``, as sacrebleu scores translations into it."""
    if language not in APART:
        return bleu
    return Additive(partial(_statistics, language=language), _value, partial(_signatures, language=language))
