"""Corpus BLEU (Papineni et al., 2002), chrF (Popovic, 2015) and TER (Snover et al., 2006), computed by sacrebleu with
its defaults (Post, 2018). Its signatures describe in one line how each value is computed.

BLEU: mixed case, exponential smoothing, tokenizer 13a, or sacrebleu's own for Chinese, Japanese and Korean
(`bleu_into`). chrF: character 6-grams, beta 2. TER: edits and shifts of lower-cased words, divided by the mean length
of the references. Lower TER is better, and it can exceed 100. For TER, words are separated by spaces in all languages.
Texts must be detokenised.

sacrebleu keeps per-sentence counts for its own bootstrap, and ours uses the same counts. They are not part of its
public API, so the version is pinned and a test compares our values with ``corpus_score``.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import hypotheses, references
from ptmbench.tasks.task import DataError

OWN_TOKENIZER = ("zh", "ja", "ko")
"""Languages for which sacrebleu's BLEU has a tokenizer of its own."""

_BLEU = 10
"""Columns of BLEU: lengths of prediction and reference, then the matching and all n-grams for n = 1 .. 4."""
_CHRF = 18
"""Columns of chrF: predicted, reference and common character n-grams for n = 1 .. 6."""

_TER = 2
"""Columns of TER: edits, mean length of the references."""


@cache
def _scorers(language: str = "") -> tuple[Any, Any, Any]:
    from sacrebleu.metrics import BLEU, CHRF, TER  # the import takes a fifth of a second

    try:  # ``force`` only silences the warning about texts that look tokenised.
        return BLEU(force=True, trg_lang=language), CHRF(), TER()
    except RuntimeError as error:  # Japanese and Korean need dictionaries
        raise DataError(
            f"BLEU into '{language}' takes a tokenizer that is not installed: pip install 'sacrebleu[{language}]'."
        ) from error


def _statistics(gold: Sequence[Sequence[str]], predictions: Sequence[str], language: str = "") -> np.ndarray:
    if not len(gold):
        return np.zeros((0, _BLEU + _CHRF + _TER))
    guesses = hypotheses(predictions)
    texts_of = [texts for texts, _ in zip(references(gold), guesses, strict=True)]
    # Lists of first references, of second references, and so on. None if a sentence has fewer references.
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
        scorer.num_refs = min(counts) if len(counts) == 1 else -1  # -1: the number of references varies
        found[name] = str(scorer.get_signature())
    return found


bleu = Additive(_statistics, _value, _signatures)
"""{"bleu", "chrf", "ter"} in percent, over the whole corpus (not the mean over sentences)."""


@cache
def bleu_into(language: str) -> Additive:
    """`bleu` with sacrebleu's tokenizer for translations into ``language``."""
    if language not in OWN_TOKENIZER:
        return bleu
    return Additive(partial(_statistics, language=language), _value, partial(_signatures, language=language))
