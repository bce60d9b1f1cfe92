"""Failed dependencies: the records of cells give the reason, and the next run tries them again."""

from dataclasses import replace

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import CELLS_FAILED
from ptmbench.bench.runs.execute import set_failures_aside
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import failure_of, settled
from ptmbench.bench.runs.suites import Stage, demo
from ptmbench.bench.runs.work import Worker
from ptmbench.leaderboard.records import record
from tests.bench import asking
from tests.bench.cells import SHORT
from tests.bench.test_schedule import BERT, CELLS, WORDS

JOB = Job(data="", source={}, command="run", keep=False, length=32)


def test_failures_propagate_through_the_graph_with_their_reasons(tmp_path):
    second = replace(BERT, base=BERT.key)
    third = replace(BERT, base=second.key)
    cell = replace(CELLS[0], pretraining=third.key)
    plan = Plan((WORDS, BERT, second, third, cell))
    worker = Worker(tmp_path, plan, JOB)
    worker.give_up(BERT, {"code": "worker-died", "text": "Two workers died."})
    assert failure_of(tmp_path, BERT).name == f"bert-tiny.{BERT.key[:12]}.failed.json"
    for one in (second, third, cell):
        assert one.key not in settled(tmp_path, plan)
        message = worker.do(one.key)
        assert message.startswith(one.title) and "Two workers died." in message
    assert settled(tmp_path, plan) == {BERT.key, second.key, third.key, cell.key}
    found = record.read(cell.place(tmp_path))
    assert (found.status, found.reason["code"]) == ("failed", "worker-died")
    continues = "The pre-training that it continues failed: "
    assert found.reason["text"] == f"Its pre-training failed: {2 * continues}Two workers died."
    set_failures_aside(tmp_path)
    assert not settled(tmp_path, plan)


def test_a_tokenizer_that_cannot_be_trained_ends_the_run_with_an_error(world, tmp_path, capfd):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"caf\xe9 au lait\n" * 9)
    from ptmbench.bench.__main__ import main

    command = ["run", "demo", "--models", "random-word2vec", "--no-baselines", "--tasks", "cola", "--seeds", "1"]
    command += ["--corpus", str(bad), "--data", str(world), "--out", str(tmp_path / "out"), "--jobs", "1"]
    for _ in range(2):  # the second run with the same corpus fails, too
        assert main(command) == 4
        assert "is not UTF-8" in capfd.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.glob("out/records/*")) and not list(tmp_path.glob("out/tokenizers/*.json"))


def test_cells_are_recorded_as_diverged_if_their_base_diverges(world, tmp_path, monkeypatch):
    stage = Stage(budget=Budget(steps=4), corpus=("corpus/*.txt",), recipe={"learning_rate": 1e30})
    monkeypatch.setattr(demo, "SUITE", replace(demo.SUITE, base=stage))
    options = {"models": ("word2vec",), "tasks": ("cola",), "seeds": 1, "baselines": False, "jobs": 1, "threads": 1}
    options |= {"data": world, "out": tmp_path, "budget": Budget(steps=4), "recipe": SHORT, "vocabulary": 300}
    assert asking.run_suite(suite="demo", **options) == CELLS_FAILED
    (found,) = [record.read(path) for path in (tmp_path / "records").glob("*.json")]
    assert found.status == "diverged" and found.pretraining is None
    assert found.reason["text"].startswith(
        "Its pre-training failed: The pre-training that it continues failed: The loss"
    )
