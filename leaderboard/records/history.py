"""The history of a baseline: its records at each commit that changed it.

Git is queried, and nothing is checked out. `leaderboard.scores.history` compares a cell from one commit to the next.
Baselines of earlier versions hold loose records, so both layouts are read. A record is parsed once, however many
commits hold it.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ptmbench.leaderboard.records import baseline, pack
from ptmbench.leaderboard.records.pieces import Pieces
from ptmbench.leaderboard.records.record import FOLDER, Record, RecordError, parse
from ptmbench.leaderboard.records.store import load
from ptmbench.leaderboard.text import clean

MOST = 100
"""Most commits of a baseline that are read, the newest ones."""
_LARGEST = 64 * 2**20  # bytes of one file; a real pack has less than one MiB
_SECONDS = 60
_FIELD, _LINE = "\x1f", "\x1e"
_AWAY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY")
"""Variables that git sets for its hooks. They would name another repository than the one around the baseline."""


class HistoryError(RecordError):
    """Raised if the history of a baseline cannot be read. The message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """A baseline at one commit."""

    commit: str
    """40 hex digits; "" for changes that are not committed."""
    date: str
    """Date of the commit in ISO 8601."""
    subject: str
    """First line of the commit's message."""
    reason: str
    """The reason given to `accept`, from the manifest; "" if it is not known."""
    records: tuple[Record, ...]
    fault: str = ""
    """The error if something could not be read at this commit."""


@dataclass(frozen=True, kw_only=True)
class History:
    versions: tuple[Version, ...]
    """Oldest first."""
    notes: tuple[str, ...] = ()
    """Sentences about missing parts: commits of a shallow clone, or files that cannot be read."""


def is_baseline(folder: Path) -> bool:
    """Whether ``folder`` was accepted as a baseline. Run folders have no history."""
    return any((Path(folder) / name).is_file() for name in (pack.PACK, baseline.MANIFEST))


def history(folder: Path, called: str = "") -> History:
    """Returns the versions of the baseline in ``folder``, oldest first. The current files come last if they are not
    committed. Notes and errors name the folder as ``called``, or else by its path.

    Raises `HistoryError` if ``folder`` holds no baseline, if git is not installed or fails, or if no commit has the
    folder.
    """
    folder, called = Path(folder), called or str(folder)
    if not is_baseline(folder):
        raise HistoryError(f"{called} is not a baseline, so it has no history. Give the folder that `accept` wrote.")
    ask = partial(_git, folder, called)
    shallow = ask("rev-parse", "--is-shallow-repository").strip() == b"true"
    form = _LINE + _FIELD.join(("%H", "%cI", "%s"))
    logged = ask("log", f"--max-count={MOST + 1}", f"--format={form}", "--", ".").decode("utf-8", "replace")
    commits = [line.rstrip("\n").split(_FIELD, 2) for line in logged.split(_LINE)[1:]]
    if not commits:
        raise HistoryError(f"{called} is in no commit, so it has no history yet. Commit the folder after `accept`.")
    notes = []
    if len(commits) > MOST:
        notes.append(f"{called} has more than {MOST} commits: the history begins with the newest {MOST}.")
    elif shallow:
        notes.append(
            f"The history of {called} may be incomplete, because the clone is shallow. `git fetch --unshallow` "
            "fetches all commits."
        )
    reader = _Reader(ask)
    found = [reader.version(*commit) for commit in reversed(commits[:MOST])]
    notes += [f"{called} at commit {one.commit[:10]}: {one.fault}" for one in found if one.fault]
    now = _now(folder)
    if {one.seal for one in now.records} != {one.seal for one in found[-1].records}:
        found.append(now)
    return History(versions=tuple(found), notes=tuple(notes))


def _now(folder: Path) -> Version:
    """Returns the baseline in the current files."""
    reason = ""
    with contextlib.suppress(RecordError):
        reason = getattr(baseline.verify(folder), "reason", "")
    return Version(commit="", date="", subject="", reason=reason, records=load([folder]).records)


