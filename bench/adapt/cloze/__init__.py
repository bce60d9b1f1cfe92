"""Cloze: the model fills the blank of a text, without training.

Petroni et al. (2019), section 4. All models choose from one list of words, and the result is the rank of the right
word. Only words that are one token in the model's vocabulary are scored. The other words are ranked behind all of
these, so that every model has the same list. Words that the vocabulary does not distinguish ("Reading" and "reading" in
an uncased one) are one candidate.

A model that reads in both directions sees [MASK] in place of the word. A left-to-right model sees only the text before
the blank, as in that paper.
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
    """The reason why the model ``title`` cannot fill in missing words."""
    return NotApplicable("fills-no-blanks", f"because {title} does not say how well each word fits into a blank.")


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    def answering_cost(
        self, network: Network, task: Task, examples: Sequence[Example], cut: Cut
    ) -> tuple[float, float]:
        """Counts a row for each example. A left-to-right model reads only the text before the blank."""
        if not network.model.fills:
            raise no_blanks(network.title)
        texts, template = [example.inputs[0] for example in examples], cut.vocabulary.template
        if isinstance(network.model, CausalModel):
            added, texts = len(template.start), [text[: text.index(BLANK)] for text in texts]
        else:
            added, texts = template.added(1), [text.replace(BLANK, "it", 1) for text in texts]
        rows = Counter(min(length + added, self.length) for length in cut.lengths(texts))
        return sum(rows.elements()), network.filling_flops(rows)


class Cloze(Adaptation):
    summary = "no training; the word that the model would write into a blank"
    settings = Own
    only = (Form.CLOZE,)
    learns = False

    def respond(self, asked: Any) -> tuple[list[Any], float]:
        from ptmbench.bench.adapt.cloze.network import respond

        return respond(asked)


ADAPTATION = Cloze()
