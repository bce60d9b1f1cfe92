"""Surface-form F1 of the WNUT 2017 shared task (Derczynski et al., 2017, section 5): each name counts once.

The units are distinct pairs of a name and its type; a name is its words as they are spelled. A pair is found if at
least one of its occurrences is predicted in the right place. Precision is the share of predicted pairs that are found,
and recall the share of gold pairs. Compared with entity F1, it shows whether a system finds many names or often the
same ones.
"""

from collections.abc import Sequence

from ptmbench.tasks.forms import Tags
from ptmbench.tasks.metrics.common import f_measure
from ptmbench.tasks.metrics.entity_f1 import entities
from ptmbench.tasks.task import DataError


def surface_f1(gold: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> dict[str, float]:
    """{"surface_f1", "surface_precision", "surface_recall"} in percent.

    Gold is `tasks.forms.Tags`. If gold has no words, all entities count as different names.
    """
    right, guessed, actual = set(), set(), set()
    for row, (tags, guess) in enumerate(zip(gold, predictions, strict=True), start=1):
        if len(tags) != len(guess):
            raise DataError(
                f"Sentence {row} has {len(tags)} words but {len(guess)} predicted tags; give every word one tag."
            )
        words = tags.words if isinstance(tags, Tags) else [(row, place) for place in range(len(tags))]
        there, found = set(entities(tags)), set(entities(guess))
        for spans, names in ((there & found, right), (found, guessed), (there, actual)):
            names.update((tuple(words[start:end]), kind) for start, end, kind in spans)
    values = f_measure(len(right), len(guessed), len(actual))
    return {f"surface_{name}": value for name, value in values.items()}