class _Reader:
    """Reads the records of commits. Files that several commits share are read once."""

    def __init__(self, ask: Callable[..., bytes]) -> None:
        self._ask = ask
        self._pieces = Pieces()
        self._contents: dict[str, bytes] = {}
        self._parsed: dict[tuple[str, bytes], Record | str] = {}

    def version(self, commit: str, date: str, subject: str) -> Version:
        try:
            files = self._files(commit)
        except HistoryError as error:
            return Version(commit=commit, date=date, subject=clean(subject), reason="", records=(), fault=str(error))
        texts = {os.path.basename(name): text for name, text in files.items() if name.startswith(f"{FOLDER}/")}
        faults, manifest = [], files.get(baseline.MANIFEST, b"{}")
        if pack.PACK in files:
            try:
                found = pack.unpacked(files[pack.PACK], pack.PACK)
                texts, manifest = {**texts, **found.records}, json.dumps(found.manifest).encode()
                faults += [f"{name} is damaged." for name in found.lost]
            except pack.PackError as error:
                faults.append(str(error))
        records = {}
        for name, text in sorted(texts.items()):
            record = self._record(name, text)
            if isinstance(record, Record):
                records[record.seal] = record
            else:
                faults.append(record)
        return Version(
            commit=commit,
            date=date,
            subject=clean(subject),
            reason=_reason(manifest),
            records=tuple(records.values()),
            fault=_counted(faults),
        )

    def _files(self, commit: str) -> dict[str, bytes]:
        """Returns {path below the folder: content} for the manifest and the records at ``commit``."""
        listed = self._ask("ls-tree", "-r", "-z", "-l", commit, "--", ".")
        names = {}
        for line in filter(None, listed.decode("utf-8", "surrogateescape").split("\0")):
            about, name = line.split("\t", 1)
            mode, _, sha, size = about.split()
            wanted = name in (pack.PACK, baseline.MANIFEST) or (
                name.startswith(f"{FOLDER}/") and name.endswith(".json") and name.count("/") == 1
            )
            if wanted and mode.startswith("100") and int(size) <= _LARGEST:  # an ordinary file: no link, no submodule
                names[name] = sha
        missing = sorted(set(names.values()) - self._contents.keys())
        self._contents |= _blobs(self._ask, missing)
        return {name: self._contents[sha] for name, sha in names.items() if sha in self._contents}

    def _record(self, name: str, text: bytes) -> Record | str:
        """Returns the record, or the error."""
        if (name, text) not in self._parsed:
            try:
                self._parsed[name, text] = parse(name, text, self._pieces)
            except RecordError as error:
                self._parsed[name, text] = str(error)
        return self._parsed[name, text]


def _counted(faults: Sequence[str]) -> str:
    return faults[0] if len(faults) == 1 else f"{len(faults)} records cannot be read." if faults else ""


def _reason(manifest: bytes) -> str:
    try:
        reason = json.loads(manifest)["reason"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return clean(reason) if isinstance(reason, str) else ""


def _blobs(ask: Callable[..., bytes], hashes: Sequence[str]) -> Mapping[str, bytes]:
    """Returns {hash: content} of git's objects, without missing ones."""
    if not hashes:
        return {}
    answer = ask("cat-file", "--batch", given="".join(f"{one}\n" for one in hashes).encode())
    found, at = {}, 0
    while at < len(answer):
        end = answer.index(b"\n", at)
        head, at = answer[at:end].decode("ascii", "replace").split(), end + 1
        if len(head) == 3 and head[1] == "blob":
            size = int(head[2])
            found[head[0]] = answer[at : at + size]
            at += size + 1
    return found


def _git(folder: Path, called: str, *arguments: str, given: bytes = b"") -> bytes:
    """Runs git in ``folder`` and returns its output. It asks for no password, takes no optional lock and fetches
    nothing."""
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    environment = {name: value for name, value in os.environ.items() if name not in _AWAY} | quiet
    try:
        done = subprocess.run(
            ["git", "--no-pager", "-c", "core.fsmonitor=false", *arguments],
            cwd=folder, env=environment, input=given, capture_output=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise HistoryError(f"The history of {called} needs git, which is not installed. Install git.") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HistoryError(f"The history of {called} cannot be read: {clean(error)}. Check the repository.") from error
    if done.returncode:
        message = clean(done.stderr.decode("utf-8", "replace").strip().partition("\n")[0])
        if "not a git repository" in message:
            raise HistoryError(
                f"{called} is not in a git repository, so it has no history. Commit the folder after `accept`."
            )
        if "does not have any commits" in message:
            raise HistoryError(f"{called} is in no commit, so it has no history yet. Commit the folder after `accept`.")
        raise HistoryError(f"git cannot read the history of {called}: {message}. Check the repository with `git fsck`.")
    return done.stdout
