"""English: converts a meaning to words with their part of speech and entity tag.

Only this module decides agreement, negation, voice and reference. Its sentences are grammatical by construction, so
every deviation from them (see `judgements`) is a known error.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ptmbench.tasks.microworld.lexicon import BE
from ptmbench.tasks.microworld.meaning import Clause, Form, Name, Noun, Phrase, Sentence


class Word(NamedTuple):
    text: str
    pos: str
    entity: str = "O"
    """The type of the entity that the word belongs to, "O" if there is none."""


_word = cache(Word)
_PRONOUNS = {  # subject, object, reflexive
    "f": ("she", "her", "herself"),
    "m": ("he", "him", "himself"),
    "n": ("it", "it", "itself"),
    "many": ("they", "them", "themselves"),
}
_MANY = {"a": "some", "this": "these", "every": "all"}
_PLACES_CHUNK = {"DT": "NP", "JJ": "NP", "NN": "NP", "NNS": "NP", "NNP": "NP", "PRP": "NP", "IN": "PP"}


def phrase(p: Phrase, *, subject: bool = False) -> list[Word]:
    """The words of a noun phrase. ``subject`` selects the case of pronouns."""
    if p.form is not Form.FULL:
        case = 2 if p.form is Form.REFLEXIVE else 0 if subject else 1
        gender = "many" if p.many else p.head.gender if isinstance(p.head, Name) else "n"
        return [_word(_PRONOUNS[gender][case], "PRP")]
    words = list(_name(p.head)) if isinstance(p.head, Name) else _common(p, p.head)
    if p.title:
        words.insert(0, _word(p.title, "NNP"))
    if p.at:
        words += [_word(p.at[0], "IN"), *phrase(p.at[1])]
    if p.also:
        words += [_word("and", "CC"), *phrase(p.also, subject=subject)]
    return words


@cache
def _name(name: Name) -> tuple[Word, ...]:
    words = tuple(Word(word, "NNP", name.type) for word in name.words)
    return (Word("the", "DT"), *words) if name.type == "ORG" else words


def _common(p: Phrase, noun: Noun) -> list[Word]:
    words = [_word(p.adjective, "JJ")] if p.adjective else []
    words.append(_word(noun.plural, "NNS") if p.plural else _word(noun.lemma, "NN"))
    determiner = _MANY.get(p.determiner, p.determiner) if p.plural else p.determiner
    if determiner == "a" and words[0].text[0] in "aeiou":
        determiner = "an"
    return [_word(determiner, "DT"), *words] if determiner else words


def clause(c: Clause) -> list[Word]:
    """The words of a clause, without a capital and without a full stop."""
    if c.passive and c.object:
        front, back = c.object, [_word("by", "IN"), *phrase(c.subject)] if c.verb.lemma != "bear" else []
        stress = [_word(c.stress, "RB")] if c.stress else []
        words = phrase(front, subject=True) + _copula(front.many, c) + [*stress, _word(c.verb.participle, "VBN"), *back]
    else:
        words = phrase(c.subject, subject=True)
        words += _copula(c.subject.many, c) if c.verb is BE else _verb(c)
        if c.object:
            words += phrase(c.object)
    if c.stress and c.adjectives:
        words.append(_word(c.stress, "RB"))
    for i, adjective in enumerate(c.adjectives):
        words += [_word("and", "CC"), _word(adjective, "JJ")] if i else [_word(adjective, "JJ")]
    for preposition, place in c.at:
        words += [_word(preposition, "IN"), *phrase(place)]
    return words


def _copula(many: bool, c: Clause) -> list[Word]:
    finite = ("were" if many else "was") if c.past else ("are" if many else "is")
    words = [_word(finite, "VBD" if c.past else "VBP" if many else "VBZ")]
    if c.ever:
        words.append(_word("ever", "RB"))
    return [*words, _word("not", "RB")] if c.negated else words


def _verb(c: Clause) -> list[Word]:
    verb, many = c.verb, c.subject.many
    if c.negated:
        auxiliary = _word("did", "VBD") if c.past else _word("do", "VBP") if many else _word("does", "VBZ")
        return [auxiliary, _word("not", "RB"), _word(verb.lemma, "VB")]
    finite = _word(verb.past, "VBD") if c.past else _word(verb.lemma, "VBP") if many else _word(verb.third, "VBZ")
    if c.stress and not c.adjectives:
        return [_word(c.stress, "RB"), finite]
    return [_word("ever", "RB"), finite] if c.ever else [finite]


def sentence(s: Sentence) -> list[Word]:
    """The words of a sentence, with a capital letter, a comma before the second clause (except "because"), and a full
    stop."""
    words = clause(s.first)
    if s.second:
        if s.join != "because":
            words.append(_word(",", ","))
        words += [_word(s.join, "IN" if s.join == "because" else "CC"), *clause(s.second)]
    words[0] = capital(words[0])
    words.append(_word(".", "."))
    return words


def capital(word: Word) -> Word:
    return _word(word.text[0].upper() + word.text[1:], word.pos, word.entity)


def text(words: Sequence[Word]) -> str:
    """Joins words to running text, without a space before a comma or a full stop."""
    return " ".join([word.text for word in words]).replace(" ,", ",").replace(" .", ".")


def english(s: Sentence) -> str:
    return text(sentence(s))


def iob1(words: Sequence[Word]) -> list[tuple[str, str, str, str]]:
    """(word, part of speech, chunk, entity) with IOB1 tags. B- is used only if a chunk follows another of the same
    type."""
    rows, kind, entity = [], "", "O"
    for word in words:
        chunk = _PLACES_CHUNK.get(word.pos, "VP" if word.pos[:2] in ("VB", "RB") else "")
        begins = chunk == kind == "NP" and word.pos in ("DT", "PRP")
        # Entities are never adjacent in this grammar, so IOB1 needs only I- in the entity column.
        entity = "O" if word.entity == "O" else f"I-{word.entity}"
        rows.append((word.text, word.pos, f"{'B' if begins else 'I'}-{chunk}" if chunk else "O", entity))
        kind = chunk
    return rows
