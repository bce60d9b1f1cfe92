"""A cell that was stopped goes on where it was, and ends as if it had never been stopped: bit for bit."""

import signal

import numpy as np
import pytest

from ptmbench.bench.adapt import loop
from ptmbench.bench.adapt.course import Bookmark
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.cost import Meter, phase

ROWS = [InputRow({"tokens": np.arange(5, 5 + n, dtype=np.int32)}, n) for n in range(1, 8)]
SETTINGS = Settings(epochs=3, batch=2, patience=1)


class Killed(BaseException):
    """As sudden as a signal."""


class Summing:
    """Adds up what it reads; the rate adds too, and what it remembers is the longest batch."""

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


def fitted(folder, kill=None, every=-1.0):
    made, told = Summing(kill), []
    bookmark = Bookmark(folder, every, told.append)
    return made, loop.train(made, ROWS, SETTINGS, 0, lambda: made.weight % 7, bookmark), told


def test_stopped_after_any_step_it_ends_the_same(tmp_path):
    straight, whole, told = fitted(None)
    assert not told and whole.finished and whole.steps > 5
    for kill in range(1, whole.steps):
        with pytest.raises(Killed):
            fitted(tmp_path / str(kill), kill)
        made, done, told = fitted(tmp_path / str(kill))
        assert done == whole and made.weight == straight.weight and made.longest == straight.longest
        assert told == [f"The cell goes on at step {kill}, where it was stopped."]
        assert made.count == whole.steps - kill  # no step was taken twice
    made, done, told = fitted(tmp_path / "1")  # what has ended is not trained again
    assert made.count == 0 and not told and done == whole and made.weight == straight.weight


def test_a_damaged_state_is_named_and_the_one_before_it_used(tmp_path):
    _, whole, _ = fitted(None)
    with pytest.raises(Killed):
        fitted(tmp_path, 4)
    folders = sorted((tmp_path / "training-1").iterdir())
    assert [folder.name for folder in folders] == ["step-000000003", "step-000000004"]
    broken = folders[-1] / "learnt.safetensors"
    broken.write_bytes(broken.read_bytes()[:-1])
    _, done, told = fitted(tmp_path)
    assert "learnt.safetensors is damaged" in told[0] and "goes on at step 3" in told[1] and done == whole


def test_a_state_without_its_manifest_gives_way_when_its_step_comes_again(tmp_path):
    _, whole, _ = fitted(None)
    with pytest.raises(Killed):
        fitted(tmp_path, 4)
    (tmp_path / "training-1/step-000000004/manifest.json").unlink()
    assert fitted(tmp_path)[1] == whole


def test_nothing_is_saved_before_its_time(tmp_path):
    _, whole, _ = fitted(tmp_path / "cell", every=60.0)
    assert whole.finished and not (tmp_path / "cell").exists()


def test_each_training_of_a_cell_has_states_of_its_own(tmp_path):
    def both(kill=None):
        bookmark, made = Bookmark(tmp_path, -1.0, lambda line: None), Summing(kill)
        return made, [loop.train(made, ROWS, SETTINGS, seed, lambda: 1.0, bookmark) for seed in (0, 1)]

    with pytest.raises(Killed):
        both(15)  # in the second one
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["training-1", "training-2"]
    again, done = both()
    straight = Summing()
    assert done == [loop.train(straight, ROWS, SETTINGS, seed, lambda: 1.0) for seed in (0, 1)]
    assert again.weight == straight.weight and again.count < straight.count


def test_a_signal_waits_for_the_end_of_a_step_and_for_its_state(tmp_path):
    class Signalled(Summing):
        def rate(self, step, steps, settings):
            if step == 2:
                signal.raise_signal(signal.SIGINT)
            return super().rate(step, steps, settings)

    made = Signalled()
    with pytest.raises(KeyboardInterrupt):
        loop.train(made, ROWS, SETTINGS, 0, lambda: 1.0, Bookmark(tmp_path, 60.0))
    assert made.count == 3 and (tmp_path / "training-1/step-000000003").is_dir()


def test_seconds_of_earlier_processes_count(tmp_path):
    with Meter() as one, phase("train"), pytest.raises(Killed):
        fitted(tmp_path, 3)
    with Meter() as other, phase("train"):
        fitted(tmp_path)
    saved = checkpoint.newest_intact(tmp_path / "training-1", print)[0].about["seconds"]
    assert 0 < other.earlier["train"] <= one.seconds["train"]
    seconds = other.cost()["seconds"]
    assert seconds["train"] >= round(other.earlier["train"] + other.seconds["train"], 3) - 1e-3 <= seconds["total"]
    assert saved["train"] > other.earlier["train"]
