"""The corpora and tokenizers of a run: found, named, cached, and prepared by one process while others wait."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from filelock import FileLock

from bench import environment
from models import corpus as corpora
from models.corpus import Corpus, CorpusError
from models.tokenizers import Tokenizer


def files_of(given: Sequence[Path], patterns: Sequence[str], data: Path | None) -> tuple[Path, ...]:
    """The user's corpus files and folders, or else what the suite's patterns find below the data folder; sorted."""
    if given:
        return tuple(Path(path) for path in given)
    found = sorted({path for pattern in patterns for path in data.glob(pattern)}) if data else []
    if not found:
        raise CorpusError(
            f"There is no text to pre-train on: {data} holds none of {', '.join(patterns)}. Give files with --corpus."
        )
    return tuple(found)


def fingerprint(files: Sequence[Path]) -> str:
    """SHA-256 over the bytes of ``files`` in order; where they lie and what they are called does not matter."""
    digest = hashlib.sha256()
    for path in files:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def name_of(files: Sequence[Path], patterns: Sequence[str] = ()) -> str:
    """What the board calls the corpus: the folders that its files lie in, or the names of few files."""
    if len(files) <= 2:
        return " + ".join(path.name for path in files)
    return " + ".join(dict.fromkeys(path.parent.name if path.is_file() else path.name for path in files))


def tokenizer(files: Sequence[Path], kind: str, size: int) -> Path:
    """The path of a tokenizer trained on ``files``, from the cache where it was made before."""
    key = hashlib.sha256(f"{fingerprint(files)} {kind} {size}".encode()).hexdigest()[:32]
    cache = environment.cache_folder()
    path = cache / "tokenizers" / f"{key}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        corpora.train_tokenizer(files, kind, size, cache).save(path)
    return path


@lru_cache(maxsize=1)
def load(files: tuple[str, ...], tokenizer: Tokenizer) -> Corpus:
    """``files`` as token ids, from the cache where they were tokenised before."""
    cache = environment.cache_folder() / "corpora"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f"{tokenizer.fingerprint[:32]}.lock"):
        return corpora.tokenise([Path(file) for file in files], tokenizer, cache)
