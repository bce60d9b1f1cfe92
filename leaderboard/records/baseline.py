"""A baseline: accepted records, which are committed and which later runs are compared with.

It is a folder with one file of records (`leaderboard.records.pack`) and a folder of predictions. The manifest in that
file has the reason for accepting the records, and the hashes of all files. So a record that is changed, added or
removed is noticed even if its own seal is right. Version control records who accepted it.

Baselines of earlier versions hold loose records and a ``baseline.json``. They are still read and verified, have the
same digest as a packed baseline with the same records, and are packed by the next `accept`. Their hidden file
``.baseline`` repeats the digest, so that a baseline whose manifest was deleted is not taken for an ordinary run folder.

`accept` writes the new baseline next to the old one, under a hidden name, and swaps the two by renaming. A process that
is killed at any moment leaves either the old or the new baseline intact, and `recover` finishes or undoes its work.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ptmbench.leaderboard.records import courses, pack
from ptmbench.leaderboard.records.pack import PACK, Pack, PackError, hashes, laid_out, packed
from ptmbench.leaderboard.records.record import FOLDER, Record, RecordError
from ptmbench.leaderboard.records.store import load
from ptmbench.leaderboard.text import clean

MANIFEST = "baseline.json"
MARKER = ".baseline"
SCHEMA = 1
_FOLDERS = (FOLDER, "predictions")
_LARGEST = 4 * 2**20  # bytes of a manifest; a real one has a hundred bytes per file
_AGAIN = pack.AGAIN
_ABSOLUTE = re.compile(r"(?<![^\s='\"])(?:/|~/|[A-Za-z]:\\)[^\s'\"]+")


class BaselineError(RecordError):
    """Raised for a baseline that cannot be trusted, or for records that cannot become one."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    digest: str
    """SHA-256 over the names and contents of all files."""
    reason: str
    replaces: str | None
    """The digest of the baseline before it."""
    files: Mapping[str, str]
    """{path below the folder: SHA-256}. A packed record has the path that it would have as a separate file."""


def accept(
    records: Path,
    folder: Path,
    reason: str,
    predictions: bool = True,
    warn: Callable[[str], None] = lambda sentence: None,
    add: bool = False,
) -> Baseline:
    """Makes the records of the run folder ``records`` the baseline in ``folder``, which is replaced as a whole.

    Without ``predictions`` only the records are accepted: predictions quote the data, and not every licence allows
    publishing them. The intervals over examples are in the records. With ``add`` the old baseline's records and
    predictions stay, and only files of the same name (cell and seed) are replaced. Without it, a baseline in ``folder``
    that was changed after it was accepted is replaced too, after a call of ``warn``. If the same records are accepted
    again for the same reason, nothing changes, except that loose records are packed.

    Raises `BaselineError` if there is no reason, no scored record, a damaged record, predictions that do not match
    their record, or an old baseline whose digest is lost. Then ``folder`` is not changed.
    """
    # Resolved, because renaming onto "." or a link would put the new baseline inside the old one, which is deleted.
    reason, records, folder = clean(reason).strip(), Path(records), Path(folder).resolve()
    if not reason:
        raise BaselineError("A baseline needs a reason: say with --reason why these scores are right.")
    source = records.parent if records.name in (FOLDER, PACK) else records
    store = load([records])
    if not _is_run(source):
        raise BaselineError(f"{records} holds several runs. Give the folder of one of them.")
    if store.damaged:
        raise BaselineError(f"{store.damaged[0].file} is damaged, so nothing was accepted: {store.damaged[0].reason}")
    if not any(record.status == "ok" for record in store.records):
        raise BaselineError(
            f"{records} holds no record with a score, so it cannot be a baseline. Give a run with scores."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent):
        _finish_replacement(folder)
        before = _accepted_before(folder, warn)
        if add and before and not before.whole:
            raise BaselineError(f"{folder} is damaged, so nothing was added to it. {_AGAIN}")
        new = _hidden_sibling(folder, "new")
        try:
            texts = _texts(folder) if add and before else {}
            texts = {name: laid_out(content) for name, content in (texts | _texts(source)).items()}
            if add and before:
                for path in sorted((folder / "predictions").glob("[!.]*")):
                    _copy(path, new / "predictions" / path.name)
            for record in store.records:
                if predictions and record.predictions:
                    _copy_predictions(source, new, record.predictions)
            new.mkdir(exist_ok=True)
            runs = [source, folder] if add and before else [source]
            courses.keep(runs, new, load(runs).records)
            files = _files(new) | hashes(texts)
            replaces, packed_before = before.digest if before else None, (folder / PACK).is_file()
            made = Baseline(digest=_digest(files), reason=reason, replaces=replaces, files=files)
            if before and before.whole and (before.digest, before.reason) == (made.digest, made.reason):
                if packed_before:
                    return verify(folder) or made
                made = replace(made, replaces=before.replaces)
            _write(new / PACK, packed({"schema": SCHEMA} | vars(made), texts))
            for made_folder in (new / "predictions", new):
                _sync(made_folder)
            _swap(folder, new)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    _warn_about_paths(store.records, warn)
    return made


