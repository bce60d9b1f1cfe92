"""Likelihood: how probable a language model finds a text, without any training.

A task whose ``extra`` has ``"score": "pseudo"`` asks models that fill blanks instead, for the pseudo-likelihood of each
text (PLL-word-l2r of Kauf and Ivanova, 2023: a token is asked for while it and the later tokens of its word are
masked). One with ``"bytes": True`` also counts the bytes that [UNK] hides.
"""

from collections.abc import Mapping
from typing import Any

from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.settings import Settings
from ptmbench.tasks.forms import Form


class Likelihood(Adaptation):
    summary = "no training; the model's own probabilities of a text"
    settings = Settings
    only = (Form.LANGUAGE_MODELLING,)
    learns = False

    def respond(self, asked: Any) -> tuple[list[Any], float]:
        from ptmbench.bench.adapt.likelihood.network import respond

        return respond(asked)

    def signatures(self, asked: Any) -> Mapping[str, str]:
        if not asked.task.extra.get("bytes"):
            return {}
        from ptmbench.bench.adapt.likelihood.network import signature

        return {asked.task.headline: signature(asked)}


ADAPTATION = Likelihood()
