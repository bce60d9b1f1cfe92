"""Workers whose predecessors left damaged or finished work."""

import pytest

from ptmbench.bench.engine import checkpoint
from ptmbench.bench.runs.execute import _final_statuses, set_failures_aside
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import failure_of, intact, settled
from ptmbench.bench.runs.work import Worker
from ptmbench.leaderboard.records import record
from tests.bench.test_schedule import BERT, CELLS, WORDS

PLAN = Plan((WORDS, BERT, CELLS[0]))
DIED = {"code": "worker-died", "text": "2 workers ended while running it."}


@pytest.fixture
def worker(tmp_path):
    return Worker(tmp_path, PLAN, Job(data="", source={}, command="run", keep=False, length=32))


@pytest.fixture
def pretrained(tmp_path):
    """The folder of a finished pre-training."""
    folder = BERT.place(tmp_path)
    checkpoint.write(folder, about={"steps": 7, "loss": 2.5}, arrays={"weights": {}}, texts={})
    return folder


def records(out):
    return [record.read(path) for path in (out / "records").glob("*.json")]


def test_a_damaged_checkpoint_fails_the_cell_but_not_the_worker(worker, pretrained, tmp_path):
    manifest = pretrained / checkpoint.MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-30])
    assert "manifest.json is damaged" in worker.do(CELLS[0].key)
    (found,) = records(tmp_path)
    assert found.status == "failed" and found.reason["code"] == "checkpoint" and str(manifest) in found.reason["text"]


def test_a_damaged_pretraining_counts_as_not_done(pretrained, tmp_path):
    assert BERT.key in settled(tmp_path, PLAN) and intact(tmp_path, BERT)
    manifest = pretrained / checkpoint.MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-30])
    assert BERT.key not in settled(tmp_path, PLAN) and not intact(tmp_path, BERT)


def test_a_retry_sets_damaged_weights_aside_and_keeps_intact_ones(pretrained, tmp_path, capsys):
    set_failures_aside(tmp_path)
    assert BERT.key in settled(tmp_path, PLAN)
    weights = pretrained / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert BERT.key in settled(tmp_path, PLAN)  # the manifest alone does not show the damage
    set_failures_aside(tmp_path)
    assert BERT.key not in settled(tmp_path, PLAN) and str(weights) in capsys.readouterr().err
    (aside,) = (tmp_path / "superseded").iterdir()
    assert (aside / "weights.safetensors").exists()


@pytest.mark.parametrize("damage", [lambda b: b.replace(b'"failed"', b'"ok"'), lambda b: b"[]", lambda b: b[:99]])
def test_a_damaged_record_is_named_and_counts_as_failed(worker, tmp_path, capsys, damage):
    worker.give_up(CELLS[0], DIED)
    (path,) = (tmp_path / "records").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert list(_final_statuses(PLAN, tmp_path).values()) == ["failed"] and path.name in capsys.readouterr().err
    set_failures_aside(tmp_path)
    assert not path.exists() and len(list((tmp_path / "superseded").iterdir())) == 1


def test_work_counts_as_done_if_the_worker_dies_after_the_last_write(worker, pretrained, tmp_path):
    worker.give_up(BERT, DIED)
    assert not failure_of(tmp_path, BERT).exists()
    assert worker.do(BERT.key) == "Pre-training bert-tiny (wordpiece): 7 steps, loss 2.500"
    worker.give_up(CELLS[0], {"code": "error", "text": "The first reason."})
    worker.give_up(CELLS[0], DIED)
    (found,) = records(tmp_path)
    assert found.reason["text"] == "The first reason."
