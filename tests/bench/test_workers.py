"""Multi-worker training: two processes on this machine, configured by TF_CONFIG."""

import time

import pytest

from ptmbench.bench.errors import ENVIRONMENT, OK
from ptmbench.bench.perf import strategies
from tests.bench.processes import PATIENCE, made_text, start, states, wait_for

STEPS = ("--steps", "400")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return made_text(tmp_path_factory.mktemp("text") / "corpus.txt")


def pair(text, out, *more):
    """Starts two workers of one job, the chief first."""
    addresses = [f"127.0.0.1:{port}" for port in strategies.free_ports(2)]
    return [
        start(text, out, *STEPS, *more, model="word2vec", TF_CONFIG=strategies.tf_config(addresses, index))
        for index in range(2)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1], ids=["chief", "worker"])
def test_a_killed_worker_is_reported_by_the_other_and_the_job_resumes(victim, text, tmp_path):
    out = tmp_path / "killed"
    workers = pair(text, out, "--save-every", "0.05")
    wait_for(lambda: sum(not path.name.startswith(".") for path in states(out)) > 1)
    workers[victim].kill()
    killed = time.monotonic()
    _, messages = workers[1 - victim].communicate(timeout=PATIENCE)
    assert time.monotonic() - killed < 60
    assert workers[1 - victim].returncode == ENVIRONMENT
    assert "Another worker of this job has stopped" in messages and "Traceback" not in messages
    workers[victim].communicate()
    left = max(path.name for path in states(out) if not path.name.startswith("."))
    chief, worker = pair(text, out)
    both_messages = [process.communicate(timeout=PATIENCE)[1] for process in (chief, worker)]
    assert (chief.returncode, worker.returncode) == (OK, OK), both_messages
    assert "400/400 steps" in both_messages[0] and both_messages[1] == "", "only the chief speaks"
    assert int(left[-9:]) > 0 and (out / "manifest.json").exists() and not states(out)


@pytest.mark.slow
def test_workers_that_see_different_states_are_rejected(text, tmp_path):
    addresses = [f"127.0.0.1:{port}" for port in strategies.free_ports(2)]
    alone = start(text, tmp_path / "first", *STEPS, "--save-every", "0.01", model="word2vec")
    wait_for(lambda: states(tmp_path / "first"))
    alone.terminate()
    alone.communicate(timeout=PATIENCE)
    outs = (tmp_path / "first", tmp_path / "second")
    workers = [
        start(text, out, *STEPS, model="word2vec", TF_CONFIG=strategies.tf_config(addresses, index))
        for index, out in enumerate(outs)
    ]
    for process in workers:
        _, messages = process.communicate(timeout=PATIENCE)
        assert process.returncode == ENVIRONMENT and "shared file system" in messages
