"""The reader for BARTABSA's files of aspects and opinions. `tasks.absa` documents the format and the subtasks."""

from collections.abc import Iterator
from pathlib import Path

from ptmbench.tasks.files import json_document, pick
from ptmbench.tasks.forms import Pointings
from ptmbench.tasks.task import DataError, Example

LABELS = ("POS", "NEU", "NEG")


def read(subtask: str, folder: Path, split: str) -> Iterator[Example]:
    """The sentences of ``split`` in file order, as words, with the tuples as gold.

    Ids are the numbers of the entries from 0. If an aspect is given, its first and last word follow in the id, and
    ``group`` is the sentence.
    """
    path = pick(folder, f"{split}_convert.json")
    entries = json_document(path)
    if not isinstance(entries, list):
        raise DataError(f"{path} must be a list of sentences. Fetch the official file again.")
    merged: dict[tuple, Example] = {}
    for number, entry in enumerate(entries):
        try:
            words = tuple(map(str, entry["words"]))
            aspects, opinions = (
                [_span(one, words) for one in entry[k] if one["term"]] for k in ("aspects", "opinions")
            )
            polarities = [one.get("polarity", "CON") for one in entry["aspects"] if one["term"]]
            found = list(_examples(subtask, number, words, aspects, opinions, polarities))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = f"{error}" if isinstance(error, ValueError) else f"not in BARTABSA's format ({error!r:.80})"
            raise DataError(
                f"{path}, sentence {number}: {what}. Fetch the official file again, or correct it."
            ) from error
        for example in found:
            key = (words, example.gold.given) if subtask == "aoe" and split == "train" else example.id
            before = merged.get(key, example)
            gold = Pointings(dict.fromkeys((*before.gold, *example.gold)), given=example.gold.given)
            merged[key] = Example(id=before.id, inputs=words, gold=gold, group=before.group)
    yield from merged.values()


def _examples(
    subtask: str, number: int, words: tuple, aspects: list, opinions: list, polarities: list
) -> Iterator[Example]:
    if odd := next((one for one in polarities if one not in (*LABELS, "CON")), None):
        raise ValueError(f"the polarity {odd!r:.40} is not one of {', '.join(LABELS)}, CON")
    if subtask in ("pair", "triplet") and len(aspects) != len(opinions):
        raise ValueError(f"there are {len(aspects)} aspects but {len(opinions)} opinions, which are no pairs")
    clear = [place for place, polarity in enumerate(polarities) if polarity in LABELS]
    if subtask in ("alsc", "aoe"):
        for place in clear if subtask == "alsc" else range(len(aspects)):
            tuples = [(polarities[place],)] if subtask == "alsc" else opinions
            first, last = aspects[place]
            gold = Pointings(sorted(set(tuples)), given=aspects[place])
            yield Example(id=f"{number}-{first}-{last}", inputs=words, gold=gold, group=str(number))
        return
    tuples = {
        "ae": lambda: [aspects[i] for i in clear],
        "oe": lambda: opinions,
        "aesc": lambda: [(*aspects[i], polarities[i]) for i in clear],
        "pair": lambda: [(*aspects[i], *opinions[i]) for i in clear],
        "triplet": lambda: [(*aspects[i], *opinions[i], polarities[i]) for i in clear],
    }[subtask]()
    yield Example(id=str(number), inputs=words, gold=Pointings(sorted(set(tuples))))


def _span(one: dict, words: tuple[str, ...]) -> tuple[int, int]:
    """The numbers of the first and the last word."""
    first, past = one["from"], one["to"]
    if not 0 <= first < past <= len(words):
        raise ValueError(f"the words {first} to {past} are not in a sentence of {len(words)}")
    return first, past - 1
