"""Acceptability: which of two sentences does a model prefer? It scores both without training.

A sentence w_1 ... w_n has one of these scores (``score``), in nats and summed over its tokens, special ones left out:

    likelihood    sum_t ln p(w_t | w_<t)                left-to-right models: their own probability of the sentence
    pseudo        sum_t ln p(w_t | w without w_t)       masked models: Salazar et al. (2020), section 2
    within_word   as pseudo, and the later tokens of w_t's word are masked with it: PLL-word-l2r of Kauf and Ivanova
                  (2023), since a rare word that is cut into pieces is too likely otherwise
    replaced      sum_t ln p(w_t is no replacement | w) models like ELECTRA, which tell replaced tokens and no
                  probability of a word
    gap           sum_t ln p(w_t | w_<t, a gap)         models that write whole hidden sentences: the sentence as the
                  gap of a text that has nothing else

Encoder-decoders have the score that their pre-training teaches, `models.pretrainable.Pretrainable.fill` or
``gap_likelihood``: for a pseudo-likelihood they hide a token as they do in pre-training (one sentinel, one [MASK]), and
the decoder says what it was. BabyLM's harness of 2023 asks all encoder-decoders for the decoder's probability of the
sentence over an empty source, which span corruption and denoising never show.

``auto`` is the first of likelihood, pseudo, replaced and gap that a model has; the record names it (``signatures``). A
model without a start symbol finds all first tokens as likely. Sentences of the same tokens have the same score, so that
rounding never decides what a model cannot see.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.settings import Settings
from ptmbench.tasks.forms import Form

SCORES = ("likelihood", "pseudo", "within_word", "replaced", "gap")


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    score: str = settings.one_of("auto", "auto", *SCORES)
    """What is compared."""


class Acceptability(Adaptation):
    summary = "no training; the model's own scores of two sentences"
    settings = Own
    only = (Form.MINIMAL_PAIR,)
    learns = False

    def respond(self, asked: Any) -> tuple[list[Any], float]:
        from ptmbench.bench.adapt.acceptability.network import respond

        return respond(asked)

    def signatures(self, asked: Any) -> Mapping[str, str]:
        from ptmbench.bench.adapt.acceptability.network import chosen

        return {"accuracy": f"sentences by {chosen(asked).replace('_', ' ')}"}


ADAPTATION = Acceptability()
