"""Probe: a model as it is writes the missing word of a text; nothing learns.

Petroni et al. (2019), section 4: all models choose among one list of words, and where the right word comes in their
order is what counts. Words are answers if the model's vocabulary has them whole: the others are candidates that come
behind all that it can write, so that every model has the same list. Words that the vocabulary does not tell apart (in
an uncased one "Reading" and "reading") are one candidate.

A model that reads both ways finds [MASK] in the word's place. One that reads from left to right goes by what stands
before it, as in that paper, whatever the sentence says behind.
"""

from typing import Any

from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.settings import Settings
from ptmbench.tasks.forms import Form


class Probe(Adaptation):
    summary = "no training; the word that the model would write into a blank"
    settings = Settings
    only = (Form.CLOZE,)
    learns = False

    def respond(self, asked: Any) -> tuple[list[Any], float]:
        from ptmbench.bench.adapt.probe.network import respond

        return respond(asked)


ADAPTATION = Probe()
