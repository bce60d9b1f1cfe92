"""Words: similarities and analogies by a model's vectors of single words, without training.

The similarity of two words is the cosine of their vectors. A question "a is to b as c is to what" is answered by the
word whose vector is nearest to b - a + c, all of length 1 (Mikolov, Yih & Zweig, 2013, section 4; "3CosAdd" in Levy &
Goldberg, 2014, equation 2).

A model reads each word alone, in its own template, with the spelling that it has inside a text. The word's vector is
the mean over its tokens, by default of their embeddings, because the higher layers of a contextual model mostly reflect
that the context is missing. ``--set layers=top`` uses the last layer, ``layers=all`` the mean of all layers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Cut, Network
from ptmbench.bench.adapt.settings import Settings
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task


def words_of(form: Form, examples: Sequence[Example]) -> list[str]:
    """All words of ``examples``, each once. The candidates of questions are the same for all examples."""
    candidates = examples[0].gold.candidates if form is Form.ANALOGY else ()
    return list(dict.fromkeys([*candidates, *(word for example in examples for word in example.inputs)]))


def comparing_flops(form: Form, examples: Sequence[Example], width: int) -> float:
    """FLOPs of comparing vectors of ``width``: of two words, or of a question and all candidates."""
    compared = len(examples) * (len(examples[0].gold.candidates) if form is Form.ANALOGY else 1)
    return 2.0 * compared * width


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    def answering_cost(
        self, network: Network, task: Task, examples: Sequence[Example], cut: Cut
    ) -> tuple[float, float]:
        """As in `Effort.answering_cost`, with a row for each word and the comparisons of the words' vectors."""
        added = cut.vocabulary.template.added(1)
        lengths = [min(one + added, self.length) for one in cut.lengths(words_of(task.form, examples))]
        above = self.layers in ("top", "all")
        read = network.reading_flops(Counter(lengths)) if above else network.embedding(sum(lengths))
        return sum(lengths), read + comparing_flops(task.form, examples, network.shape.width)


class Words(Adaptation):
    summary = "no training; cosines and sums of the vectors of single words"
    settings = Own
    only = (Form.SIMILARITY, Form.ANALOGY)
    learns = False

    def respond(self, asked: Any) -> tuple[list[Any], float]:
        from ptmbench.bench.adapt.words.network import respond

        return respond(asked)


ADAPTATION = Words()
