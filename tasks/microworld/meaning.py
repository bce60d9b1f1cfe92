"""The meaning of a sentence, independent of any language.

`grammar` renders these structures in English and `mowari` in the invented language. Two renderings of one meaning are
exact translations, and a label can be derived from the meaning instead of the words. The structures are named tuples
because the corpus has half a million of them, and they cost a third of a frozen dataclass.
"""

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """The kind of thing that a noun denotes. Its value is the hypernym, itself an English noun."""

    PERSON = "person"
    PLACE = "place"
    BUILDING = "building"
    WORK = "work"
    ANIMAL = "animal"
    PART = "part"
    GROUP = "group"
    EVENT = "event"


class Form(StrEnum):
    """How a phrase refers: by its words, by a pronoun, or by a reflexive pronoun for the subject of its own clause."""

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
    """+1 if the subject approves of the object, -1 if it disapproves, otherwise 0."""


class Name(NamedTuple):
    """A proper name. ``type`` is PER, LOC, ORG or MISC (a work). ``noun`` is the kind of thing it names, such as a
    village."""

    words: tuple[str, ...]
    type: str
    gender: str
    """ "f", "m" or "n". It determines the pronoun."""
    noun: Noun | None = None


class Phrase(NamedTuple):
    """A noun phrase. ``at`` is (preposition, phrase). ``also`` is joined with "and" and makes the whole plural."""

    head: Noun | Name
    plural: bool = False
    determiner: str = "the"
    adjective: str = ""
    at: "tuple[str, Phrase] | None" = None
    also: "Phrase | None" = None
    form: Form = Form.FULL
    title: str = ""
    """ "Lady" or "Lord", before a person's name."""

    @property
    def many(self) -> bool:
        return self.plural or self.also is not None


class Clause(NamedTuple):
    """A predication. For the verb ``be``, ``object`` or ``adjectives`` is the predicate. For a transitive verb,
    ``adjectives`` is the subject's opinion of the object. ``passive`` puts the object first; the fact is the same."""

    verb: Verb
    subject: Phrase
    object: Phrase | None = None
    at: tuple[tuple[str, Phrase], ...] = ()
    adjectives: tuple[str, ...] = ()
    past: bool = True
    negated: bool = False
    passive: bool = False
    ever: bool = False
    """Whether the clause has the adverb "ever", which needs a negative subject ("no sailor ever sleeps")."""
    stress: str = ""
    """An adverb before the evaluative word: "truly" loved, "sadly" dull."""


class Sentence(NamedTuple):
    """One clause, or two clauses joined by ``join`` ("and", "but", "because", "so")."""

    first: Clause
    join: str = ""
    second: Clause | None = None


def swapped(clause: Clause) -> Clause:
    """The same event with subject and object exchanged."""
    return clause._replace(subject=clause.object, object=clause.subject)
