"""Readers for the files of knowledge graphs: tab-separated triples (head, relation, tail), and texts for the names."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ptmbench.tasks.files import lines, malformed, rows
from ptmbench.tasks.forms import BLANK, Piece, Target
from ptmbench.tasks.task import Example, Mention

INVERSE = "inverse"
"""Precedes the text of a relation in questions about the head (Wang et al., 2022, SimKGC, section 3.1)."""


def subjects(template: str, fact: Mapping[str, Any]) -> tuple[Mention, ...]:
    """The subject of a ``fact`` of LAMA, at the place of "[X]" in ``template``. Its symbol is the Wikidata entity in
    ``sub_uri``. () if it is missing."""
    before, slot, _ = template.replace("[Y]", BLANK).partition("[X]")
    if not slot or not isinstance(fact.get("sub_uri"), str) or not fact.get("sub_label"):
        return ()
    return (Mention(0, len(before), len(before) + len(fact["sub_label"]), fact["sub_uri"].rpartition("/")[2]),)


def triples(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields (line, [head, relation, tail]) for every row."""
    for line, names in rows(path, ("head", "relation", "tail"), header=False):
        if not all(names):
            raise malformed(path, line, "a triple needs a head, a relation and a tail.")
        yield line, names


def texts(path: Path) -> dict[str, str]:
    """Reads {name: text} from a file with two columns (Yao et al., 2019, KG-BERT)."""
    found = {}
    for line, row in lines(path):
        name, _, text = row.partition("\t")
        if row and not text.strip():
            raise malformed(path, line, "a name and its text, separated by a tab, were expected.")
        if row:
            found[name] = " ".join(text.split())
    return found


def relation_words(relation: str) -> str:
    """A relation's name in words: "_member_meronym" is "member meronym"."""
    return " ".join(relation.replace("_", " ").replace("/", " ").replace(".", " ").split())


def questions(
    path: Path, every: Sequence[Path], entities: Mapping[str, str], relations: Mapping[str, str]
) -> Iterator[Example]:
    """Yields two examples for each triple of ``path``: a question about its tail and one about its head.

    Candidates are the names in the triples of all files in ``every``. ``entities`` has their texts, and may hold a
    larger graph. Answers to the same question in other triples of these files are also right. Ids are the triple's
    number from 0 and the kind of the question, such as "3-tail" and "3-head". ``group`` is this number.
    """
    right: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for file in every:
        for line, (head, relation, tail) in triples(file):
            if unknown := next((name for name in (head, tail) if name not in entities), None):
                raise malformed(file, line, f"there is no text for the entity {unknown!r:.60}.")
            right["tail", head, relation].add(tail)
            right["head", tail, relation].add(head)
    others = {question: frozenset(names) for question, names in right.items()}
    there = {given for _, given, _ in right}
    candidates = {name: words for name, words in entities.items() if name in there}
    for count, (_, (head, relation, tail)) in enumerate(triples(path)):
        text = relations.get(relation) or relation_words(relation)
        for kind, given, answer, question in (("tail", head, tail, text), ("head", tail, head, f"{INVERSE} {text}")):
            gold = Target(answer, candidates, others[kind, given, relation], kind=kind)
            yield Example(
                id=f"{count}-{kind}", inputs=(Piece(entities[given], given), question), gold=gold, group=str(count)
            )
