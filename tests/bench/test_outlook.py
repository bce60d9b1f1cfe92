"""The time estimate before a run: its longest part, and warnings that suggest a shorter budget."""

import pytest

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK
from ptmbench.bench.runs import estimate, outlook, run
from tests.bench.asking import run_suite


@pytest.fixture
def stderr_of_run(world, tmp_path, capsys, monkeypatch):
    """A function that plans a run and returns the lines of stderr, for a machine with 1e11 FLOP/s."""
    monkeypatch.setattr(estimate, "flops_per_second", lambda: 1e11)

    def plan(*models, **changes):
        options = {"suite": "demo", "data": world, "out": tmp_path / "out", "models": models, "tasks": ("sst2",)}
        assert run_suite(**options | {"baselines": False, "seeds": 1, "dry_run": True} | changes) == OK
        return capsys.readouterr().err.splitlines()

    return plan


def test_many_cheap_steps_give_a_warning_that_suggests_a_shorter_budget(stderr_of_run):
    work, warning = stderr_of_run("glove", "bert")
    assert work.startswith("Estimated work: about 8 h") and "the pre-training of glove-tiny (wordpiece), seed 0" in work
    assert warning.startswith("Warning: the pre-training of glove-tiny (wordpiece), seed 0, takes about 8 h")
    assert "steps of 0.2 MFLOP each, so most of the time is overhead" in warning and "`--recipe batch=N`" in warning
    flags = warning.rpartition("`--flops ")[2].partition("`")[0]
    assert not stderr_of_run("glove", "bert", budget=Budget(flops=float(flags)))[1:]
    assert not stderr_of_run("glove", "bert", recipe={"batch": 4096, "length": 128})[1:]


def test_equal_tokens_for_a_far_more_expensive_model_give_a_warning(stderr_of_run):
    work, warning = stderr_of_run("word2vec", "elmo", budget=Budget(tokens=2_000_000_000), recipe={"batch": 4096})
    assert "the pre-training of elmo-tiny" in warning and "longest one of another model" in warning
    assert "overhead" not in warning and "`--tokens " in warning


def test_sensible_runs_print_the_time_without_a_warning(stderr_of_run):
    assert len(stderr_of_run("bert", "gpt", "elmo", "electra")) == 1
    (line,) = stderr_of_run("bert", budget=(Budget(flops=1e12), Budget(flops=1e15)))  # a ladder of budgets is intended
    assert "The longest part is the pre-training of bert-tiny" in line and "--flops 1e+15" in line
    (line,) = stderr_of_run("glove", budget=Budget(minutes=600))  # a budget in minutes needs no warning
    assert "10 h 00 min" in line


def test_a_run_prints_the_estimate_of_its_remaining_work(stderr_of_run, monkeypatch):
    monkeypatch.setattr(run, "execute", lambda *given: OK)
    assert any(line.startswith("Estimated work: about") for line in stderr_of_run("majority", dry_run=False))
    monkeypatch.setattr(outlook, "settled", lambda out, plan: {one.key for one in plan.artefacts})
    assert not stderr_of_run("majority", dry_run=False)
    monkeypatch.setattr(outlook, "settled", lambda out, plan: 1 / 0)  # a failed estimate does not stop the run
    assert stderr_of_run("majority", dry_run=False) == ["The time of this run cannot be estimated: ZeroDivisionError."]