@dataclass(frozen=True, kw_only=True)
class _PreviousBaseline:
    """The known facts about the baseline that is to be replaced."""

    digest: str
    reason: str = ""
    replaces: str | None = None
    whole: bool = False


def _accepted_before(folder: Path, warn: Callable[[str], None]) -> _PreviousBaseline | None:
    """Returns the baseline in ``folder``, as far as it is known, or None if the folder is missing or empty. Raises
    `BaselineError` for other content, or for a baseline whose digest is lost."""
    try:
        if found := verify(folder):
            return _PreviousBaseline(digest=found.digest, reason=found.reason, replaces=found.replaces, whole=True)
    except BaselineError as error:
        digest = _read_marker(folder)
        with contextlib.suppress(BaselineError):
            digest = (_packed(folder)[0] if (folder / PACK).is_file() else _manifest(folder / MANIFEST)).digest
        if not digest:
            raise BaselineError(
                f"{error} It was not replaced, because its digest is lost, which the new one has to name. To start "
                f"without a history, delete {folder} and run the same command again."
            ) from error
        warn(f"The old baseline is replaced although it is damaged: {error}")
        return _PreviousBaseline(digest=digest)
    if folder.exists() and any(folder.iterdir()):
        raise BaselineError(f"{folder} is not empty, and is not a baseline. Name another folder with --baseline.")
    return None


def recover(folder: Path) -> None:
    """Finishes the replacement of the baseline in ``folder`` if an `accept` was killed between its two renames, the
    only moment at which ``folder`` does not exist. Otherwise does nothing."""
    folder = Path(folder).resolve()
    if not folder.exists() and _hidden_sibling(folder, "old").is_dir():
        with _locked(folder.parent):
            _finish_replacement(folder)


def _finish_replacement(folder: Path) -> None:
    """Finishes or undoes an `accept` that was killed, and removes its temporary folders next to ``folder``."""
    new, old = _hidden_sibling(folder, "new"), _hidden_sibling(folder, "old")
    if not folder.exists() and old.is_dir():  # killed between the two renames
        whole = False
        with contextlib.suppress(BaselineError):
            whole = verify(new) is not None
        os.rename(new if whole else old, folder)
    for left in (new, old):
        if left.is_dir():
            shutil.rmtree(left)
    _sync(folder.parent)


def _swap(folder: Path, new: Path) -> None:
    """Replaces ``folder`` by ``new``. No portable call exchanges two folders, so the old one is renamed
    first."""
    old = _hidden_sibling(folder, "old")
    if folder.exists():
        os.rename(folder, old)
    try:
        os.rename(new, folder)
    except BaseException:
        if old.is_dir() and not folder.exists():
            os.rename(old, folder)
        raise
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _hidden_sibling(folder: Path, what: str) -> Path:
    """Returns the path of a hidden folder next to ``folder``. It is always the same, so that the next `accept` finds
    it."""
    return folder.parent / f".{folder.name}.{what}"


