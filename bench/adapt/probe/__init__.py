"""Probe: a model as it is writes the missing word of a text; nothing learns.

Petroni et al. (2019), section 4: all models choose among one list of words, and where the right word comes in their
order is what counts. Words are answers if the model's vocabulary has them whole: the others are candidates that come
behind all that it can write, so that every model has the same list. Words that the vocabulary does not tell apart (in
an uncased one "Reading" and "reading") are one candidate.

A model that reads both ways finds [MASK] in the word's place. One that reads from left to right goes by what stands
before it, as in that paper, whatever the sentence says behind.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Cut, Network
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.costs import CausalModel
from ptmbench.tasks.forms import BLANK, Form
from ptmbench.tasks.task import Example, Task


def no_blanks(title: str) -> NotApplicable:
    """Why a model called ``title`` is not asked for missing words."""
    return NotApplicable("fills-no-blanks", f"because {title} does not say how well each word fits into a blank.")


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    def asking(self, network: Network, task: Task, examples: Sequence[Example], cut: Cut) -> tuple[float, float]:
        """A row for each example; a model that reads from left to right reads what stands before the blank."""
        if not network.model.fills:
            raise no_blanks(network.title)
        texts, template = [example.inputs[0] for example in examples], cut.vocabulary.template
        if isinstance(network.model, CausalModel):
            added, texts = len(template.start), [text[: text.index(BLANK)] for text in texts]
        else:
            added, texts = template.added(1), [text.replace(BLANK, "it", 1) for text in texts]
        rows = Counter(min(length + added, self.length) for length in cut.lengths(texts))
        return sum(rows.elements()), network.filling_flops(rows)


class Probe(Adaptation):
    summary = "no training; the word that the model would write into a blank"
    settings = Own
    only = (Form.CLOZE,)
    learns = False

    def respond(self, asked: Any) -> tuple[list[Any], float]:
        from ptmbench.bench.adapt.probe.network import respond

        return respond(asked)


ADAPTATION = Probe()
