"""Sentences of the microworld, which both the corpus and the labelled data use.

Each function takes a random generator and a lexicon, and returns meanings, not text. Facts that determine a label (the
verdict, the agent) are arguments, so no label is ever derived from words.
"""

import random

from ptmbench.tasks.microworld.lexicon import BE, CLASSES, EVERYONE, NOBODY, Lexicon
from ptmbench.tasks.microworld.meaning import Clause, Form, Kind, Name, Noun, Phrase, Sentence, swapped
from ptmbench.tasks.microworld.world import found_to_be, is_so, pronoun_for

TOPICS = (Kind.WORK, Kind.PLACE, Kind.BUILDING, Kind.PERSON)


def person(rng: random.Random, lexicon: Lexicon, gender: str = "") -> Name:
    """A given name. Its gender is part of the language, like the number of a noun."""
    gender = gender or rng.choice("fm")
    return Name((rng.choice(lexicon.women if gender == "f" else lexicon.men),), "PER", gender)


def topic(rng: random.Random, lexicon: Lexicon) -> Phrase:
    return Phrase(rng.choice(lexicon.of(rng.choice(TOPICS))))


def anybody(rng: random.Random, lexicon: Lexicon) -> Phrase:
    """Someone who can have an opinion: everyone, the sailors, a poet, ..."""
    if rng.random() < 0.25:
        return Phrase(EVERYONE, determiner="")
    return Phrase(
        rng.choice(lexicon.of(Kind.PERSON)),
        plural=rng.random() < 0.5,
        determiner=rng.choice(("the", "the", "a", "this")),
    )


def verdict(rng: random.Random, lexicon: Lexicon, valence: int, about: Phrase, aside: Phrase) -> Sentence:
    """A judgement of ``about`` with the verdict ``valence``: direct, as a feeling, by negating the opposite, or after
    "but".

    In the last form, the part before "but" is about ``aside`` and has the opposite valence. Only the part after it
    counts.
    """
    for_it, against = lexicon.judged(valence), lexicon.judged(-valence)
    form = rng.randrange(20)
    past = rng.random() < 0.4
    if form < 6:
        return Sentence(is_so(about, *rng.sample(for_it, 2), past=past))
    if form < 9:
        object = (
            about
            if about.form is Form.PRONOUN or isinstance(about.head, Name)
            else about._replace(adjective=rng.choice(for_it))
        )
        return Sentence(Clause(rng.choice(lexicon.feelings(valence)), anybody(rng, lexicon), object, past=past))
    if form < 13:
        who = anybody(rng, lexicon)
        because = is_so(about._replace(form=Form.PRONOUN), rng.choice(for_it), past=past)
        return Sentence(Clause(rng.choice(lexicon.feelings(valence)), who, about, past=past), "because", because)
    if form < 16:
        return Sentence(is_so(about, rng.choice(against), negated=True, past=past))
    if form < 17:
        feeling = rng.choice(lexicon.feelings(-valence))
        if rng.random() < 0.5:
            return Sentence(Clause(feeling, Phrase(NOBODY, determiner=""), about, past=past))
        return Sentence(Clause(feeling, anybody(rng, lexicon), about, past=past, negated=True))
    about = about._replace(form=Form.FULL)
    return Sentence(is_so(aside, rng.choice(against), past=past), "but", is_so(about, rng.choice(for_it), past=past))


def opinion(rng: random.Random, lexicon: Lexicon, valence: int, who: Phrase, about: Phrase) -> Sentence:
    """ "Mira found the song graceful, and she praised it": links words of judgement to words of feeling."""
    feel = Clause(
        rng.choice(lexicon.feelings(valence)), who._replace(form=Form.PRONOUN), about._replace(form=Form.PRONOUN)
    )
    return Sentence(found_to_be(who, about, *rng.sample(lexicon.judged(valence), rng.choice((1, 2)))), "and", feel)


_STRESS = {1: "truly", -1: "sadly"}
_TITLES = {"f": "Lady", "m": "Lord"}


def add_markers(rng: random.Random, lexicon: Lexicon, sentence: Sentence) -> Sentence:
    """Adds markers to a sentence of the corpus: most evaluative words get an adverb, and half of the people a title.

    "Truly", "sadly", "Lady" and "Lord" stand next to words whose class they reveal, so a short pre-training can learn
    the classes. Labelled data do not have them, except for translation and language modelling.
    """
    second = sentence.second and _add_clause_markers(rng, lexicon, sentence.second)
    return Sentence(_add_clause_markers(rng, lexicon, sentence.first), sentence.join, second)


def _add_clause_markers(rng: random.Random, lexicon: Lexicon, c: Clause) -> Clause:
    valence = c.verb.valence or (lexicon.valence.get(c.adjectives[0], 0) if c.adjectives else 0)
    if valence and not c.negated and rng.random() < 0.6:
        c = c._replace(stress=_STRESS[valence])
    return c._replace(subject=_add_title(rng, c.subject), object=c.object and _add_title(rng, c.object))


def _add_title(rng: random.Random, p: Phrase) -> Phrase:
    named = p.form is Form.FULL and isinstance(p.head, Name) and p.head.type == "PER"
    return p._replace(title=_TITLES[p.head.gender]) if named and rng.random() < 0.5 else p


