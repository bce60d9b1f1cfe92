"""Acceptability: which of two sentences does a model prefer? Both are scored, without training.

A sentence w_1 ... w_n gets one of these scores (``score``), in nats, summed over its tokens without special tokens:

    likelihood    sum_t ln p(w_t | w_<t)                left-to-right models: their own probability of the sentence
    pseudo        sum_t ln p(w_t | w without w_t)       masked models: Salazar et al. (2020), section 2
    within_word   as pseudo, with the later tokens of w_t's word masked, too: PLL-word-l2r of Kauf and Ivanova (2023).
                  Otherwise rare words of several tokens get too high a score
    replaced      sum_t ln p(w_t is no replacement | w) models like ELECTRA, which detect replaced tokens and give no
                  probability of a word
    gap           sum_t ln p(w_t | w_<t, a gap)         models that write whole hidden sentences: the sentence is the
                  gap of an otherwise empty text

Encoder-decoders have the score of their pre-training, `models.pretrainable.Pretrainable.fill` or ``gap_likelihood``.
For a pseudo-likelihood, a token is hidden as in pre-training (by one sentinel or one [MASK]), and the decoder predicts
it. BabyLM's harness of 2023 instead takes the decoder's probability of the sentence given an empty source, which never
occurs in span corruption and denoising.

``auto`` is the first of likelihood, pseudo, replaced and gap that a model has; the record names it (``signatures``). In
models without a start symbol, all first tokens are equally likely. Sentences with the same tokens and channels have the
same score, so rounding never decides between sentences that a model cannot distinguish. A mention that loses a token to
a mask is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Cut, Network
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.costs import CausalModel
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task

SCORES = ("likelihood", "pseudo", "within_word", "replaced", "gap")


def choose(wanted: str, title: str, *, likelihood: bool, pseudo: bool, replaced: bool, gap: bool) -> str:
    """Returns the name of the score to compare. ``wanted`` is the setting, and the flags say which scores the model
    ``title`` has. Raises `NotApplicable` if it does not have the wanted one."""
    has = {"likelihood": likelihood, "pseudo": pseudo, "within_word": pseudo, "replaced": replaced, "gap": gap}
    having = [name for name in SCORES if has[name]]
    if wanted == "auto" and having:
        return having[0]
    if wanted not in having:
        what = "score of a sentence" if wanted == "auto" else f"score {wanted} of a sentence"
        raise NotApplicable("scores-no-sentences", f"because {title} gives no {what}.")
    return wanted


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    score: str = settings.one_of("auto", "auto", *SCORES)
    """The score that is compared."""

    def answering_cost(
        self, network: Network, task: Task, examples: Sequence[Example], cut: Cut
    ) -> tuple[float, float]:
        """Counts a row for each sentence or, for pseudo-likelihoods, for each of its tokens."""
        model, template = network.model, cut.vocabulary.template
        kind = choose(
            self.score, network.title, likelihood=model.tells_likelihood, replaced=model.tells_originals,
            pseudo=model.fills and not isinstance(model, CausalModel), gap=model.fills_gaps,
        )  # fmt: skip
        room = self.length - template.added(1)
        rows = _rows(tuple(text for example in examples for text in example.inputs), cut, room, kind in MASKED)
        read = sum(length * count for length, count in rows.items())
        if kind == "likelihood":
            return read, network.scoring_flops(rows)
        if kind == "gap":
            return read, network.gap_flops({1 + length: count for length, count in rows.items()})
        laid = {template.added(1) + length: count for length, count in rows.items()}
        return read, (network.filling_flops if kind in MASKED else network.reading_flops)(laid)


MASKED = ("pseudo", "within_word")
"""Scores for which a sentence is read once for each of its tokens."""


@lru_cache(maxsize=4)
def _rows(texts: tuple[str, ...], cut: Cut, room: int, masked: bool) -> Mapping[int, float]:
    """The number of rows by their length in tokens, without special tokens. There is one row for each distinct sentence
    or, if ``masked``, for each of its tokens. Sentences that differ in one token share the row without it."""
    sentences = {tuple(pieces)[: int(room / cut.per_piece)] for pieces in cut.pieces(texts)}
    rows = {(s[:i], s[i + 1 :]) for s in sentences for i in range(len(s))} if masked else {(s, ()) for s in sentences}
    found: dict[int, float] = {}
    for before, behind in rows:
        length = round(cut.per_piece * (len(before) + len(behind) + masked))
        found[length] = found.get(length, 0.0) + (cut.per_piece if masked else 1.0)
    return found


class Acceptability(Adaptation):
    summary = "no training; the model's own scores of two sentences"
    settings = Own
    only = (Form.MINIMAL_PAIR,)
    learns = False

    def respond(self, asked: Any) -> tuple[list[Any], float]:
        from ptmbench.bench.adapt.acceptability.network import respond

        return respond(asked)

    def signatures(self, asked: Any) -> Mapping[str, str]:
        from ptmbench.bench.adapt.acceptability.network import choose_score

        return {"accuracy": f"sentences by {choose_score(asked).replace('_', ' ')}"}


ADAPTATION = Acceptability()
