"""Finds, names and caches the corpora and tokenizers of a run. One process prepares them while others wait."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from ptmbench.bench import environment
from ptmbench.bench.console import progress, say
from ptmbench.models.text import corpus as corpora
from ptmbench.models.text import holdout
from ptmbench.models.text.corpus import Corpus, CorpusError, Stored
from ptmbench.models.text.pieces import HELD_OUT, VALIDATION, file_hash
from ptmbench.models.text.sidecars import companions
from ptmbench.models.text.tokenizers import Tokenizer

MEASURED = 2**15
"""Maximum tokens of held-out text on which the loss of a pre-training is measured."""


def files_of(given: Sequence[Path], patterns: Sequence[str], data: Path | None) -> tuple[Path, ...]:
    """Returns the user's corpus files and folders, or else the sorted matches of ``patterns`` below ``data``."""
    if given:
        return tuple(Path(path) for path in given)
    found = sorted({path for pattern in patterns for path in data.glob(pattern)}) if data else []
    found = [path for path in found if path.name != HELD_OUT]
    if not found:
        named = [Path(pattern).parts[1] for pattern in patterns if pattern.startswith("corpora/")]
        advice = "".join(f", or make the corpus with `ptmbench data corpus {name} --data {data}`" for name in named)
        if any(pattern.startswith("wikitext-2/") for pattern in patterns):
            advice += f", or fetch a text with `ptmbench data fetch wikitext2 --data {data}`"
        raise CorpusError(
            f"There is no text to pre-train on: {data} holds none of {', '.join(patterns)}. Give files with "
            f"--corpus{advice}."
        )
    return tuple(found)


def held_out_of(files: Sequence[Path]) -> tuple[Path, ...]:
    """The held-out text of ``files``, sorted; () if they have none.

    It is ``heldout.txt`` in the folder of a file or in a given folder (`data corpus` writes it), and WikiText-2's
    validation articles next to its training articles. Text that is read for training is never held out.
    """
    found = set()
    for path in map(Path, files):
        found.add((path if path.is_dir() else path.parent) / HELD_OUT)
        if path.name in VALIDATION:
            found.add(path.with_name(VALIDATION[path.name]))

    def trained_on(path: Path) -> bool:
        return any(path == one or (path.name != HELD_OUT and one in path.parents) for one in files)

    return tuple(sorted(path for path in found if path.is_file() and not trained_on(path)))


def fingerprint(files: Sequence[Path]) -> str:
    """SHA-256 of the contents of ``files`` in order. Names and folders do not matter.

    For tokenised corpora, it is computed from their fingerprints, which cover the text, the tokenizer and what was
    removed.
    """
    digest = hashlib.sha256(b"%d" % corpora.VERSION)
    if made := tokenised(files):
        digest.update(" ".join(stored.about["fingerprint"] for stored in made).encode())
        return digest.hexdigest()
    for path in files:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(file_hash(file))
            for other in companions(file)[path.is_dir() :]:  # a folder already has the first one, the sidecar
                digest.update(file_hash(other))
    return digest.hexdigest()


def tokenised(files: Sequence[Path]) -> tuple[Stored, ...]:
    """The corpora in ``files`` if these are folders that `data tokenise` made; () for text.

    Raises `CorpusError` if a corpus is damaged, or if only some of ``files`` are tokenised.
    """
    found = [_stored(Path(path).resolve()) for path in files]
    if any(found) and not all(found):
        text = next(path for path, stored in zip(files, found, strict=True) if not stored)
        raise CorpusError(f"{text} is text, and other parts of the corpus are tokenised. Give one or the other.")
    return tuple(filter(None, found))


@lru_cache(maxsize=64)
def _stored(folder: Path) -> Stored | None:
    """The tokenised corpus in ``folder`` or None. A process verifies its files only once."""
    return corpora.stored_in(folder)


def texts(files: Sequence[Path]) -> tuple[Iterator[str], Callable[[str], str]]:
    """Returns an iterator over the documents of ``files``, and a function that spells other texts as the corpus would.

    Documents of tokenised corpora are decoded from token ids. In this case, the function encodes and decodes a text.
    """
    if not (made := tokenised(files)):
        return map("\n".join, corpora.read(files)), str
    cut = Tokenizer.load(made[0].folder / corpora.TOKENIZER)
    corpus = corpora.open_corpora(made)

    def documents() -> Iterator[str]:
        for number in range(len(corpus.documents) - 1):
            first, last = corpus.sentences.take(corpus.documents.take(np.array([number, number + 1])))
            yield cut.decode(corpus.ids.take(np.arange(first, last)))

    return documents(), lambda text: cut.decode(cut.encode([text])[0])


def name_of(files: Sequence[Path], patterns: Sequence[str] = ()) -> str:
    """The name of the corpus on the board: the names of one or two files, or else the folders of the files."""
    if len(files) <= 2:
        return " + ".join(path.name for path in files)
    return " + ".join(dict.fromkeys(path.parent.name if path.is_file() else path.name for path in files))


