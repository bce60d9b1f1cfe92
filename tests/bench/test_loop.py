"""The training loop of adaptations: evaluations, the best state, early stopping, and the start of a second stage."""

import numpy as np
import pytest

from ptmbench.bench import console
from ptmbench.bench.adapt import loop
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.engine.stopping import Unfinished
from ptmbench.bench.errors import NotApplicable

ROWS = [InputRow({"tokens": np.array([5, 5], np.int32)}, i) for i in range(4)]


class Counting:
    """A network whose state is the number of its steps. `fitted` takes its ``scores`` one after the other."""

    def __init__(self, scores, second=0):
        self.scores, self.second, self.steps, self.restored = iter(scores), second, 0, []

    def state(self):
        return [self.steps]

    def restore(self, state):
        self.restored.append(state[0])
        (self.steps,) = state

    def ready(self, step):
        return True

    def second_stage_start(self, steps, settings):
        return self.second

    def rate(self, step, steps, settings):
        return 1.0

    def make(self, rows, settings, seed):
        return rows, 0.0

    def step(self, batch, seed, rate):
        self.steps += 1
        return {"loss": 1.0}

    def training_flops(self, rows):
        return 1.0


def fitted(made, **changes):
    settings = Settings(**{"epochs": 6, "batch": 2, "patience": 1} | changes)  # two steps an epoch
    return loop.train(made, ROWS, settings, 0, lambda: next(made.scores))


def test_the_best_state_is_kept():
    made = Counting([1, 3, 2, 2, 9, 9])
    course = fitted(made)
    assert (course.steps, course.best_score, made.restored) == (
        8,
        3,
        [4],
    )  # two evaluations without improvement exceed the patience of 1
    assert [point["step"] for point in course.curve] == [2, 4, 6, 8]


def test_a_second_stage_starts_from_the_best_state_and_is_evaluated_anew():
    made = Counting([5, 9, 4, 4, 1, 2, 1, 1], second=7)  # which is in the middle of an epoch
    course = fitted(made)
    assert [point["step"] for point in course.curve] == [2, 4, 6, 7, 8, 10, 12]
    assert (
        made.restored == [4, 4 + 3] and course.best_score == 2
    )  # at step 10, three steps after the second stage began
    assert course.steps == 12


def test_patience_ends_only_the_last_stage():
    made = Counting([5, 4, 4, 4, 4, 3, 2, 1], second=10)
    course = fitted(made, epochs=8)
    assert course.steps == 16 and course.best_score == 3 and made.restored == [2, 2 + 2]


def test_outputs_keep_the_order_of_the_rows_and_show_their_progress(monkeypatch, capsys):
    monkeypatch.setattr(console, "INTERVAL", 0.0)
    rows = [InputRow({"tokens": np.full(n, n, np.int32)}, n) for n in (3, 1, 4, 1, 5)]
    sums = loop.outputs(None, rows, size=2, answer=lambda batch: batch["tokens"].max(axis=1))
    assert sums == [3, 1, 4, 1, 5]
    named = loop.outputs(None, rows, size=2, answer=lambda batch: {"most": batch["tokens"].max(axis=1)})
    assert named == [{"most": n} for n in sums]
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in lines[:3]] == [f"predict: {n}/5 inputs" for n in (2, 4, 5)]


class Quiet:
    """A `Stop` that asks the loop to end, and raises nothing."""

    signal = 2

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize("ending", ["data", "stop"])
def test_a_loop_that_ends_early_gives_no_result(ending, monkeypatch):
    if ending == "data":
        monkeypatch.setattr(loop, "_batches", lambda rows, settings, seed: iter([ROWS] * 3))
    else:
        monkeypatch.setattr(loop, "Stop", Quiet)
    made = Counting(range(9))
    with pytest.raises(Unfinished, match=f"ended after {3 if ending == 'data' else 1} of 12 steps"):
        fitted(made)
    assert not made.restored


def test_training_without_examples_is_not_applicable():
    with pytest.raises(NotApplicable, match="no training example is left"):
        loop.train(Counting([]), [], Settings(), 0, lambda: 1.0)
