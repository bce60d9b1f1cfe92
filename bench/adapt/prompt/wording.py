"""A task's examples in words: the question of a prompt, and the answers to choose from."""

from string import Formatter

from ptmbench.bench.adapt.channels import Quote
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task


def answers(task: Task, example: Example) -> list[Quote]:
    """The possible answers to ``example``, in words."""
    if task.form is Form.CHOICE:
        return [Quote(text, example, number).stripped() for number, text in enumerate(example.inputs[1:], 1)]
    return [
        Quote(word, example).stripped() for word in task.words or (label.replace("_", " ") for label in task.labels)
    ]


def question(task: Task, example: Example) -> list[Quote]:
    """``example`` in words, up to the answer, without white space at the end."""
    if task.form is Form.CHOICE:
        found = [Quote(example.inputs[0], example, 0)]
    else:
        asked = task.prompt or " ".join(f"{{{number}}}" for number in range(len(example.inputs)))
        found = []
        for words, number, _, _ in Formatter().parse(asked):
            found.append(Quote(words, example))
            if number is not None:
                found.append(Quote(example.inputs[int(number)], example, int(number)))
    while found and not found[-1].text.rstrip():
        found.pop()
    return [*found[:-1], *(last._replace(text=last.text.rstrip()) for last in found[-1:])]
