"""Set-up of all tests: quiet libraries, one thread per process (pytest runs one worker per core), separate cache."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from ptmbench.bench import environment

environment.prepare(threads=1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script; some tests send Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser) -> None:
    parser.addoption("--freeze", action="store_true", help="Keep what references compute now (tests/models/frozen).")
    parser.addoption("--minutes", type=float, help="Skip the tests that would begin later (default: no limit).")


def pytest_configure(config) -> None:
    config.addinivalue_line("markers", "rest: the part of the sweep that continuous integration leaves out")
    config.began = time.monotonic()


@pytest.hookimpl(trylast=True)  # after the tests with other markers have been removed
def pytest_collection_modifyitems(config, items) -> None:
    """With ``--minutes``, begins at a test that depends on the commit, so that no test is always left out."""
    if config.getoption("--minutes") is not None and items:
        first = int(_commit(config.rootpath), 16) % len(items)
        items[:] = items[first:] + items[:first]


def _commit(folder: Path) -> str:
    """The hexadecimal name of the commit in ``folder``; "0" if git does not know it."""
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return "0"
    return found.stdout.strip() or "0"


def pytest_runtest_setup(item) -> None:
    minutes = item.config.getoption("--minutes")
    if minutes is not None and time.monotonic() - item.config.began > 60 * minutes:
        pytest.skip(f"the {minutes:g} minutes are over")


@pytest.fixture(autouse=True, scope="session")
def own_cache() -> None:
    """Uses a temporary cache folder, so that tests neither read nor fill the user's cache."""
    with tempfile.TemporaryDirectory(prefix="ptmbench-tests-") as folder:
        before = os.environ.get("PTMBENCH_CACHE")
        os.environ["PTMBENCH_CACHE"] = str(Path(folder))
        yield
        os.environ.pop("PTMBENCH_CACHE")
        if before is not None:
            os.environ["PTMBENCH_CACHE"] = before
