"""What a run says before it starts: the time, what takes most of it, and how a run of many hours becomes shorter."""

import pytest

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK
from ptmbench.bench.runs import estimate, outlook, run
from tests.bench.asking import run_suite


@pytest.fixture
def told(world, tmp_path, capsys, monkeypatch):
    """A function that plans a run and returns what it says on stderr; every machine has the same speed."""
    monkeypatch.setattr(estimate, "flops_per_second", lambda: 1e11)

    def plan(*models, **changes):
        options = {"suite": "demo", "data": world, "out": tmp_path / "out", "models": models, "tasks": ("sst2",)}
        assert run_suite(**options | {"baselines": False, "seeds": 1, "dry_run": True} | changes) == OK
        return capsys.readouterr().err.splitlines()

    return plan


def test_a_pretraining_of_many_cheap_steps_is_warned_about_with_a_budget_that_is_shorter(told):
    work, warning = told("glove", "bert")
    assert work.startswith("Estimated work: about 8 h") and "the pre-training of glove-tiny (wordpiece), seed 0" in work
    assert warning.startswith("Warning: the pre-training of glove-tiny (wordpiece), seed 0, takes about 8 h")
    assert "steps of 0.2 MFLOP each, so most of the time is overhead" in warning and "`--recipe batch=N`" in warning
    flags = warning.rpartition("`--flops ")[2].partition("`")[0]
    assert not told("glove", "bert", budget=Budget(flops=float(flags)))[1:]
    assert not told("glove", "bert", recipe={"batch": 4096, "length": 128})[1:]


def test_equal_tokens_for_a_network_that_costs_far_more_are_warned_about(told):
    work, warning = told("word2vec", "elmo", budget=Budget(tokens=2_000_000_000), recipe={"batch": 4096})
    assert "the pre-training of elmo-tiny" in warning and "longest one of another model" in warning
    assert "overhead" not in warning and "`--tokens " in warning


def test_runs_as_they_are_meant_to_be_get_the_time_alone(told):
    assert len(told("bert", "gpt", "elmo", "electra")) == 1
    (line,) = told("bert", budget=(Budget(flops=1e12), Budget(flops=1e15)))  # a ladder, asked for
    assert "The longest part is the pre-training of bert-tiny" in line and "--flops 1e+15" in line
    (line,) = told("glove", budget=Budget(minutes=600))  # minutes say it themselves
    assert "10 h 00 min" in line


def test_a_run_says_how_long_the_part_takes_that_is_left(told, monkeypatch):
    monkeypatch.setattr(run, "execute", lambda *given: OK)
    assert any(line.startswith("Estimated work: about") for line in told("majority", dry_run=False))
    monkeypatch.setattr(outlook, "settled", lambda out, plan: {one.key for one in plan.artefacts})
    assert not told("majority", dry_run=False)
    monkeypatch.setattr(outlook, "settled", lambda out, plan: 1 / 0)  # an estimate stops no run
    assert told("majority", dry_run=False) == ["The time of this run cannot be estimated: ZeroDivisionError."]
