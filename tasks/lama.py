"""LAMA (survey, section 3.3.2): which facts does a model know? It fills the blank in a sentence without training.

Petroni et al., 2019: Language models as knowledge bases?, EMNLP. Licence: CC BY-NC 4.0. Official files: JSON lines of
facts, ``TREx/P19.jsonl`` {uuid, sub_label, obj_label}, and ``relations.jsonl`` {relation, template: "[X] was born in
[Y] ."}, or else the first patterns of ParaRel's ``pararel_patterns/P19.jsonl``. Relations without a template are left
out. All models choose from the words of ``vocabulary.txt``, one per line, or else ``common_vocab_cased.txt``; facts
with other objects are left out. The paper (section 4.4) uses the words that the vocabularies of the compared models
share. A word that a model splits into several tokens stays in the list, but the model never predicts it.

Other objects of a subject and relation are left out of a ranking. The headline is P@1, averaged over relations; as in
the authors' script, ConceptNet and SQuAD are one relation each. "lama" is T-REx; the others are "lama-google_re" and so
on. LAMA-UHN (Poerner et al., 2020) leaves out facts that a name reveals: "lama-string_match" is its first filter, no
object inside its subject. The second filter uses BERT-base; "lama-uhn" reads the output of their script, TREx_UHN.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from ptmbench.tasks.files import entry, json_lines, lines, malformed, pick
from ptmbench.tasks.forms import BLANK, Form, Target
from ptmbench.tasks.metrics.ranks import by_relation, ranking
from ptmbench.tasks.task import DataError, Download, Example, Source, Task, UnknownTask
from ptmbench.tasks.triples import subjects

MASK, WORDS, TEMPLATES = "[MASK]", "vocabulary.txt|common_vocab_cased.txt", "relations.jsonl|pararel_patterns"
CORPORA = {"trex": "TREx", "uhn": "TREx_UHN", "google_re": "Google_RE", "conceptnet": "ConceptNet", "squad": "Squad"}
BIRTH_AND_DEATH = {
    "place_of_birth": "[X] was born in [Y] .",
    "date_of_birth": "[X] (born [Y]).",
    "place_of_death": "[X] died in [Y] .",
}  # Google-RE's templates, from the authors' code


def read_corpus(folder: Path, split: str, *, corpus: str, skip_revealing_subjects: bool = False) -> Iterator[Example]:
    """The facts of ``corpus``, with files sorted by name and facts in file order. Ids are those of the facts.
    ``skip_revealing_subjects`` leaves out facts whose subject contains the object, ignoring case."""
    words, templates = {word: word for _, word in lines(pick(folder, WORDS)) if word}, _templates(folder, corpus)
    for path in sorted((folder / corpus).glob("*.jsonl")):
        relation = path.stem.removesuffix("_test")
        if templates is not None and relation not in templates:
            continue
        facts, right = [], defaultdict(set)
        for line, fact in json_lines(path):
            word = entry(path, line, fact, "obj_label")
            subject = entry(path, line, fact, "sub_label") if fact.get("sub_label") else ""
            known = word in words and not (skip_revealing_subjects and word.lower() in subject.lower())
            if known and (templates is None or word not in right[subject]):  # the authors' script uses each pair once
                right[subject].add(word)
                facts.append((line, fact, subject, word))
        for line, fact, subject, word in facts:
            text = _sentence(path, line, fact, (templates or {}).get(relation))
            gold = Target(word, words, () if templates is None else right[subject] - {word}, kind=relation)
            name = f"{relation}-{fact.get('uuid') or fact.get('id') or line}"
            channels = {"languages": ("en",), "entities": subjects((templates or {}).get(relation, ""), fact)}
            yield Example(id=name, inputs=(text,), gold=gold, channels=channels)


def _templates(folder: Path, corpus: str) -> dict[str, str] | None:
    """Templates by relation. None if the facts have their own sentences."""
    if corpus in ("ConceptNet", "Squad"):
        return None
    if corpus == "Google_RE":
        return BIRTH_AND_DEATH
    path = pick(folder, TEMPLATES)
    if path.is_file():
        found = {entry(path, n, row, "relation"): entry(path, n, row, "template") for n, row in json_lines(path)}
    else:
        first = {file: next(json_lines(file), None) for file in path.glob("*.jsonl")}
        found = {file.stem: entry(file, row[0], row[1], "pattern") for file, row in first.items() if row}
    for relation, template in found.items():
        if template.count("[X]") != 1 or template.count("[Y]") != 1:
            raise DataError(f"{path}: the template {template!r:.80} of {relation} needs one [X] and one [Y].")
    return found


def _sentence(path: Path, line: int, fact: dict[str, Any], template: str | None) -> str:
    """The fact as a sentence with `BLANK` instead of the object."""
    if template is not None:
        return template.replace("[Y]", BLANK).replace("[X]", entry(path, line, fact, "sub_label"))
    text = next(iter(entry(path, line, fact, "masked_sentences", list)), None)
    if not isinstance(text, str) or text.count(MASK) != 1:
        raise malformed(path, line, f"the first of masked_sentences needs one {MASK}, not {text!r:.80}.")
    return text.replace(MASK, BLANK)


read = partial(read_corpus, corpus="TREx")


@cache
def variant(name: str) -> Task:
    """The task of another corpus or filter. "trex" is the default task."""
    corpus = CORPORA.get("trex" if name == "string_match" else name)
    if corpus is None:
        raise UnknownTask(f"LAMA has no '{name}'. Choices: {', '.join((*CORPORA, 'string_match'))}.")
    default, templates = name == "trex", (TEMPLATES,) if corpus.startswith("TREx") else ()
    return Task(
        name="lama" if default else f"lama-{name}",
        title=f"LAMA {'T-REx' if corpus == 'TREx' else corpus}" + ", not in the name" * (name == "string_match"),
        form=Form.CLOZE,
        source=Source(
            citation="Petroni et al., 2019: Language models as knowledge bases?",
            licence="CC BY-NC 4.0",
            url="https://github.com/facebookresearch/LAMA",
            survey="3.3.2",
        ),
        folders=("lama", "LAMA"),
        files={"test": (corpus, WORDS, *templates)},
        read=read if default else partial(read_corpus, corpus=corpus, skip_revealing_subjects=name == "string_match"),
        metrics=(by_relation, ranking),
        headline="p_at_1",
        report="test",
        version=2,  # since each pair of names is used once, and ConceptNet is one relation
        downloads=(Download(url="https://dl.fbaipublicfiles.com/LAMA/data.zip", to="lama", unpack=True, strip=1),),
    )


TASK = variant("trex")
