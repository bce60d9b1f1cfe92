"""What a sentence says, before any language says it.

The world speaks in these structures; `grammar` renders them in English and `mowari` in the invented language, so two
renderings of one meaning are exact translations and a label can be read off the meaning instead of the words. Named
tuples, because the corpus makes half a million of them and they cost a third of a frozen dataclass.
"""

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What a noun is a word for; its value is the hypernym, itself an English noun."""

    PERSON = "person"
    PLACE = "place"
    BUILDING = "building"
    WORK = "work"
    ANIMAL = "animal"
    PART = "part"
    GROUP = "group"
    EVENT = "event"


class Form(StrEnum):
    """How a phrase refers: by its words, by a pronoun, or back to the subject of its own clause."""

    FULL = "full"
    PRONOUN = "pronoun"
    REFLEXIVE = "reflexive"


class Noun(NamedTuple):
    lemma: str
    plural: str
    kind: Kind


class Verb(NamedTuple):
    lemma: str
    third: str
    past: str
    participle: str
    transitive: bool
    valence: int = 0
    """+1 when the subject approves of the object, -1 when it disapproves."""


class Name(NamedTuple):
    """A proper name. ``type`` is PER, LOC, ORG or MISC (a work); ``noun`` is what it names: a village, a song ..."""

    words: tuple[str, ...]
    type: str
    gender: str
    """"f", "m" or "n": fixes the pronoun."""
    noun: Noun | None = None


class Phrase(NamedTuple):
    """A noun phrase. ``at`` is (preposition, phrase); ``also`` is joined on with "and" and makes the whole plural."""

    head: Noun | Name
    plural: bool = False
    determiner: str = "the"
    adjective: str = ""
    at: "tuple[str, Phrase] | None" = None
    also: "Phrase | None" = None
    form: Form = Form.FULL
    title: str = ""
    """Before a person's name: "Lady" or "Lord"."""

    @property
    def many(self) -> bool:
        return self.plural or self.also is not None


class Clause(NamedTuple):
    """A predication. With the verb ``be``, ``object`` or ``adjectives`` is the predicate; after a transitive verb
    ``adjectives`` is what the subject finds the object to be. ``passive`` puts the object first: the same fact, seen
    from its other side."""

    verb: Verb
    subject: Phrase
    object: Phrase | None = None
    at: tuple[tuple[str, Phrase], ...] = ()
    adjectives: tuple[str, ...] = ()
    past: bool = True
    negated: bool = False
    passive: bool = False
    ever: bool = False
    """The adverb "ever", which wants a negative subject ("no sailor ever sleeps")."""
    stress: str = ""
    """An adverb before the judging word: "truly" loved, "sadly" dull."""


class Sentence(NamedTuple):
    """One clause, or two that ``join`` ("and", "but", "because", "so") ties together."""

    first: Clause
    join: str = ""
    second: Clause | None = None


def swapped(clause: Clause) -> Clause:
    """The same event with the roles exchanged: who praised is now praised."""
    return clause._replace(subject=clause.object, object=clause.subject)
