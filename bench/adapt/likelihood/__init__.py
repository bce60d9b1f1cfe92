"""Likelihood: measures how probable a language model finds a text, without training.

A task whose ``extra`` has ``"score": "pseudo"`` takes the pseudo-likelihood of each text instead, from models that fill
blanks. This is PLL-word-l2r of Kauf and Ivanova (2023): a token is predicted while it and the later tokens of its word
are masked. A mention that loses a token is left out. A task with ``"bytes": True`` also counts the bytes that [UNK]
hides.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Cut, Network
from ptmbench.bench.adapt.likelihood.windows import bidirectional_windows, left_to_right_windows
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.errors import NotApplicable
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task

PSEUDO = "pseudo"
"""The value of ``extra["score"]`` in a task that takes pseudo-likelihoods."""


def no_likelihood(title: str, of: str) -> NotApplicable:
    """The reason why the model ``title`` gives no probability ``of`` something."""
    return NotApplicable("not-a-language-model", f"because {title} gives no probability of {of}.")


def no_pseudo(title: str, tells_likelihood: bool, fills: bool) -> NotApplicable | None:
    """The reason why the model ``title`` has no pseudo-likelihoods; None if it has."""
    if tells_likelihood:
        reason = f"because {title} gives texts a probability of its own; its score is in another column."
        return NotApplicable("left-to-right", reason)
    reason = f"because {title} does not say how well each word fits a blank."
    return None if fills else NotApplicable("fills-no-blanks", reason)


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    def answering_cost(
        self, network: Network, task: Task, examples: Sequence[Example], cut: Cut
    ) -> tuple[float, float]:
        """Counts a row for each window or, for pseudo-likelihoods, for each token of the text."""
        counts, template = cut.lengths([example.inputs[0] for example in examples]), cut.vocabulary.template
        if task.extra.get("score") == PSEUDO:
            if reason := no_pseudo(network.title, network.model.tells_likelihood, network.model.fills):
                raise reason
            room, rows = self.length - template.added(1), Counter[int]()
            for count in counts:
                for _, places in bidirectional_windows(count, room, self.stride):
                    rows[min(count, room) + template.added(1)] += len(places)
            return sum(length * count for length, count in rows.items()), network.filling_flops(rows)
        if not network.model.tells_likelihood:
            raise no_likelihood(network.title, "a token from those before it")
        room = self.length - len(template.start)
        found = [end - begin for count in counts for begin, _, end in left_to_right_windows(count, room, self.stride)]
        return sum(found), network.scoring_flops(Counter(found))


class Likelihood(Adaptation):
    summary = "no training; the model's own probabilities of a text"
    settings = Own
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
