"""A stopped cell resumes where it was, and ends bit for bit as if it had never been stopped."""

import signal

import numpy as np
import pytest

from ptmbench.bench import console
from ptmbench.bench.adapt import loop
from ptmbench.bench.adapt.course import Bookmark
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.cost import Meter, phase

ROWS = [InputRow({"tokens": np.arange(5, 5 + n, dtype=np.int32)}, n) for n in range(1, 8)]
SETTINGS = Settings(epochs=3, batch=2, patience=1)


class Killed(BaseException):
    """Ends training as suddenly as a signal."""


class Summing:
    """A stand-in for a network. Its weight sums its inputs times the rate; its memory is the longest batch."""

    def __init__(self, kill=None):
        self.weight, self.longest, self.count, self.kill, self.step = 0.0, 0, 0, kill, self.Step(self)
        self.first = None

    class Step:
        def __init__(self, owner):
            self.owner, self.moment = owner, 0.0

        def __call__(self, batch, seed, rate):
            owner = self.owner
            if owner.kill is not None and owner.count == owner.kill:
                raise Killed
            owner.count += 1
            self.moment = 0.5 * self.moment + float(batch["tokens"].sum()) + seed[1]
            owner.longest = max(owner.longest, batch["tokens"].shape[1])
            owner.weight += rate * self.moment + owner.longest
            return {"loss": np.float32(1 / (1 + owner.weight))}

        def state(self):
            return {"00000": np.array(self.moment)}

        def restore(self, state):
            self.moment = float(state["00000"])

    def state(self):
        return [np.array(self.weight)]

    def restore(self, state):
        self.weight = float(state[0])

    def memory(self):
        return [np.array(self.longest)]

    def recall(self, memory):
        self.longest = int(memory[0])

    def ready(self, step):
        return True

    def second_stage_start(self, steps, settings):
        return 5

    def rate(self, step, steps, settings):
        return step / steps

    def make(self, rows, settings, seed):
        return rows, 0.25

    def training_flops(self, rows):
        return 1.0


def run_training(folder, kill=None, every=-1.0):
    model, messages = Summing(kill), []
    bookmark = Bookmark(folder, every, messages.append)
    return model, loop.train(model, ROWS, SETTINGS, 0, lambda: model.weight % 7, bookmark), messages


def test_training_stopped_after_any_step_resumes_to_the_same_result(tmp_path):
    uninterrupted, expected, messages = run_training(None)
    assert not messages and expected.finished and expected.steps > 5
    for kill in range(1, expected.steps):
        with pytest.raises(Killed):
            run_training(tmp_path / str(kill), kill)
        model, course, messages = run_training(tmp_path / str(kill))
        assert course == expected and model.weight == uninterrupted.weight and model.longest == uninterrupted.longest
        assert messages == [f"The cell goes on at step {kill}, where it was stopped."]
        assert model.count == expected.steps - kill  # no step is repeated
    model, course, messages = run_training(tmp_path / "1")  # a finished training is not repeated
    assert model.count == 0 and not messages and course == expected and model.weight == uninterrupted.weight


