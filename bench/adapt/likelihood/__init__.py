"""Likelihood: how probable a language model finds a text, without any training."""

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


ADAPTATION = Likelihood()
