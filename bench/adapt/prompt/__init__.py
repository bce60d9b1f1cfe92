"""Prompting: asks a language model which answer it would write after the question, without training.

Brown et al. (2020), sections 2 and 2.4; Radford et al. (2019), section 3, did so without examples. The prompt has k
solved examples of the training split, drawn anew for each question, and the question in words. The prediction is the
most likely answer:

    argmax_a  1/|a|^n  sum_{t in a} ln p(a_t | solved examples, question, a_{<t})

k is the setting ``shots`` (0, 1, few), n the setting ``per_token``: 1 compares means over an answer's tokens, as the
paper does, and 0 compares sums. `tasks.task.Task` has the question as ``prompt`` and the answers as ``words``; in
choice tasks, the choices are the answers. A prompt that is longer than ``length`` tokens is cut at the front: first
whole solved examples, then the same tokens for all answers, and finally the beginning of an answer that is too long by
itself. The prompt keeps the languages and mentions of its inputs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Cut, Network
from ptmbench.bench.adapt.likelihood import no_likelihood
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.errors import NotApplicable
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    """The content of a prompt, and the comparison of the answers."""

    shots: int = settings.setting(0)
    """Solved examples in a prompt."""
    per_token: int = settings.switch(1)
    """1: answers are compared by the mean over their tokens; 0: by the sum, which favours short answers."""

    layers: str = settings.one_reading("the model reads on as it learnt to")

    def answering_cost(
        self, network: Network, task: Task, examples: Sequence[Example], cut: Cut
    ) -> tuple[float, float]:
        """As in `Effort.answering_cost`, with one row for each answer, including the solved examples of its prompt."""
        from ptmbench.bench.adapt.channels import spelled
        from ptmbench.bench.adapt.prompt.wording import answers, question

        check_form(task)
        if not network.model.tells_likelihood:
            raise no_likelihood(network.title, "an answer after a question")
        asked = [(spelled(question(task, example)), example) for example in examples]
        texts = [f"{prompt} {answer.text}" for prompt, example in asked for answer in answers(task, example)]
        counts, room = cut.lengths(texts), self.length - len(cut.vocabulary.template.start)
        solved = round(self.shots * sum(counts) / max(len(counts), 1))
        rows = Counter(min(solved + count, room) for count in counts)
        return sum(rows.elements()), network.scoring_flops(rows)


def check_form(task: Task) -> None:
    """Raises `NotApplicable` unless the answers to ``task`` are chosen from several texts."""
    if task.form not in (Form.CLASSIFICATION, Form.CHOICE):
        raise NotApplicable("no-answers-in-words", f"because a {task.form} task has no list of candidate answers.")


class Prompting(Adaptation):
    summary = "no training; the likeliest answer after a prompt with `shots` solved examples"
    settings = Own
    learns = False

    def draws(self, settings: Any) -> bool:
        return bool(settings.shots)

    def respond(self, asked: Any) -> tuple[list[Any], float]:
        from ptmbench.bench.adapt.prompt.network import respond

        return respond(asked)


ADAPTATION = Prompting()