@contextlib.contextmanager
def _locked(parent: Path) -> Iterator[None]:
    """Lets one `accept` at a time run below ``parent``, if the system has such locks. A killed process loses its
    lock."""
    try:
        import fcntl

        handle = os.open(parent, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def verify(folder: Path) -> Baseline | None:
    """Returns the baseline in ``folder`` after checking every file; None for an ordinary run folder. Raises
    `BaselineError` if it is damaged or was changed."""
    folder = Path(folder)
    found, fault = {}, ""
    if (folder / PACK).is_file():
        path = folder / PACK
        made, own = _packed(folder)
        found, fault = hashes(own.records), own.fault
    elif (folder / MANIFEST).is_file():
        path = folder / MANIFEST
        made = _manifest(path)
        if _read_marker(folder) not in (None, made.digest):
            raise BaselineError(f"The digest in {path} is not that in {folder / MARKER}. {_AGAIN}")
    elif _read_marker(folder) is not None:
        raise BaselineError(
            f"{folder} was accepted as a baseline, but its {MANIFEST} is missing, so its records cannot be checked. "
            f"{_AGAIN}"
        )
    else:
        return None
    found |= _files(folder)
    changed = sorted(name for name in found.keys() | made.files.keys() if found.get(name) != made.files.get(name))
    if changed:
        what = "was added to" if changed[0] not in made.files else "is missing from" if changed[0] not in found else ""
        change = f"{clean(changed[0])} {what} it" if what else f"{clean(changed[0])} was changed"
        raise BaselineError(f"The baseline {folder} is not what was accepted: {change}. {_AGAIN}")
    if fault:
        raise BaselineError(f"{path} is damaged: {fault}. {_AGAIN}")
    if _digest(found) != made.digest:
        raise BaselineError(f"The digest in {path} does not match its files. {_AGAIN}")
    return made


def _manifest(path: Path) -> Baseline:
    """Reads the manifest in ``path`` and checks its own layout, but no other file."""
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError("too large")
        return _restored(path, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, BaselineError):
            raise
        raise BaselineError(f"{path} is damaged. {_AGAIN}") from error


def _packed(folder: Path) -> tuple[Baseline, Pack]:
    """Returns the manifest in the pack of ``folder``, and the pack."""
    try:
        found = pack.read(folder / PACK)
    except PackError as error:
        raise BaselineError(str(error)) from error
    return _restored(folder / PACK, found.manifest), found


def _restored(path: Path, body: Any) -> Baseline:
    """Returns the baseline that the ``body`` of the manifest in ``path`` describes, after checking its layout."""
    try:
        schema = body["schema"]
        made = Baseline(digest=body["digest"], reason=body["reason"], replaces=body["replaces"], files=body["files"])
        texts = (made.digest, made.reason, *([] if made.replaces is None else [made.replaces]), *made.files.values())
        if not isinstance(made.files, dict) or not all(isinstance(text, str) for text in texts):
            raise TypeError("types")
    except (KeyError, TypeError, AttributeError) as error:
        raise BaselineError(f"{path} is damaged. {_AGAIN}") from error
    if type(schema) is not int or schema != SCHEMA:
        raise BaselineError(f"{path} has schema {clean(schema)!s:.20}; this version of ptmbench reads {SCHEMA}.")
    return made


def _read_marker(folder: Path) -> str | None:
    """Returns the digest in the folder's marker; "" if the marker is unreadable, None without one."""
    try:
        text = (folder / MARKER).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        text = ""
    return text if re.fullmatch("[0-9a-f]{64}", text) else ""


def _files(folder: Path) -> dict[str, str]:
    """Returns {path: SHA-256} for predictions, loose records and courses. Hidden files are left out: a board may write
    its index there, and no record is hidden."""
    found = [path for name in _FOLDERS for path in (folder / name).glob("[!.]*") if path.is_file()]
    found += [path for path in (folder / courses.FILE,) if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(found)
    }


def _warn_about_paths(records: Sequence[Record], warn: Callable[[str], None]) -> None:
    """Warns about commands that name paths of this machine."""
    found = [path.group() for record in records if (path := _ABSOLUTE.search(record.command or ""))]
    if found:
        warn(
            f"The commands of {len(found)} of {len(records)} records name paths of this machine, such as {found[0]}. "
            "If you publish them, others cannot repeat them as they stand. Before you publish, repeat the run with "
            "relative paths to data, corpus and checkpoints."
        )


def _is_run(folder: Path) -> bool:
    return (folder / FOLDER).is_dir() or (folder / PACK).is_file()


def _texts(folder: Path) -> dict[str, bytes]:
    """Returns {file name: content} for the packed and loose records of one run folder."""
    packed_ones = pack.read(folder / PACK).records if (folder / PACK).is_file() else {}
    loose = sorted((folder / FOLDER).glob("[!.]*.json"))
    return {**packed_ones, **{path.name: path.read_bytes() for path in loose}}


def _digest(files: Mapping[str, str]) -> str:
    lines = "".join(f"{sha256} {name}\n" for name, sha256 in sorted(files.items()))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    _write(target, source.read_bytes())


def _write(path: Path, content: str | bytes) -> None:
    """Writes a file and waits until it is on the disk, so that the swap cannot happen before its content is stored."""
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Makes the names in ``folder`` survive a power cut, if the system supports it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _copy_predictions(source: Path, new: Path, kept: Mapping[str, str]) -> None:
    path = source / kept["file"]
    if not path.is_file():
        raise BaselineError(
            f"{clean(kept['file'])} is missing next to the records, so nothing was accepted. Copy the predictions "
            "there, "
            "or accept the records alone with --without-predictions."
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != kept["sha256"]:
        raise BaselineError(
            f"{clean(kept['file'])} is not the predictions file of its record, so nothing was accepted. "
            "Run the cell again."
        )
    _copy(path, new / "predictions" / path.name)
