"""The process and the machine: log levels, threads, the cache folder, and what a record says about the machine.

Every function imports what it needs when it is called, so the command line starts without TensorFlow.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import logging
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

from ptmbench.bench.errors import EnvironmentProblem, UsageError

PACKAGES = (
    "ptmbench",
    "tensorflow",
    "keras",
    "keras-hub",
    "tensorflow-text",
    "tokenizers",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "sacrebleu",
    "rouge-score",
)
"""Packages whose version can change a score; every record lists them."""

ROOT = Path(__file__).resolve().parent.parent


def prepare(threads: int | None = None) -> None:
    """Sets the environment variables that TensorFlow reads at its import. Call this before anything imports it.

    ``threads`` limits the threads of one operation and of BLAS; None leaves both to the libraries. Values of
    TF_CPP_MIN_LOG_LEVEL and TF_ENABLE_ONEDNN_OPTS in the environment are kept. By default oneDNN is on: TensorFlow
    itself turns it on only if it finds AVX-512, but an AVX2 machine trained 1.1 to 1.4 times as fast with it
    (bench/perf/README.md).

    Raises `UsageError` in a process that is importing its parent's script. Otherwise, a script without a guarded entry
    point would start its run again in each process that tokenises, and all of them would wait for one lock.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # multiprocessing itself checks this
        raise UsageError(
            "This script calls ptmbench while it is imported by another process. Put its calls below "
            "`if __name__ == '__main__':`."
        )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    if threads is not None:
        for name in ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
            os.environ[name] = str(threads)
        os.environ["TF_NUM_INTEROP_THREADS"] = str(threads)
    for name in ("tensorflow", "absl"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if "tensorflow" not in sys.modules and not any(isinstance(finder, _QuietImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _QuietImport())


def threads() -> int:
    """The number of threads of one operation, as `prepare` has set it. It changes the order in which sums are added up,
    so scores repeat to the last digit only with the same number."""
    return int(os.environ.get("TF_NUM_INTRAOP_THREADS") or cores())


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of `PACKAGES`, from the installed metadata. Imports none of them."""
    from importlib import metadata

    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


@cache
def commit() -> str:
    """The clone's git commit, with "+changes" if tracked files differ from it; "unknown" outside a clone."""
    head = _git("rev-parse", "HEAD")
    if not head:
        return "unknown"
    return head + ("+changes" if _git("status", "--porcelain", "--untracked-files=no") else "")


@cache
def device() -> str:
    """The names of the accelerators that TensorFlow finds, or the name of the processor. Imports TensorFlow."""
    prepare()
    import tensorflow as tf

    names = [
        tf.config.experimental.get_device_details(found).get("device_name", found.device_type)
        for found in tf.config.list_physical_devices()
        if found.device_type != "CPU"
    ]
    return " + ".join(names) or f"{processor()}, {cores()} cores"


@cache
def processor() -> str:
    """The processor's name as given by its manufacturer."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def cores() -> int:
    """The number of processor cores that this process may use. A container may have fewer than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resident_bytes() -> int | None:
    """Current resident memory of this process in bytes; None if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def worker_memory(workers: int) -> int:
    """The resident memory in bytes from which on one of ``workers`` of this machine is replaced by a new process,
    because XLA keeps all that it has compiled until its process ends: 4 GiB, or less if all together would then exceed
    three quarters of the machine's memory."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(4 << 30, 3 * machine // (4 * workers))


def exceeds(memory: int) -> bool:
    """Whether this process has more than ``memory`` bytes, or had if the system reports only the peak."""
    return (resident_bytes() or peak_memory_bytes()) > memory


def peak_memory_bytes() -> int:
    """The peak memory of this process in bytes, since its start or the last `reset_peak_memory`."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts in bytes, other systems in KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def reset_peak_memory() -> bool:
    """Resets the peak memory, so that each cell has its own. Returns False if the kernel does not support this."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def cache_folder() -> Path:
    """The folder of tokenizers and tokenised corpora: PTMBENCH_CACHE, or "ptmbench" in the user's cache folder."""
    if chosen := os.environ.get("PTMBENCH_CACHE"):
        return Path(os.path.expanduser(chosen)).resolve()
    from platformdirs import user_cache_path

    return user_cache_path("ptmbench", appauthor=False)


def cache_subfolder(part: str) -> Path:
    """Returns the folder ``part`` of the cache and creates it if needed. Raises `EnvironmentProblem` if it cannot be
    written, for example on machines whose users have no home folder."""
    folder = cache_folder() / part
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        why = error.strerror or error
        raise EnvironmentProblem(
            f"The cache folder {folder} cannot be written ({why}). Name another with PTMBENCH_CACHE."
        ) from error
    return folder


class _QuietImport(importlib.abc.MetaPathFinder):
    """Keeps TensorFlow's import quiet: its C++ code writes logs during the import, before it reads any log level."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def quietly(module: ModuleType) -> None:
                with without_log_lines():
                    execute(module)

            spec.loader.exec_module = quietly  # type: ignore[method-assign]
        return spec


_LOG_LINE = re.compile(rb"WARNING: All log messages before absl|[IWE]\d{4} \d\d:\d\d:\d\d|[IWE]0000 ")


@contextmanager
def without_log_lines() -> Iterator[None]:
    """Collects what the block writes to the stderr of the process, then writes it without the lines of C++ logs."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        stderr = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            for line in held:
                if not _LOG_LINE.match(line):
                    os.write(2, line)


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