def test_the_progress_of_each_training_is_shown_with_the_title_of_its_cell(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(console, "INTERVAL", 0.0)

    def both(kill):
        bookmark, model = Bookmark(tmp_path, -1.0, lambda line: None, title="bert cola seed 0"), Summing(kill)
        return [loop.train(model, ROWS, SETTINGS, seed, lambda: 1.0, bookmark) for seed in (0, 1)]

    with pytest.raises(Killed):
        both(15)  # in the second training
    before = capsys.readouterr().err.splitlines()
    assert before[1].startswith("train bert cola seed 0: 1/12 steps, 8 %")
    assert before[-1].startswith("train bert cola seed 0 (2): ")
    _, course = both(None)
    after = [line for line in capsys.readouterr().err.splitlines() if " (2): " in line]
    steps = [int(line.partition(": ")[2].partition("/")[0]) for line in (before[-1], after[0], after[-1])]
    assert steps[0] == steps[1] and steps[2] == course.steps and after[-1].endswith("score 1")


def test_a_damaged_state_is_reported_and_the_one_before_it_is_used(tmp_path):
    _, expected, _ = run_training(None)
    with pytest.raises(Killed):
        run_training(tmp_path, 4)
    folders = sorted((tmp_path / "training-1").iterdir())
    assert [folder.name for folder in folders] == ["step-000000003", "step-000000004"]
    broken = folders[-1] / "learnt.safetensors"
    broken.write_bytes(broken.read_bytes()[:-1])
    _, course, messages = run_training(tmp_path)
    assert "learnt.safetensors is damaged" in messages[0] and "goes on at step 3" in messages[1] and course == expected


def test_a_state_without_a_manifest_is_replaced_when_its_step_is_repeated(tmp_path):
    _, expected, _ = run_training(None)
    with pytest.raises(Killed):
        run_training(tmp_path, 4)
    (tmp_path / "training-1/step-000000004/manifest.json").unlink()
    assert run_training(tmp_path)[1] == expected


def test_no_state_is_saved_before_the_interval_is_over(tmp_path):
    _, expected, _ = run_training(tmp_path / "cell", every=60.0)
    assert expected.finished and not (tmp_path / "cell").exists()
    values, flops, _, _ = run_measurement(tmp_path / "cell", every=60.0)
    assert len(values) == 5 and not (tmp_path / "cell").exists()


def run_measurement(folder, kill=None, every=-1.0):
    """Returns the values, their FLOPs, the numbers that were measured, and the messages."""
    numbers, messages = [], []

    def one(number):
        if number == kill:
            raise Killed
        numbers.append(number)
        return 1 / (number + 3), 10.0 * number

    bookmark = Bookmark(folder, every, messages.append)
    return *bookmark.measure("small things", "things", 5, one), numbers, messages


def test_a_measurement_stopped_after_any_value_resumes_to_the_same_result(tmp_path):
    values, flops, numbers, messages = run_measurement(None)
    assert values.tolist() == [1 / 3, 1 / 4, 1 / 5, 1 / 6, 1 / 7] and flops == 100 and not messages
    for kill in range(1, 5):
        with pytest.raises(Killed):
            run_measurement(tmp_path / str(kill), kill)
        resumed, counted, numbers, messages = run_measurement(tmp_path / str(kill))
        assert resumed.tolist() == values.tolist() and counted == flops and numbers == list(range(kill, 5))
        assert messages == [f"The cell goes on after {kill} of 5 things, where it was stopped."]
    resumed, counted, numbers, messages = run_measurement(tmp_path / "1")  # a complete measurement is not repeated
    assert resumed.tolist() == values.tolist() and counted == flops and not numbers and not messages


def test_a_signal_stops_a_measurement_and_saves_it(tmp_path):
    def one(number):
        if number == 2:
            signal.raise_signal(signal.SIGINT)
        return float(number), 1.0

    with pytest.raises(KeyboardInterrupt):
        Bookmark(tmp_path, 60.0, print).measure("things", "things", 5, one)
    values, flops = Bookmark(tmp_path, 60.0, print).measure("things", "things", 5, lambda number: (float(number), 1.0))
    assert values.tolist() == [0, 1, 2, 3, 4] and flops == 5
    assert len(list((tmp_path / "training-0-things").iterdir())) == 2  # the stop, and the end


def test_measurements_of_one_name_before_and_after_a_training_are_two(tmp_path):
    bookmark = Bookmark(tmp_path, -1.0, lambda line: None)
    first, _ = bookmark.measure("things", "things", 2, lambda number: (1.0, 1.0))
    bookmark.begin(Summing())
    second, _ = bookmark.measure("things", "things", 2, lambda number: (2.0, 1.0))
    assert first.tolist() == [1, 1] and second.tolist() == [2, 2]


def test_the_time_of_an_interrupted_measurement_is_counted(tmp_path):
    with Meter() as first, pytest.raises(Killed):
        run_measurement(tmp_path, 4)
    with Meter() as second:
        run_measurement(tmp_path)
    assert 0 < second.earlier["other"] <= first.seconds["other"]


def test_each_training_of_a_cell_has_its_own_states(tmp_path):
    def both(kill=None):
        bookmark, model = Bookmark(tmp_path, -1.0, lambda line: None), Summing(kill)
        return model, [loop.train(model, ROWS, SETTINGS, seed, lambda: 1.0, bookmark) for seed in (0, 1)]

    with pytest.raises(Killed):
        both(15)  # in the second training
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["training-1", "training-2"]
    again, course = both()
    uninterrupted = Summing()
    assert course == [loop.train(uninterrupted, ROWS, SETTINGS, seed, lambda: 1.0) for seed in (0, 1)]
    assert again.weight == uninterrupted.weight and again.count < uninterrupted.count


def test_a_signal_takes_effect_after_the_step_and_its_state(tmp_path):
    class Signalled(Summing):
        def rate(self, step, steps, settings):
            if step == 2:
                signal.raise_signal(signal.SIGINT)
            return super().rate(step, steps, settings)

    model = Signalled()
    with pytest.raises(KeyboardInterrupt):
        loop.train(model, ROWS, SETTINGS, 0, lambda: 1.0, Bookmark(tmp_path, 60.0))
    assert model.count == 3 and (tmp_path / "training-1/step-000000003").is_dir()


def test_seconds_of_earlier_processes_are_added(tmp_path):
    with Meter() as one, phase("train"), pytest.raises(Killed):
        run_training(tmp_path, 3)
    with Meter() as other, phase("train"):
        run_training(tmp_path)
    saved = checkpoint.newest_intact(tmp_path / "training-1", print)[0].about["seconds"]
    assert 0 < other.earlier["train"] <= one.seconds["train"]
    seconds = other.cost()["seconds"]
    assert seconds["train"] >= round(other.earlier["train"] + other.seconds["train"], 3) - 1e-3 <= seconds["total"]
    assert saved["train"] > other.earlier["train"]