def tokenised_by(files: Sequence[Path], kind: str, size: int) -> Path | None:
    """The path of the tokenizer of ``files`` if these are tokenised corpora; None for text. Raises `CorpusError` if the
    tokenizer has another kind or size."""
    if not (made := tokenised(files)):
        return None
    about = made[0].about
    if (about.get("kind"), about.get("vocabulary")) != (kind, size):
        raise CorpusError(
            f"{made[0].folder} was tokenised with --tokenizer {about.get('kind')} --vocabulary "
            f"{about.get('vocabulary')}, and {kind} of {size} is asked for. Give these two options, or the text."
        )
    return made[0].folder / corpora.TOKENIZER


def tokenizer(files: Sequence[Path], kind: str, size: int) -> Path:
    """The path of a tokenizer trained on ``files``, or from the cache if it was trained before. For tokenised corpora,
    it is the tokenizer that made them."""
    if made := tokenised_by(files, kind, size):
        return made
    path = _cached_tokenizer(fingerprint(files), kind, size)
    with FileLock(path.with_suffix(".lock")):
        corpora.train_tokenizer(files, kind, size, environment.cache_folder()).save(path)
    return path


def tokenizer_at_hand(files: Sequence[Path], sha256: str, kind: str, size: int) -> Path | None:
    """The path that `tokenizer` returns for ``files`` with the fingerprint ``sha256``; None if the tokenizer has not
    been trained yet."""
    path = tokenised_by(files, kind, size) or _cached_tokenizer(sha256, kind, size)
    return path if path.exists() else None


def _cached_tokenizer(sha256: str, kind: str, size: int) -> Path:
    key = hashlib.sha256(f"{sha256} {kind} {size}".encode()).hexdigest()[:32]
    return environment.cache_subfolder("tokenizers") / f"{key}.json"


@lru_cache(maxsize=2)  # the training text and the held-out text
def load(files: tuple[str, ...], tokenizer: Tokenizer) -> Corpus:
    """Returns ``files`` as token ids: from a tokenised corpus, from the cache, or tokenised now."""
    paths = [Path(file) for file in files]
    if made := tokenised(paths):
        if made[0].about["tokenizer"] != tokenizer.fingerprint:
            raise CorpusError(f"{made[0].folder} was tokenised by another tokenizer. Tokenise the text again.")
        return corpora.open_corpora(made)
    cache = environment.cache_subfolder("corpora")
    with FileLock(cache / f"{tokenizer.fingerprint[:32]}.lock"):
        return corpora.tokenise(paths, tokenizer, cache, tell=say)


def parts(files: tuple[str, ...], tokenizer: Tokenizer, held_out: int) -> tuple[Corpus, Corpus | None]:
    """Splits the corpus of `load` into training documents and documents of about ``held_out`` tokens; None for 0."""
    whole = load(files, tokenizer)
    return holdout.split(whole, held_out) if held_out else (whole, None)


def measured_on(files: tuple[str, ...], tokenizer: Tokenizer) -> Corpus | None:
    """The held-out text of ``files``, or a sample of `MEASURED` tokens if it is longer. None without held-out text.

    It is the same for all models with the same tokenizer.
    """
    held_out = held_out_of([Path(file) for file in files])
    return sample(tuple(map(str, held_out)), tokenizer) if held_out else None


def sample(files: tuple[str, ...], tokenizer: Tokenizer) -> Corpus:
    """The text of ``files``, or a sample of `MEASURED` tokens if it is longer."""
    return holdout.sample(load(files, tokenizer), MEASURED)


def tokenise(
    files: Sequence[Path],
    out: Path,
    *,
    kind: str,
    size: int,
    like: Path | None = None,
    deduplicate: str | None = None,
    processes: int | None = None,
) -> dict[str, Any]:
    """Tokenises ``files`` into the folder ``out``, which can then be given as a corpus in place of them.

    The tokenizer is trained on ``files``, or taken from the tokenised corpus ``like``. Returns counts of the result,
    and the ``seconds`` of training the tokenizer and of tokenising.
    """
    began = time.perf_counter()
    if like is not None:
        (model,) = tokenised([like]) or (None,)
        if model is None:
            raise CorpusError(f"{like} is not a tokenised corpus. Make one with `ptmbench data tokenise`.")
        kind, size, path = model.about["kind"], model.about["vocabulary"], model.folder / corpora.TOKENIZER
    else:
        path = tokenizer(files, kind, size)
    trained = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / ".lock"), progress("Tokenising", unit="characters") as bar:
        made = corpora.store(
            files,
            Tokenizer.load(path),
            out,
            deduplicate=deduplicate,
            processes=processes,
            about={"kind": kind, "vocabulary": size},
            tell=say,
            made=lambda shard: bar.advance(shard.characters + shard.removed_characters),
        )
    names = ("tokens", "documents", "characters", "removed_documents", "removed_characters")
    seconds = {"train": trained - began, "tokenise": time.perf_counter() - trained}
    return {"shards": len(made.shards), **{name: made.total(name) for name in names}, "seconds": seconds}
