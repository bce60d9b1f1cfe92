"""Exit statuses, and the exceptions that they stand for.

Only the command line catches exceptions. Other modules raise them with a message for the user, and `status` converts
them to exit statuses. The table names classes by their paths, so this module imports none of the modules that define
them.
"""

import errno
import sys
from pathlib import Path

OK, CELLS_FAILED, USAGE, ENVIRONMENT, BASELINE, UNEXPECTED = 0, 1, 2, 4, 5, 70
BROKEN_PIPE, INTERRUPTED, TERMINATED = 141, 130, 143


class UsageError(ValueError):
    """An invalid option, name or value. The message says what is valid."""


class EnvironmentProblem(RuntimeError):
    """A file, a checkpoint, a folder, a library or something else outside the program is missing or broken."""


class BrokenFile(EnvironmentProblem):
    """A file of a suite, an adaptation or a baseline that cannot be imported, or lacks a required definition."""


class Diverged(ArithmeticError):
    """Training produced a number that is not finite, at ``step`` (counted from 1) of the run with ``seed``.

    ``last_good`` is the path of the last training state saved before this step, if there is one.
    """

    def __init__(self, step: int, seed: int, what: str = "The loss is", last_good: Path | None = None):
        back = f"The last good training state is {last_good}. " if last_good else ""
        super().__init__(f"{what} not finite at step {step} with seed {seed}. {back}Try a smaller learning_rate.")
        self.step, self.seed, self.last_good = step, seed, last_good


class ContinuedElsewhere(Exception):
    """A pre-training that has to continue on another machine (`bench.engine.portable.carry`). The message says how."""


class NotApplicable(Exception):
    """A model that cannot be used for a task. ``code`` is for programs, the message ("because ...") for the board."""

    def __init__(self, code: str, text: str):
        super().__init__(text)
        self.code = code


class NoDecoder(NotApplicable):
    """A model without a decoder that is given a generation task."""

    def __init__(self) -> None:
        super().__init__("no-decoder", "because this model has no decoder to generate text with.")


STATUSES = {
    "ptmbench.bench.errors.Diverged": CELLS_FAILED,
    "ptmbench.bench.errors.UsageError": USAGE,
    "ptmbench.bench.adapt.settings.SettingError": USAGE,
    "ptmbench.models.UnknownModel": USAGE,
    "ptmbench.tasks.task.UnknownTask": USAGE,
    "ptmbench.models.BrokenModel": ENVIRONMENT,
    "ptmbench.tasks.task.BrokenTask": ENVIRONMENT,
    "ptmbench.bench.errors.EnvironmentProblem": ENVIRONMENT,
    "ptmbench.tasks.task.DataError": ENVIRONMENT,
    "ptmbench.models.text.pieces.CorpusError": ENVIRONMENT,
    "ptmbench.models.text.tokenizers.TokenizerError": ENVIRONMENT,
    "ptmbench.models.published.PublishedError": ENVIRONMENT,
    "ptmbench.bench.engine.checkpoint.CheckpointError": ENVIRONMENT,
    "ptmbench.leaderboard.records.baseline.BaselineError": BASELINE,
    "ptmbench.leaderboard.records.record.RecordError": ENVIRONMENT,
}

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_DISK = {
    errno.ENOSPC: "The disk is full",
    errno.EDQUOT: "The disk quota is used up",
    errno.EROFS: "The file system is read-only",
    errno.EACCES: "Permission denied",
    errno.EPERM: "Operation not permitted",
    errno.ENOENT: "There is no such file or folder",
    errno.EEXIST: "A folder was expected, but this is a file",
    errno.EISDIR: "A file was expected, but this is a folder",
    errno.ENOTDIR: "A folder was expected, but this is a file",
}


def status(error: BaseException) -> int:
    """The exit status for ``error``. A subclass has the status of its base class."""
    known = _known(error)
    if known is not None:
        return known
    return ENVIRONMENT if isinstance(error, OSError | MemoryError) else UNEXPECTED


def sentence(error: BaseException) -> str:
    """The message about ``error`` for the user, safe to print on a terminal."""
    if isinstance(error, MemoryError):
        return "The machine ran out of memory: take a smaller --size, --batch or --limit, or fewer --jobs."
    if isinstance(error, OSError) and _known(error) is None:
        what = _DISK.get(error.errno or 0) or error.strerror or str(error) or type(error).__name__
        next_step = " Make room, and give the same command again." if error.errno in _NO_ROOM else ""
        return printable((f"{what}: {error.filename}." if error.filename else f"{what}.") + next_step)
    text = str(error) or type(error).__name__
    return printable(text if status(error) != UNEXPECTED else f"{type(error).__name__}: {text}")


def brief(value: object) -> str:
    """``value`` as text of at most 30 characters."""
    text = str(value)
    return text if len(text) <= 30 else f"{text[:27]}..."


def printable(text: str) -> str:
    """``text`` with control characters escaped, so that names from data sets cannot control a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text).strip()


def _known(error: BaseException) -> int | None:
    """The status of the first class in `STATUSES` that ``error`` is an instance of, or None."""
    for path, known in STATUSES.items():
        module, _, name = path.rpartition(".")
        cls = getattr(sys.modules.get(module), name, None)
        if cls is not None and isinstance(error, cls):
            return known
    return None
