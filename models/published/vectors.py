"""Reads and writes files of word vectors, in the formats of word2vec, GloVe and fastText.

text    a word and its numbers a line; the files of word2vec and fastText (.vec) begin with a line of two sizes
binary  word2vec's: that line, then for each word its bytes, a space, and its numbers as float32

Any of them may be gzipped. If all words of a file are in lower case, texts are converted to lower case. Words with
punctuation inside ("u.s.", "new-york") are found whole, and "don't" is read as "do" and "n't" if the file has "n't".
Words that no text can contain here, such as words with a space inside, are left out.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import tokenizers
from tokenizers import Regex, pre_tokenizers

from ptmbench.models.card import Size
from ptmbench.models.published import PublishedError, Unsupported
from ptmbench.models.text.tokenizer_kinds import SPECIALS, SPELLINGS, untrained
from ptmbench.models.text.tokenizers import Tokenizer

MODELS = ("word2vec", "cbow", "glove")
"""The models that can have such vectors."""
TABLE, CONTEXTS = "encoder/tokens/table", "encoder/contexts/table"
"""The variables of these models: the word vectors, and GloVe's context vectors, which are added to them."""
LENGTH = 4096
_UNKNOWN = "<unk>"
_WORD = r"\w+|[^\w\s]"
_CLITICS = rf"\w+(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|{_WORD}"
_FASTTEXT = (793712314).to_bytes(4, "little")
_LONGEST = 1 << 16  # most bytes of a line, or of a word in a binary file
_WIDEST = 1 << 14  # most numbers of a vector
_DIGITS = 12  # most digits of a size
_RATIO = 50  # highest ratio of vectors to their gzip file; published files reach 3


@dataclass(frozen=True, kw_only=True)
class VectorFile:
    """The words of a file and their vectors. It has the interface of `models.published.folder.Folder`."""

    path: Path
    model: str
    config: Mapping[str, Any]
    size: Size
    tokenizer: Tokenizer
    table: np.ndarray = field(repr=False)
    """float32 [V, D] in the order of the tokenizer's ids."""
    left_out: tuple[str, ...] = field(repr=False)
    """Words that no text can contain."""
    sha256: str
    stored: int

    def weights(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, np.ndarray], list[str], list[str]]:
        """Returns the same as `models.published.folder.Folder.weights`."""
        found = {TABLE: self.table}
        if CONTEXTS in shapes:  # a file has the sum of both tables
            found[CONTEXTS] = np.zeros_like(self.table)
        return found, sorted(set(shapes) - set(found)), list(self.left_out)


def read(path: Path, model: str | None = None, most: int | None = None) -> VectorFile:
    """Reads the first ``most`` vectors of ``path`` for ``model``, or all of them by default.

    The default model is word2vec, or glove for a text without a line of sizes. [UNK] has the vector of "<unk>", or else
    the mean of all vectors. Other special tokens have zeros. Raises `PublishedError` with the damaged place, and
    `Unsupported` for another model and for fastText's binary files.
    """
    if model and model not in MODELS:
        raise Unsupported(f"The model of word vectors must be {', '.join(MODELS[:-1])} or {MODELS[-1]}, not '{model}'.")
    words, vectors, layout = _read(path, most)
    first: dict[str, int] = {}
    for number, word in enumerate(words):  # the first vector of a repeated word counts
        first.setdefault(word, number)
    unknown = vectors[first[_UNKNOWN]] if _UNKNOWN in first else vectors.mean(axis=0)
    tokenizer = _tokenizer([word for word in first if word != _UNKNOWN])
    pieces = tokenizer.vocabulary.pieces[len(SPECIALS) :]
    if not pieces:
        raise PublishedError(f"{path} has no word that a text could hold. Is it the right file?")
    table = np.zeros((tokenizer.vocabulary.size, vectors.shape[1]), np.float32)
    table[tokenizer.vocabulary.unk], table[len(SPECIALS) :] = unknown, vectors[[first[word] for word in pieces]]
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return VectorFile(
        path=path,
        model=model or ("glove" if layout == "text without sizes" else "word2vec"),
        config={"layout": layout, "words": len(words)},
        size=Size(layers=0, width=vectors.shape[1], length=LENGTH),
        tokenizer=tokenizer,
        table=table,
        left_out=tuple(sorted(set(first) - {_UNKNOWN, *pieces})),
        sha256=sha256,
        stored=path.stat().st_size,
    )


