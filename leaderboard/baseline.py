"""A baseline: records that somebody accepted, to be committed and compared with.

It is a run folder (records and the predictions beside them) with a ``baseline.json`` that says why it was accepted and
what its content hashes to. The digest is over the content of every file, so a record that is changed, added or taken
away is noticed even if its own seal is right; who accepted it is left to version control.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leaderboard.record import FOLDER, RecordError
from leaderboard.store import load
from leaderboard.text import clean

MANIFEST = "baseline.json"
SCHEMA = 1
_FOLDERS = (FOLDER, "predictions")
_LARGEST = 4 * 2**20  # bytes of a manifest; a real one has a hundred bytes a file
_AGAIN = "Take it from version control again, or set it anew with `python -m bench accept`."


class BaselineError(RecordError):
    """A baseline that cannot be trusted, or records that cannot become one."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    digest: str
    """SHA-256 over the names and contents of all files."""
    reason: str
    replaces: str | None
    """The digest of the baseline before it."""
    files: Mapping[str, str]
    """{path below the folder: SHA-256}"""


def accept(records: Path, folder: Path, reason: str, predictions: bool = True) -> Baseline:
    """Make the records of the run folder ``records`` the baseline in ``folder``, which is replaced as a whole.

    Without ``predictions`` the records come alone: predictions quote the data, and not every licence lets them be
    published. The intervals over examples are in the records.

    `BaselineError` when there is no reason, no scored record, a damaged one, or predictions that are not those of
    their record; then ``folder`` stays as it was.
    """
    # Resolved: what is renamed into the place of "." or of a link would lie inside it, and go with the old baseline.
    reason, records, folder = clean(reason).strip(), Path(records), Path(folder).resolve()
    if not reason:
        raise BaselineError("A baseline needs a reason: say with --reason why these scores are right.")
    source = records.parent if records.name == FOLDER else records
    store = load([records])
    if not (source / FOLDER).is_dir():
        raise BaselineError(f"{records} holds several runs. A baseline is one of them: give its folder.")
    if store.damaged:
        raise BaselineError(f"{store.damaged[0].file} is damaged, so nothing was accepted: {store.damaged[0].reason}")
    if not any(record.status == "ok" for record in store.records):
        raise BaselineError(f"{records} holds no record with a score, so there is nothing to compare with later.")
    before = verify(folder) if (folder / MANIFEST).exists() else None
    if before is None and folder.exists() and any(folder.iterdir()):
        raise BaselineError(f"{folder} is not empty and no baseline. Name another folder with --baseline.")
    new = folder.parent / f".{folder.name}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        for path in sorted((source / FOLDER).glob("*.json")):
            _copy(path, new / FOLDER / path.name)
        for record in store.records:
            if predictions and record.predictions:
                _copy_predictions(source, new, record.predictions)
        files = _files(new)
        made = Baseline(digest=_digest(files), reason=reason, replaces=before.digest if before else None, files=files)
        text = json.dumps({"schema": SCHEMA} | vars(made), indent=1, ensure_ascii=True) + "\n"
        (new / MANIFEST).write_text(text, encoding="utf-8", newline="\n")
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return made


def verify(folder: Path) -> Baseline | None:
    """The baseline in ``folder``, every file checked; None where it is an ordinary run folder."""
    folder = Path(folder)
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError("too large")
        body = json.loads(path.read_text(encoding="utf-8"))
        schema = body["schema"]
        made = Baseline(digest=body["digest"], reason=body["reason"], replaces=body["replaces"], files=body["files"])
        if not isinstance(made.files, dict) or not all(isinstance(x, str) for x in (made.digest, made.reason)):
            raise TypeError("types")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BaselineError(f"{path} is damaged. {_AGAIN}") from error
    if schema != SCHEMA:
        raise BaselineError(f"{path} has schema {clean(schema)!s:.20}; this version of ptmbench reads {SCHEMA}.")
    found = _files(folder)
    changed = sorted(name for name in found.keys() | made.files.keys() if found.get(name) != made.files.get(name))
    if changed:
        what = "was added to" if changed[0] not in made.files else "is missing from" if changed[0] not in found else ""
        said = f"{clean(changed[0])} {what} it" if what else f"{clean(changed[0])} was changed"
        raise BaselineError(f"The baseline {folder} is not what was accepted: {said}. {_AGAIN}")
    if _digest(found) != made.digest:
        raise BaselineError(f"The digest in {path} is not that of its files. {_AGAIN}")
    return made


def _files(folder: Path) -> dict[str, str]:
    """{path: SHA-256}. Hidden files are no part of it: a board may leave its index there, and no record is one."""
    found = sorted(path for name in _FOLDERS for path in (folder / name).glob("[!.]*") if path.is_file())
    return {f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def _digest(files: Mapping[str, str]) -> str:
    lines = "".join(f"{sha256} {name}\n" for name, sha256 in sorted(files.items()))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _copy_predictions(source: Path, new: Path, kept: Mapping[str, str]) -> None:
    path = source / kept["file"]
    if not path.is_file():
        raise BaselineError(
            f"{clean(kept['file'])} is not beside the records, so nothing was accepted. Bring the predictions along, "
            "or accept the records alone with --without-predictions."
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != kept["sha256"]:
        raise BaselineError(
            f"{clean(kept['file'])} is not the predictions file of its record, so nothing was accepted. "
            "Run the cell again."
        )
    _copy(path, new / "predictions" / path.name)
