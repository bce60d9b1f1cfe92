"""Mowari (code ``mw``), the invented language: the same meanings with another grammar.

It is verb-final, has postpositions, and puts adjectives after their noun. Nouns take -ik in the plural and -en as
objects. Names do not change; as objects they are followed by the particle "en". Verbs end in -a (present) or -o (past),
and then -m under a plural subject. "nu" before the verb negates. A predicative adjective takes the verb endings,
without a copula. After a predicative noun, "e" takes them. There is no passive: the object comes first where English
uses the passive. Stems are syllables derived from a hash of the English lemma, so the language is the same in every
world and needs no word list.
"""

import hashlib
from functools import cache

from ptmbench.tasks.microworld.lexicon import BE
from ptmbench.tasks.microworld.meaning import Clause, Form, Name, Noun, Phrase, Sentence

_CONSONANTS, _VOWELS = "bdfghjklmnprstvz", "aeiou"
_PRONOUNS = {"f": "ila", "m": "ilo", "n": "ilu", "many": "ilim"}
_DETERMINERS = {"the": "", "": "", "a": "ta"}


@cache
def stem(lemma: str) -> str:
    """Two or three syllables for an English lemma, derived from its SHA-256, and a final consonant."""
    digest = hashlib.sha256(f"mowari/{lemma}".encode()).digest()
    syllables = 2 + digest[0] % 2
    spelled = "".join(_CONSONANTS[digest[2 * i + 1] % 16] + _VOWELS[digest[2 * i + 2] % 5] for i in range(syllables))
    return spelled + _CONSONANTS[digest[9] % 16]


def phrase(p: Phrase, *, object: bool = False) -> list[str]:
    """The words of a noun phrase. ``object`` marks its head, and the head of a phrase joined with "and"."""
    if p.form is Form.REFLEXIVE:
        return ["ozen"]
    if p.form is Form.PRONOUN:
        gender = "many" if p.many else p.head.gender if isinstance(p.head, Name) else "n"
        return [_PRONOUNS[gender] + ("n" if object else "")]
    words = [*phrase(p.at[1]), stem(p.at[0])] if p.at else []
    if isinstance(p.head, Noun):
        words.append(stem(p.head.lemma) + ("ik" if p.plural else "") + ("en" if object else ""))
        words += [stem(p.adjective)] if p.adjective else []
        determiner = _DETERMINERS.get(p.determiner)
        words += [stem(p.determiner)] if determiner is None else [determiner] if determiner else []
    else:
        words += [stem(p.title)] if p.title else []
        words += [*p.head.words, "en"] if object else p.head.words
    return words + ([*phrase(p.also, object=object), "ya"] if p.also else [])


def clause(c: Clause) -> list[str]:
    """Subject, object, places, predicate. The object comes first where English uses the passive."""
    impersonal = c.verb.lemma == "bear"
    subject = [] if impersonal else phrase(c.subject)
    nominal = c.verb is BE and c.object is not None
    obj = phrase(c.object, object=not nominal) if c.object else []
    words = obj + subject if c.passive else subject + obj
    for preposition, place in c.at:
        words += [*phrase(place), stem(preposition)]
    ending = ("o" if c.past else "a") + ("m" if c.subject.many and not impersonal else "")
    ever, no = ["zu"] if c.ever else [], ["nu"] if c.negated else []
    words += [stem(c.stress)] if c.stress else []
    if c.verb is BE and not nominal:
        *others, last = c.adjectives or ("be",)
        return [*words, *ever, *(stem(a) for a in others), *no, stem(last) + ending]
    words += [stem(a) for a in c.adjectives]
    return [*words, *ever, *no, ("e" if nominal else stem(c.verb.lemma)) + ending]


def mowari(s: Sentence) -> str:
    """The sentence as running text, with a capital and a full stop."""
    words = clause(s.first)
    if s.second:
        words = [*words[:-1], words[-1] + ",", stem(s.join), *clause(s.second)]
    line = " ".join(words)
    return line[0].upper() + line[1:] + "."
