"""Surface-form F1 of the WNUT 2017 shared task (Derczynski et al., 2017, section 5): each name counts once.

Precision is the share of distinct predicted pairs of name and type, recall of distinct gold ones, that were found at
least once in a place where they stand; a name is its words as they are spelled. Compared with entity F1, it shows
whether a system finds many names or the same ones often.
"""

from collections.abc import Sequence

from ptmbench.tasks.forms import Tags
from ptmbench.tasks.metrics.common import f_measure
from ptmbench.tasks.metrics.entity_f1 import entities
from ptmbench.tasks.task import DataError


def surface_f1(gold: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> dict[str, float]:
    """{"surface_f1", "surface_precision", "surface_recall"} in percent.

    Gold is `tasks.forms.Tags`; where it does not know the words, no two entities have the same name.
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
