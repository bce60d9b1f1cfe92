"""Text that is cut by two vocabularies: which words, which pieces, and always the same."""

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
def cut():
    """The tokenizers of teacher and student, and the union of their vocabularies."""
    teacher, student = (Tokenizer.train("wordpiece", LINES * 9, size) for size in (220, 110))
    return teacher, student, Union(teacher.vocabulary, student.vocabulary)


def rows(student, count=40):
    text = student.encode(LINES * (count // len(LINES) + 1))[:count]
    length = 2 + max(map(len, text))
    words = student.vocabulary
    return np.array([[words.cls, *ids, words.sep, *[words.pad] * (length - 2 - len(ids))] for ids in text], np.int32)


def spelled(ids, cut):
    """The words of a row of the union, each with the sides whose pieces it has."""
    teacher, student, union = cut
    found = []
    for number in ids[ids >= union.teacher.first].tolist():
        own = number >= union.teacher.size
        piece = student.pieces([number - union.shift])[0] if own else teacher.pieces([number])[0]
        if piece.startswith("##"):
            found[-1] = (found[-1][0] + piece[2:], found[-1][1] | {own})
        else:
            found.append((piece, {own}))
    return found


def test_each_word_is_cut_by_one_vocabulary_and_both_occur(cut):
    teacher, student, union = cut
    tokens = rows(student)
    mixed = MixedWords(union, 0.5)(tokens, generator(1, 0))
    sides = [side for row in mixed for _, side in spelled(row, cut)]
    assert all(len(side) == 1 for side in sides)
    share = np.mean([side == {True} for side in sides])
    assert 0.35 < share < 0.65 + 1 / 8  # of the last word of each row all are the student's
    for row, line in zip(mixed, (LINES * 20)[: len(tokens)], strict=True):
        assert "".join(word for word, _ in spelled(row, cut)) == line.replace(" ", "")


def test_pieces_are_those_of_the_tokenizers(cut):
    """The last word of a row may go on behind it, and is the student's."""
    teacher, student, union = cut
    tokens = rows(student, 3)
    for row, line in zip(MixedWords(union, 0.0)(tokens, generator(1, 0)), LINES, strict=True):
        *first, last = line.split(" ")
        (theirs, ours) = teacher.encode([" ".join(first)])[0], student.encode([last])[0]
        assert row[row >= union.teacher.first].tolist() == [*theirs, *union.of_student(np.array(ours))]
    assert np.array_equal(MixedWords(union, 1.0)(tokens, generator(1, 0)), union.of_student(tokens))


def test_words_are_cut_as_the_tokenizer_cuts_them(cut):
    teacher, _, union = cut
    cutter = Cutter(teacher.vocabulary)
    for word in ("traveller", "never", "wonderful", "seventh", ",", "o", "a" * 300, "zebraZ"):
        assert cutter(word) == teacher.encode([word])[0]


def test_the_draw_follows_from_the_seed(cut):
    *_, union = cut
    tokens, mix = rows(cut[1]), MixedWords(union, 0.5)
    again = MixedWords(union, 0.5)
    assert np.array_equal(mix(tokens, generator(1, 7)), again(tokens, generator(1, 7)))
    assert not np.array_equal(mix(tokens, generator(1, 7)), mix(tokens, generator(1, 8)))


def test_rows_keep_their_length_and_end_with_a_mark(cut):
    """The other way round: words of few pieces that become many are cut off, and padding follows what gets shorter."""
    teacher, student, union = cut
    tokens = rows(student)
    mixed = MixedWords(union, 0.5)(tokens, generator(1, 0))
    assert mixed.shape == tokens.shape and mixed.dtype == np.int32
    assert (np.diff((mixed > 0).astype(int), axis=1) <= 0).all()  # padding at the right end alone
    turned = Union(student.vocabulary, teacher.vocabulary)
    long = MixedWords(turned, 0.0)(rows(teacher), generator(1, 0))
    full = long[long[:, -1] > 0]
    assert len(full) and (full[:, -1] == turned.student.sep).all()


def test_ids_of_the_union_are_told_apart(cut):
    teacher, student, union = cut
    assert union.size == teacher.vocabulary.size + student.vocabulary.size - 37
    ids = union.of_student(np.arange(student.vocabulary.size))
    assert ids[:37].tolist() == list(range(37)) and ids[37:].tolist() == list(
        range(teacher.vocabulary.size, union.size)
    )
    pairs = union.pairs()
    assert 0 < len(pairs) <= student.vocabulary.size - 37
    for theirs, ours in pairs:
        assert teacher.pieces([theirs]) == student.pieces([ours - union.shift])


def test_other_tokenizers_are_refused(cut):
    _, student, _ = cut
    other = Tokenizer.train("bpe", LINES * 9, 330).vocabulary
    with pytest.raises(CorpusUnfit, match="has no pieces that begin with '##'. Train both with --tokenizer wordpiece"):
        MixedWords(Union(other, student.vocabulary), 0.5)
    MixedWords(Union(Vocabulary(size=90), Vocabulary(size=60)), 0.5)  # whose spelling nobody knows
