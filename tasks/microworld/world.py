"""The facts: where people live and work, who wrote and founded what, and the verdict on each work.

A world is drawn from a lexicon. The corpus is about one world that uses all names. Each labelled split is about another
world that uses its half of the names. Its facts are therefore not in the corpus, but its names are.
"""

import random
from dataclasses import dataclass

from ptmbench.tasks.microworld.lexicon import BE, BEAR, FIND, FOUND, LIE, LIVE, TEACH, WORK, WRITE, Lexicon
from ptmbench.tasks.microworld.meaning import Clause, Form, Kind, Name, Noun, Phrase


@dataclass(frozen=True, kw_only=True)
class Person:
    name: Name
    """Given name and surname."""
    given: Name
    trade: Noun
    birthplace: Name
    home: Name
    group: Name


@dataclass(frozen=True, kw_only=True)
class Work:
    name: Name
    author: Person
    setting: Name
    verdict: int
    """+1 if the world considers it good, -1 if bad."""


@dataclass(frozen=True, kw_only=True)
class World:
    people: tuple[Person, ...]
    works: tuple[Work, ...]
    neighbours: dict[Name, Name]
    founders: dict[Name, tuple[Person, Name]]
    """Maps each group to its founder and the place of its foundation."""


def world(rng: random.Random, lexicon: Lexicon, *, people: int) -> World:
    """A world with ``people`` people and three works for every four of them."""
    trades = lexicon.of(Kind.PERSON)
    folk = []
    for i in range(people):
        gender = "fm"[i % 2]
        first = rng.choice(lexicon.women if gender == "f" else lexicon.men)
        birthplace, home = rng.sample(lexicon.places, 2)
        folk.append(
            Person(
                name=Name((first, rng.choice(lexicon.surnames)), "PER", gender),
                given=Name((first,), "PER", gender),
                trade=rng.choice(trades),
                birthplace=birthplace,
                home=home,
                group=rng.choice(lexicon.groups),
            )
        )
    works = [
        Work(
            name=rng.choice(lexicon.titles),
            author=author,
            setting=rng.choice(lexicon.places),
            verdict=rng.choice((1, -1)),
        )
        for author in folk[::2] + folk[1::4]
    ]
    return World(
        people=tuple(folk),
        works=tuple(works),
        neighbours={
            place: rng.choice([other for other in lexicon.places if other != place]) for place in lexicon.places
        },
        founders={group: (rng.choice(folk), rng.choice(lexicon.places)) for group in lexicon.groups},
    )


def pronoun_for(name: Name) -> Phrase:
    """The pronoun for ``name``."""
    return Phrase(name, form=Form.PRONOUN)


def born(p: Person, who: Phrase) -> Clause:
    return Clause(BEAR, Phrase(p.name), who, at=(("in", Phrase(p.birthplace)),), passive=True)


def lives(p: Person, who: Phrase) -> Clause:
    return Clause(LIVE, who, at=(("in", Phrase(p.home)),), past=False)


def works_for(p: Person, who: Phrase) -> Clause:
    return Clause(WORK, who, at=(("for", Phrase(p.group)),), past=False)


def is_a(noun: Noun, who: Phrase, adjective: str = "") -> Clause:
    return Clause(BE, who, Phrase(noun, determiner="a", adjective=adjective), past=False)


def wrote(w: Work, who: Phrase, *, passive: bool = False, place: bool = False) -> Clause:
    at = (("in", Phrase(w.setting)),) if place else ()
    return Clause(WRITE, who, Phrase(w.name), at=at, passive=passive)


def taught(teacher: Phrase, pupil: Phrase, *, passive: bool = False) -> Clause:
    return Clause(TEACH, teacher, pupil, passive=passive)


def lies_near(place: Phrase, other: Name) -> Clause:
    return Clause(LIE, place, at=(("near", Phrase(other)),), past=False)


def founded(group: Name, founder: Person, place: Name, *, passive: bool = True) -> Clause:
    return Clause(FOUND, Phrase(founder.name), Phrase(group), at=(("in", Phrase(place)),), passive=passive)


def found_to_be(who: Phrase, what: Phrase, *adjectives: str) -> Clause:
    """An opinion: ``who`` found that ``adjectives`` apply to ``what``."""
    return Clause(FIND, who, what, adjectives=adjectives)


def is_so(what: Phrase, *adjectives: str, negated: bool = False, past: bool = False) -> Clause:
    return Clause(BE, what, adjectives=adjectives, negated=negated, past=past)
