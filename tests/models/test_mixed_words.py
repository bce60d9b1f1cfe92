"""Tests of text tokenised with two vocabularies: which words, which pieces, and the same result for the same seed."""

import numpy as np
import pytest

from ptmbench.models.objectives.sampling import generator
from ptmbench.models.text.mixed_words import Cutter, MixedWords, Union
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary

LINES = [
    "the lonely traveller wondered whether travelling would tire her",
    "wonders never cease, said the tired old traveller, never ceasing to wonder",
    "there were seven ovens in the tavern, and never a loaf in either",
]


@pytest.fixture(scope="module")
def both_tokenizers():
    """The tokenizers of teacher and student, and the union of their vocabularies."""
    teacher, student = (Tokenizer.train("wordpiece", LINES * 9, size) for size in (220, 110))
    return teacher, student, Union(teacher.vocabulary, student.vocabulary)


def rows(student, count=40):
    text = student.encode(LINES * (count // len(LINES) + 1))[:count]
    length = 2 + max(map(len, text))
    words = student.vocabulary
    return np.array([[words.cls, *ids, words.sep, *[words.pad] * (length - 2 - len(ids))] for ids in text], np.int32)


def words_and_sides(ids, both_tokenizers):
    """Returns the words of a row of the union, each with the sides whose pieces it has."""
    teacher, student, union = both_tokenizers
    result = []
    for number in ids[ids >= union.teacher.first].tolist():
        own = number >= union.teacher.size
        piece = student.pieces([number - union.shift])[0] if own else teacher.pieces([number])[0]
        if piece.startswith("##"):
            result[-1] = (result[-1][0] + piece[2:], result[-1][1] | {own})
        else:
            result.append((piece, {own}))
    return result


def test_each_word_is_tokenised_with_one_vocabulary_and_both_occur(both_tokenizers):
    teacher, student, union = both_tokenizers
    tokens = rows(student)
    mixed = MixedWords(union, 0.5)(tokens, generator(1, 0))
    sides = [side for row in mixed for _, side in words_and_sides(row, both_tokenizers)]
    assert all(len(side) == 1 for side in sides)
    share = np.mean([side == {True} for side in sides])
    assert 0.35 < share < 0.65 + 1 / 8  # the last word of each row is always the student's
    for row, line in zip(mixed, (LINES * 20)[: len(tokens)], strict=True):
        assert "".join(word for word, _ in words_and_sides(row, both_tokenizers)) == line.replace(" ", "")


def test_pieces_are_those_of_the_tokenizers(both_tokenizers):
    """The last word of a row may continue after the row, so it keeps the student's pieces."""
    teacher, student, union = both_tokenizers
    tokens = rows(student, 3)
    for row, line in zip(MixedWords(union, 0.0)(tokens, generator(1, 0)), LINES, strict=True):
        *first, last = line.split(" ")
        (theirs, ours) = teacher.encode([" ".join(first)])[0], student.encode([last])[0]
        assert row[row >= union.teacher.first].tolist() == [*theirs, *union.of_student(np.array(ours))]
    assert np.array_equal(MixedWords(union, 1.0)(tokens, generator(1, 0)), union.of_student(tokens))


def test_cutter_gives_the_ids_of_the_tokenizer(both_tokenizers):
    teacher, _, union = both_tokenizers
    cutter = Cutter(teacher.vocabulary)
    for word in ("traveller", "never", "wonderful", "seventh", ",", "o", "a" * 300, "zebraZ"):
        assert cutter(word) == teacher.encode([word])[0]


def test_draws_are_determined_by_the_seed(both_tokenizers):
    *_, union = both_tokenizers
    tokens, mix = rows(both_tokenizers[1]), MixedWords(union, 0.5)
    again = MixedWords(union, 0.5)
    assert np.array_equal(mix(tokens, generator(1, 7)), again(tokens, generator(1, 7)))
    assert not np.array_equal(mix(tokens, generator(1, 7)), mix(tokens, generator(1, 8)))


def test_rows_keep_their_length_and_end_with_sep(both_tokenizers):
    """With swapped vocabularies, words get more pieces and rows are truncated. Padding follows rows that get
    shorter."""
    teacher, student, union = both_tokenizers
    tokens = rows(student)
    mixed = MixedWords(union, 0.5)(tokens, generator(1, 0))
    assert mixed.shape == tokens.shape and mixed.dtype == np.int32
    assert (np.diff((mixed > 0).astype(int), axis=1) <= 0).all()  # padding is at the right end only
    swapped = Union(student.vocabulary, teacher.vocabulary)
    long = MixedWords(swapped, 0.0)(rows(teacher), generator(1, 0))
    full = long[long[:, -1] > 0]
    assert len(full) and (full[:, -1] == swapped.student.sep).all()


def test_ids_of_the_union_are_distinct(both_tokenizers):
    teacher, student, union = both_tokenizers
    assert union.size == teacher.vocabulary.size + student.vocabulary.size - 37
    ids = union.of_student(np.arange(student.vocabulary.size))
    assert ids[:37].tolist() == list(range(37)) and ids[37:].tolist() == list(
        range(teacher.vocabulary.size, union.size)
    )
    pairs = union.pairs()
    assert 0 < len(pairs) <= student.vocabulary.size - 37
    for theirs, ours in pairs:
        assert teacher.pieces([theirs]) == student.pieces([ours - union.shift])


def test_tokenizers_other_than_wordpiece_raise_an_error(both_tokenizers):
    _, student, _ = both_tokenizers
    other = Tokenizer.train("bpe", LINES * 9, 330).vocabulary
    with pytest.raises(CorpusUnfit, match="has no pieces that begin with '##'. Train both with --tokenizer wordpiece"):
        MixedWords(Union(other, student.vocabulary), 0.5)
    MixedWords(Union(Vocabulary(size=90), Vocabulary(size=60)), 0.5)  # vocabularies without spellings are accepted
