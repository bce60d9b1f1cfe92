"""Words: similarities and analogies from a model's vectors of single words, without any training.

How alike two words are is the cosine of their vectors. A question "a is to b as c is to what" is answered by the word
whose vector is nearest to b - a + c, all of length 1 (Mikolov, Yih & Zweig, 2013, section 4; "3CosAdd" in Levy &
Goldberg, 2014, equation 2).

Every model is read alone: the word by itself, in its own template, as it is spelled inside a text. The word's vector is
the mean over its tokens, of the embeddings by default: what a contextual model makes of a word without a context is
mostly the context that it misses. ``--set layers=top`` takes the last layer, ``layers=all`` the mean of all.
"""

from typing import Any

from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.settings import Settings
from ptmbench.tasks.forms import Form


class Words(Adaptation):
    summary = "no training; cosines and sums of the vectors of single words"
    settings = Settings
    only = (Form.SIMILARITY, Form.ANALOGY)
    learns = False

    def respond(self, asked: Any) -> tuple[list[Any], float]:
        from ptmbench.bench.adapt.words.network import respond

        return respond(asked)


ADAPTATION = Words()
