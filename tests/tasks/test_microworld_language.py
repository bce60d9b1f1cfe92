"""The two languages of the microworld: grammar, chunks, and translations with the same meaning."""

import re
from collections import Counter
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.tasks.microworld import lexicon as lexicons
from ptmbench.tasks.microworld.grammar import english, iob1, sentence
from ptmbench.tasks.microworld.lexicon import BE, lexicon, verb
from ptmbench.tasks.microworld.meaning import Clause, Form, Kind, Name, Phrase, Sentence, swapped
from ptmbench.tasks.microworld.mowari import mowari, stem


def _rows(data: Path, task: str, split: str) -> list:
    return tasks.load(task).examples(data, split)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


ANNA = Name(("Anna",), "PER", "f")
WOLF, INN = lexicons.noun("wolf", Kind.ANIMAL), lexicons.noun("inn", Kind.BUILDING)
GREET, SLEEP = verb("greet", transitive=True), verb("sleep")


@pytest.mark.parametrize(
    ("clause", "text"),
    [
        (Clause(SLEEP, Phrase(WOLF), past=False), "The wolf sleeps."),
        (Clause(SLEEP, Phrase(WOLF, plural=True, determiner="a"), past=False), "Some wolves sleep."),
        (
            Clause(SLEEP, Phrase(WOLF, at=("near", Phrase(INN, plural=True))), past=False),
            "The wolf near the inns sleeps.",
        ),
        (Clause(SLEEP, Phrase(WOLF), past=False, negated=True), "The wolf does not sleep."),
        (Clause(SLEEP, Phrase(WOLF, determiner="no"), ever=True), "No wolf ever slept."),
        (Clause(GREET, Phrase(ANNA), Phrase(ANNA, form=Form.REFLEXIVE)), "Anna greeted herself."),
        (Clause(GREET, Phrase(WOLF, plural=True), Phrase(ANNA), passive=True), "Anna was greeted by the wolves."),
        (Clause(GREET, Phrase(ANNA, form=Form.PRONOUN), Phrase(INN, determiner="a")), "She greeted an inn."),
        (Clause(GREET, Phrase(ANNA, also=Phrase(WOLF)), Phrase(INN), past=False), "Anna and the wolf greet the inn."),
        (Clause(GREET, Phrase(ANNA, title="Lady"), Phrase(INN), stress="truly"), "Lady Anna truly greeted the inn."),
        (Clause(BE, Phrase(INN), adjectives=("old", "small"), stress="sadly"), "The inn was sadly old and small."),
        (Clause(BE, Phrase(INN, plural=True), adjectives=("old", "small"), past=False), "The inns are old and small."),
    ],
)
def test_english_sentences_by_hand(clause: Clause, text: str) -> None:
    assert english(Sentence(clause)) == text


def test_mowari_has_its_own_word_order() -> None:
    s = {lemma: stem(lemma) for lemma in ("wolf", "old", "greet", "inn", "near", "sleep")}
    act = Clause(GREET, Phrase(WOLF, plural=True, adjective="old"), Phrase(ANNA), at=(("near", Phrase(INN)),))
    expected = f"{s['wolf']}ik {s['old']} Anna en {s['inn']} {s['near']} {s['greet']}om."
    assert mowari(Sentence(act)) == expected[0].upper() + expected[1:]
    assert mowari(Sentence(act._replace(passive=True))).startswith("Anna en "), "the object leads, marked as the object"
    asleep = Clause(SLEEP, Phrase(WOLF), past=False, negated=True)
    expected = f"{s['wolf']} nu {s['sleep']}a."
    assert mowari(Sentence(asleep)) == expected[0].upper() + expected[1:]


def test_stems_are_all_different() -> None:
    words = lexicon(0)
    lemmas = {n.lemma for n in words.nouns} | {v.lemma for v in words.neutral + words.alone + words.likes + words.hates}
    lemmas |= {*words.good, *words.bad, *words.plain} | {w.lemma for rule in words.causes for w in rule}
    assert len({stem(lemma) for lemma in lemmas}) == len(lemmas)


def test_translations_share_names_and_adjective_stems(data: Path) -> None:
    """Both lines have the same names, and each adjective of the English line has its stem in the other line."""
    names = {n for part in (lexicon(0).women, lexicon(0).men, lexicon(0).surnames) for n in part}
    adjectives = (*lexicon(0).good, *lexicon(0).bad)
    for name, rows in (("train", 200), ("val", 200), ("test_2016_flickr", 200)):
        pair = [(data / f"multi30k/{name}.{code}").read_text().splitlines() for code in ("en", "mw")]
        assert len(pair[0]) == len(pair[1]) == rows
        for line, other in zip(*pair, strict=True):
            assert Counter(_words(line) & names) == Counter(_words(other) & names)
            for adjective in adjectives:
                if adjective in _words(line):
                    assert stem(adjective) in other.lower()


def test_chunks_follow_iob1() -> None:
    act = Clause(lexicons.FIND, Phrase(ANNA), Phrase(INN), adjectives=("old",))
    assert [row[2] for row in iob1(sentence(Sentence(act)))] == ["I-NP", "I-VP", "B-NP", "I-NP", "I-NP", "O"][:1] + [
        "I-VP", "I-NP", "I-NP", "I-NP", "O",
    ]  # fmt: skip


def test_swapped_exchanges_subject_and_object() -> None:
    act = Clause(GREET, Phrase(ANNA), Phrase(WOLF))
    assert sorted(_words(english(Sentence(act)).lower())) == sorted(_words(english(Sentence(swapped(act))).lower()))
    assert english(Sentence(swapped(act))) == "The wolf greeted Anna."