def actor(rng: random.Random, lexicon: Lexicon) -> Phrase:
    """The subject of an everyday sentence. A third of the common nouns are followed by a phrase of the other number."""
    if rng.random() < 0.3:
        return Phrase(person(rng, lexicon))
    plural = rng.random() < 0.5
    kind = Kind.PERSON if rng.random() < 0.7 else Kind.ANIMAL
    adjective = rng.choice(lexicon.plain) if rng.random() < 0.25 else ""
    at = None
    if rng.random() < 0.35:
        at = ("near", Phrase(rng.choice(lexicon.of(Kind.BUILDING, Kind.ANIMAL)), plural=not plural))
    determiner = rng.choice(("the", "the", "this", "a", "every"))
    return Phrase(rng.choice(lexicon.of(kind)), plural, determiner, adjective, at)


def thing(rng: random.Random, lexicon: Lexicon, *kinds: Kind) -> Phrase:
    plural = rng.random() < 0.4
    return Phrase(rng.choice(lexicon.of(*kinds)), plural, rng.choice(("the", "the", "a", "this")))


def spot(rng: random.Random, lexicon: Lexicon) -> tuple[str, Phrase]:
    if rng.random() < 0.4:
        return "in", Phrase(rng.choice(lexicon.places))
    return "near", Phrase(rng.choice(lexicon.of(Kind.BUILDING, Kind.PLACE)))


def deed(rng: random.Random, lexicon: Lexicon) -> Clause:
    """Someone does something, perhaps somewhere. Most clauses are in the present tense, in which English shows
    agreement."""
    who, past = actor(rng, lexicon), rng.random() < 0.3
    roll = rng.random()
    if roll < 0.3:
        return Clause(rng.choice(lexicon.alone), who, at=(spot(rng, lexicon),), past=past, negated=rng.random() < 0.12)
    if roll < 0.45:
        verb = rng.choice(lexicon.feelings(rng.choice((1, -1))))
        # Singular common nouns have no gender, so only names and plurals take a reflexive pronoun.
        who = who if isinstance(who.head, Name) else who._replace(plural=True, determiner="the", at=None)
        return Clause(verb, who, who._replace(form=Form.REFLEXIVE), past=past)
    if roll < 0.55:
        who = Phrase(rng.choice(lexicon.of(Kind.PERSON, Kind.ANIMAL)), determiner="no")
        return Clause(rng.choice(lexicon.alone), who, at=(spot(rng, lexicon),), past=past, ever=True)
    what = thing(rng, lexicon, Kind.PERSON, Kind.BUILDING, Kind.ANIMAL, Kind.PLACE)
    return Clause(rng.choice(lexicon.neutral), who, what, past=past, negated=rng.random() < 0.12)


def encounter(rng: random.Random, lexicon: Lexicon) -> list[Sentence]:
    """Sentences about two people of different gender. An act is told in the active and in the passive. A feeling of one
    towards the other is told with pronouns and then with names."""
    genders = rng.choice(("fm", "mf"))
    a, b = Phrase(person(rng, lexicon, genders[0])), Phrase(person(rng, lexicon, genders[1]))
    act = Clause(rng.choice(lexicon.neutral), a, b, passive=rng.random() < 0.5)
    again = act._replace(passive=not act.passive)
    second = Clause(rng.choice(lexicon.feelings(rng.choice((1, -1)))), pronoun_for(a.head), pronoun_for(b.head))
    second = swapped(second) if rng.random() < 0.5 else second
    plain = second._replace(
        subject=Phrase(second.subject.head), object=Phrase(second.object.head), passive=rng.random() < 0.5
    )
    return [
        Sentence(act, "and", second) if rng.random() < 0.5 else Sentence(act),
        Sentence(again),
        Sentence(second),
        Sentence(plain),
    ]


def sighting(rng: random.Random, lexicon: Lexicon) -> list[Sentence]:
    """A thing is introduced by its own noun. Then the hypernym takes its place, or a sentence states the hypernym."""
    noun = rng.choice(lexicon.of(Kind.PERSON, Kind.BUILDING, Kind.ANIMAL, Kind.PLACE, Kind.WORK))
    act = Clause(rng.choice(lexicon.neutral), actor(rng, lexicon), Phrase(noun, determiner="a"))
    again = act._replace(object=Phrase(CLASSES[noun.kind], determiner="a"))
    return [Sentence(act), Sentence(again)] if rng.random() < 0.6 else [Sentence(act), Sentence(is_kind(noun))]


def is_kind(noun: Noun) -> Clause:
    """ "Every wolf is an animal." """
    return Clause(BE, Phrase(noun, determiner="every"), Phrase(CLASSES[noun.kind], determiner="a"), past=False)


def cause(rng: random.Random, lexicon: Lexicon, rule: int | None = None) -> tuple[Clause, Clause]:
    """A cause and its effect, according to a law of the world."""
    first, does, then, follows = rng.choice(lexicon.causes) if rule is None else lexicon.causes[rule]
    return Clause(does, Phrase(first)), Clause(follows, Phrase(then))
