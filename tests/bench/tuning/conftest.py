"""Data and finished tunings that the tests of this folder share."""

import shutil

import pytest

from ptmbench.bench.runs import execute
from ptmbench.bench.runs.tuning import search
from ptmbench.bench.runs.work import Worker
from ptmbench.tasks import microworld
from tests.bench.processes import made_text
from tests.bench.tuning.asked import adapting, tuning


@pytest.fixture(scope="package")
def text(tmp_path_factory):
    return made_text(tmp_path_factory.mktemp("text") / "corpus.txt")


@pytest.fixture(scope="package")
def here():
    """Runs all work in this process."""

    def work(what, whole, job, out, workers):
        done = execute.settled(out, whole)
        for one in whole.artefacts:
            if one.key not in done:
                Worker(out, whole, job).do(one.key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "work", work)
        patch.setattr(execute, "work", work)
        yield


@pytest.fixture(scope="package")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("microworld") / "data"
    microworld.make(folder)
    return folder


@pytest.fixture(scope="package")
def once(here, world, tmp_path_factory):
    out = tmp_path_factory.mktemp("tuning") / "tuned"
    tuning(out, world)
    return out


@pytest.fixture
def ended(once, tmp_path):
    """A folder with a finished tuning."""
    return shutil.copytree(once, tmp_path / "tuned")


@pytest.fixture(scope="package")
def adapted_once(here, world, tmp_path_factory):
    out = tmp_path_factory.mktemp("adapting") / "tuned"
    adapting(out, world, trials=2, seeds=1)
    return out


@pytest.fixture
def adapted(adapted_once, tmp_path):
    """A folder with a finished small tuning of adaptations."""
    return shutil.copytree(adapted_once, tmp_path / "tuned")
