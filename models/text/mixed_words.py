"""Tokenises each word with one of two WordPiece vocabularies, drawn at random.

The ids of both vocabularies are in one range (`Union`): the teacher's ids, and after them the pieces of the student's
vocabulary. Special tokens are the same in both. `models.objectives.dual_training` trains on such text.
"""

from dataclasses import dataclass, replace

import numpy as np

from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Vocabulary

_INSIDE = "##"
_MOST = 1 << 19  # words in the cache
_LONGEST = 200  # most characters of a word that is cut into pieces; a longer one is [UNK], as in `tokenizer_kinds`


@dataclass(frozen=True)
class Union:
    """The ids of a ``teacher``'s and a ``student``'s vocabulary."""

    teacher: Vocabulary
    student: Vocabulary

    @property
    def shift(self) -> int:
        """The number to add to the id of a student's piece to get its id in the union."""
        return self.teacher.size - self.student.first

    @property
    def size(self) -> int:
        """Number of ids of the union."""
        return self.teacher.size + self.student.size - self.student.first

    @property
    def vocabulary(self) -> Vocabulary:
        return replace(self.teacher, size=self.size, pieces=None, teacher=None)

    def of_student(self, ids: np.ndarray) -> np.ndarray:
        """Converts ``ids`` of the student's vocabulary to ids of the union."""
        return np.where(ids < self.student.first, ids, ids + self.shift)

    def pairs(self) -> np.ndarray:
        """Returns the teacher's and the student's pieces with the same spelling, int64 [N, 2], as ids of the union."""
        if self.teacher.pieces is None or self.student.pieces is None:
            return np.zeros((0, 2), np.int64)
        known = {piece: number for number, piece in enumerate(self.teacher.pieces) if number >= self.teacher.first}
        rows = [
            (known[piece], number + self.shift)
            for number, piece in enumerate(self.student.pieces)
            if number >= self.student.first and piece in known
        ]
        return np.array(rows, np.int64).reshape(-1, 2)


class Cutter:
    """Cuts words into pieces of ``vocabulary``: from left to right, always the longest piece that fits.

    This is WordPiece as in the code of Devlin et al. (2019). If the vocabulary has no spellings, every word is [UNK].
    """

    def __init__(self, vocabulary: Vocabulary):
        pieces = enumerate(vocabulary.pieces or ())
        self._unknown = vocabulary.unk
        self._numbers = {piece: number for number, piece in pieces if number >= vocabulary.first}
        self._longest = max((len(piece.removeprefix(_INSIDE)) for piece in self._numbers), default=0)

    def __call__(self, word: str) -> list[int]:
        """Returns the ids of ``word``, or the id of [UNK] if a part of it is not a piece."""
        found, begin = [], 0
        while begin < len(word) <= _LONGEST:
            for end in range(min(len(word), begin + self._longest), begin, -1):
                number = self._numbers.get(_INSIDE * bool(begin) + word[begin:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            found.append(number)
            begin = end
        return found or [self._unknown]


class MixedWords:
    """Converts rows of the student's vocabulary to rows of the union.

    Each word is cut by the student's vocabulary with the probability ``share``, and otherwise by the teacher's. Two
    kinds of words always keep the student's ids: the last word of a row, which may continue after it, and words that
    are [UNK] in the student's vocabulary. If the student's vocabulary has no spellings, each id is a word.

    Raises `CorpusUnfit` if one of the vocabularies has spellings and is not a WordPiece vocabulary.
    """

    def __init__(self, union: Union, share: float):
        self._union, self._share = union, share
        pieces = union.student.pieces
        for one in (union.student, union.teacher):
            if one.pieces is not None and not any(piece.startswith(_INSIDE) for piece in one.pieces):
                raise CorpusUnfit(
                    "This model and its teacher cut words by WordPiece, and one of their vocabularies has no pieces "
                    "that begin with '##'. Train both with --tokenizer wordpiece."
                )
        self._pieces = pieces
        size = union.student.size
        self._inside = np.array([piece.startswith(_INSIDE) for piece in pieces] if pieces else [False] * size)
        self._cut = Cutter(union.teacher)
        self._known: dict[tuple[int, ...], list[int]] = {}

    def __call__(self, tokens: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Returns rows of the union, int32 [B, T], for the student's ``tokens`` [B, T].

        A row that becomes too long is cut and ends with [SEP]. A row that becomes shorter is padded.
        """
        union, length = self._union, tokens.shape[1]
        student, result = union.student, np.zeros_like(tokens)
        text = tokens >= student.first
        begins = ~(self._inside[tokens] & text)  # a special token is a word of one token
        chosen = rng.random(tokens.shape) < self._share
        for number, row in enumerate(tokens):
            starts = np.flatnonzero(begins[number])
            ends, ids = np.append(starts[1:], length), []
            last = max(starts[text[number, starts]], default=-1)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                word = row[start:end]
                if chosen[number, start] or not text[number, start] or start == last:
                    ids += union.of_student(word).tolist()
                else:
                    ids += self._teachers(tuple(word.tolist()))
            if len(ids) > length:
                ids[length - 1 :] = [student.sep]
            result[number, : len(ids)] = ids
        return result

    def _teachers(self, word: tuple[int, ...]) -> list[int]:
        """Returns the teacher's ids of a word that is given by the student's ids."""
        if self._pieces is None:
            return list(word)
        if word not in self._known:
            if len(self._known) > _MOST:
                self._known.clear()
            self._known[word] = self._cut("".join(self._pieces[one].removeprefix(_INSIDE) for one in word))
        return self._known[word]