def write(path: Path, tokenizer: Tokenizer, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes the word vectors in ``arrays`` as a text with a first line of sizes, without special tokens.

    Raises `PublishedError` if ``path`` exists.
    """
    if path.exists():
        raise PublishedError(f"{path} is there already, so it is not overwritten. Give another file.")
    table = arrays[TABLE] + arrays[CONTEXTS] if CONTEXTS in arrays else arrays[TABLE]
    pieces = tokenizer.vocabulary.pieces[len(SPECIALS) :]
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.tmp")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.write(f"{len(pieces)} {table.shape[1]}\n")
            for piece, vector in zip(pieces, table[len(SPECIALS) :].tolist(), strict=True):
                file.write(f"{piece} {' '.join(format(number, '.9g') for number in vector)}\n")
        fresh.rename(path)
    finally:
        fresh.unlink(missing_ok=True)


def _read(path: Path, most: int | None) -> tuple[list[str], np.ndarray, str]:
    """Returns the words, their vectors float32 [N, D], and the name of the layout."""
    try:
        with _opened(path) as file:
            return _rows(path, file, most)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise PublishedError(f"{path} is cut short or damaged: {error}. Fetch it again.") from error


def _rows(path: Path, file: BinaryIO, most: int | None) -> tuple[list[str], np.ndarray, str]:
    head = file.readline(_LONGEST)
    if head.startswith(_FASTTEXT):
        raise Unsupported(f"{path} is fastText's own binary file. Give the .vec file that lies beside it.")
    sizes = head.split()
    sized = len(sizes) == 2 and all(size.isdigit() for size in sizes)
    if sized and max(map(len, sizes)) > _DIGITS:
        raise PublishedError(
            f"{path} begins with the sizes {sizes[0][:20].decode()} and {sizes[1][:20].decode()}, which no file can "
            "have. Is it a file of word vectors? Fetch it again."
        )
    count, width = map(int, sizes) if sized else (0, len(sizes) - 1)
    width = width if width <= _WIDEST else 0
    begin = len(head) if sized else 0
    file.seek(begin)
    text = width > 0 and _line(file, width) is not None
    if not (text or (sized and count and width)):
        raise PublishedError(
            f"{path} holds no word vectors: its first line is neither two sizes nor a word and its numbers. Give a "
            "folder in Hugging Face layout, or a file of word2vec, GloVe or fastText (.vec)."
        )
    if not sized:
        file.seek(begin)
        count = _lines(path, file)
    count = min(count, most or count)
    least = 2 * width if text else 4 * width  # bytes of a word
    if count * least > path.stat().st_size * (_RATIO if isinstance(file, gzip.GzipFile) else 1):
        raise PublishedError(f"{path} is shorter than {count} words of {width} numbers are. Fetch it again.")
    file.seek(begin)
    words, vectors = [], np.empty((count, width), np.float32)
    for number in range(count):
        found = _line(file, width) if text else _record(file, width)
        if found is None:
            raise PublishedError(
                f"{path}: what should be word {number + 1} of {count} is no word and {width} numbers. The file is cut "
                "short or damaged; fetch it again."
            )
        words.append(found[0].decode("utf-8", "replace"))
        vectors[number] = found[1]
    return words, vectors, "text" if text and sized else "text without sizes" if text else "binary"


def _lines(path: Path, file: BinaryIO) -> int:
    """Returns the number of lines from here to the end.

    Raises `PublishedError` for a line that is too long, and for a gzip file that unpacks to too many bytes.
    """
    begin, most, count = file.tell(), _RATIO * path.stat().st_size, 0
    while line := file.readline(_LONGEST):
        count += 1
        if len(line) == _LONGEST or file.tell() - begin > most:
            raise PublishedError(
                f"{path}: line {count} is longer than {_LONGEST} bytes, or the file unpacks to more than {_RATIO} "
                "times its size, which no word vectors do. Is it the right file? Fetch it again."
            )
    return count


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if zipped else path.open("rb")


def _line(file: BinaryIO, width: int) -> tuple[bytes, Any] | None:
    """Returns the word and the numbers of the next line, or None for another line. Words may have spaces inside."""
    word, *numbers = file.readline(_LONGEST).strip(b"\r\n ").rsplit(b" ", width)
    try:
        return (word, [float(number) for number in numbers]) if len(numbers) == width and word else None
    except ValueError:
        return None


def _record(file: BinaryIO, width: int) -> tuple[bytes, Any] | None:
    """Returns the same from a binary file, where a line end may come before the word."""
    word: bytes | bytearray = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte or len(word) == _LONGEST:
            return None
        word += byte
    word, numbers = bytes(word).lstrip(b"\n"), file.read(4 * width)
    return (word, np.frombuffer(numbers, "<f4")) if len(numbers) == 4 * width and word else None


def _tokenizer(words: Sequence[str]) -> Tokenizer:
    """Returns a tokenizer of the ``words`` that a text can contain, in their order."""
    impl = untrained("word", lowercase=all(word == word.lower() for word in words))
    cut = Regex(_CLITICS if "n't" in words else _WORD)
    impl.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(cut, "isolated")]
    )
    spec = json.loads(impl.to_str())
    spec["normalizer"]["strip_accents"] = False  # "cafe" is another word than "café"
    impl = tokenizers.Tokenizer.from_str(json.dumps(spec))
    spelled = [word for word in words if impl.normalizer.normalize_str(word) == word and len(word.split()) == 1]
    numbers = {piece: number for number, piece in enumerate([*SPELLINGS, *spelled])}
    spec["model"]["vocab"] = numbers
    # Added tokens are matched before a text is split.
    whole = {"single_word": True, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
    parted = (word for word in spelled if len(impl.pre_tokenizer.pre_tokenize_str(word)) > 1)
    spec["added_tokens"] = [{"id": numbers[word], "content": word} | whole for word in parted]
    return Tokenizer("word", spec)
