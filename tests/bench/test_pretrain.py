"""Pre-training: what was interrupted, damaged or diverged ends as it should."""

import dataclasses
import json
import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.__main__ import main
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint, place
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.prefetch import prefetch
from ptmbench.bench.engine.rates import SCHEDULES, rate_at
from ptmbench.bench.engine.recipe import ADAM, BATCH, LEAST_BATCH, Recipe, adam_of, batch_of, recipe_of, resolved
from ptmbench.bench.engine.stopping import Stop, Unfinished
from ptmbench.bench.errors import CELLS_FAILED, OK, Diverged, EnvironmentProblem, UsageError
from ptmbench.bench.runs import pretrain
from ptmbench.models.objective import Sampler
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from tests.bench import asking
from tests.bench.processes import made_text

STEPS = 12
FLOPS = 1e9
"""Of a row, in the tests of the batch."""


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A corpus, as files and as token ids, and its tokenizer."""
    files = (made_text(tmp_path_factory.mktemp("text") / "corpus.txt"),)
    tokenizer = Tokenizer.load(corpora.tokenizer(files, "wordpiece", 400))
    return SimpleNamespace(files=files, tokenizer=tokenizer, corpus=corpora.load(tuple(map(str, files)), tokenizer))


def train(text, out, **changes):
    options = {"budget": Budget(steps=STEPS), "recipe": recipe_of({"batch": 4, "length": 32}), "save_every": 0.0}
    return pretrain.pretrain(
        "word2vec", "tiny", corpus=text.corpus, tokenizer=text.tokenizer, out=out, **(options | changes)
    )


@pytest.fixture(scope="module")
def straight(text, tmp_path_factory):
    """The weights of a run that nothing interrupted."""
    return train(text, tmp_path_factory.mktemp("straight") / "out").arrays()


@pytest.fixture(scope="module")
def interrupted(text, tmp_path_factory):
    """The folder of a run that Ctrl-C stopped in the middle; two training states lie in it."""
    from ptmbench.models.non_contextual import word2vec

    out, built = tmp_path_factory.mktemp("interrupted") / "out", word2vec.build

    def build(size, vocabulary):
        network = built(size, vocabulary)

        def batches(corpus, batch, length):
            make = network.batches(corpus, batch, length)

            def made(step, seed):
                if step == STEPS // 2:
                    os.kill(os.getpid(), signal.SIGINT)
                return make(step, seed)

            return made

        return dataclasses.replace(network, batches=Sampler(batches))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word2vec, "build", build)
        with pytest.raises(KeyboardInterrupt):
            train(text, out)
    assert not out.exists()
    assert len(list(out.with_name("out.training").glob("step-*"))) == 2
    return out.parent


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


DAMAGES = {
    "truncated": lambda state: os.truncate(state / "weights.safetensors", 1000),
    "a bit of the weights": lambda state: flip(state / "weights.safetensors"),
    "a bit of the optimizer": lambda state: flip(state / "optimizer.safetensors"),
    "no manifest": lambda state: (state / "manifest.json").unlink(),
}


@pytest.mark.parametrize("damage", [None, *DAMAGES])
def test_the_same_command_goes_on_to_the_same_weights(damage, text, straight, interrupted, tmp_path):
    shutil.copytree(interrupted, tmp_path, dirs_exist_ok=True)
    older, newer = sorted((tmp_path / "out.training").glob("step-*"))
    assert int(newer.name[-9:]) == int(older.name[-9:]) + 1 < STEPS
    if damage:
        DAMAGES[damage](newer)
    said = []
    made = train(text, tmp_path / "out", warn=said.append)
    assert same(made.arrays(), straight)
    assert [str(newer) in line for line in said] == ([True] if damage else [])
    assert [point["step"] for point in made.about["curve"]] == list(range(1, STEPS + 1))
    assert not (tmp_path / "out.training").exists()


def test_a_state_of_another_run_is_neither_used_nor_lost(text, interrupted, tmp_path):
    shutil.copytree(interrupted, tmp_path, dirs_exist_ok=True)
    with pytest.raises(UsageError, match=r"recipe.batch is 4 there and 8 here; seed is 0 there and 1 here"):
        train(text, tmp_path / "out", seed=1, recipe=recipe_of({"batch": 8, "length": 32}))
    assert len(list((tmp_path / "out.training").glob("step-*"))) == 2


def test_states_after_the_one_gone_back_to_are_dropped(tmp_path):
    for step in (10, 20, 30):
        checkpoint.write(tmp_path / f"step-{step:09d}", about={}, arrays={}, texts={})
    (tmp_path / ".step-000000030.17.tmp").mkdir()
    checkpoint.write(tmp_path / "step-000000025", about={}, arrays={}, texts={})
    checkpoint.keep_up_to(tmp_path / "step-000000025", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000020", "step-000000025"]


def test_two_pretrainings_in_one_folder_are_refused(text, interrupted, tmp_path):
    """Each would clear away what the other is saving, and the last to end would replace the other's checkpoint."""
    shutil.copytree(interrupted, tmp_path, dirs_exist_ok=True)
    out = tmp_path / "out"
    before = {path.name for path in (tmp_path / "out.training").iterdir()}
    options = {"model": "word2vec", "size": "tiny", "corpus": text.files, "budget": Budget(steps=STEPS), "out": out}
    options |= {"recipe": {"batch": 4, "length": 32}, "vocabulary": 400}
    with place.locked(out), pytest.raises(EnvironmentProblem, match="Another pre-training is writing to"):
        asking.pretrain(**options)
    assert {path.name for path in (tmp_path / "out.training").iterdir()} == before
    checkpoint.write(out, about={}, arrays={}, texts={})  # the other one has ended
    with pytest.raises(UsageError, match="holds a finished checkpoint"), place.locked(out):
        pass
    with place.locked(tmp_path / "new"):
        assert (tmp_path / "new.training").exists()
    assert not list(tmp_path.glob("new*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_ends_a_training_whatever_the_handler_does(number):
    """A program around this one may have a handler that returns."""
    before = signal.signal(number, lambda *_: None)
    try:
        with pytest.raises((KeyboardInterrupt, SystemExit)), Stop() as stop:
            signal.raise_signal(number)
            assert stop.signal == number
        signal.signal(number, signal.SIG_IGN)
        with Stop() as stop:
            signal.raise_signal(number)
        assert stop.signal is None and signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("steps", [STEPS, None])
def test_a_loop_that_ends_early_leaves_no_checkpoint(steps, text, interrupted, tmp_path, monkeypatch):
    """Whatever ended it: a checkpoint says what the loop did, and states go only when it is there."""
    shutil.copytree(interrupted, tmp_path, dirs_exist_ok=True)
    before = sorted((tmp_path / "out.training").glob("step-*"))
    monkeypatch.setattr(pretrain, "_train", lambda course, *_: setattr(course, "steps", steps))
    with pytest.raises(Unfinished, match=r"ended after \d+ of (12|an unknown number of) steps"):
        train(text, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert sorted((tmp_path / "out.training").glob("step-*")) == before


def test_states_stay_until_the_checkpoint_is_whole(text, interrupted, tmp_path, monkeypatch):
    shutil.copytree(interrupted, tmp_path, dirs_exist_ok=True)
    replace = checkpoint._replace

    def full(fresh, folder):
        if folder.name == "out":
            raise OSError(28, "No space left on device", str(folder))
        replace(fresh, folder)

    monkeypatch.setattr(checkpoint, "_replace", full)
    with pytest.raises(OSError, match="No space"):
        train(text, tmp_path / "out")
    assert not (tmp_path / "out").exists() and list((tmp_path / "out.training").glob("step-*"))


def test_a_rate_of_zero_is_no_other(text, tmp_path):
    made = train(text, tmp_path / "out", recipe=recipe_of({"batch": 4, "length": 32, "learning_rate": 0}))
    assert made.about["recipe"]["learning_rate"] == 0


def test_divergence_is_named_at_its_step_and_recorded(text, tmp_path, monkeypatch):
    """The losses are fetched every third step; the second is the one that is not finite."""
    out = tmp_path / "out"
    options = {"model": "word2vec", "size": "tiny", "corpus": text.files, "budget": Budget(steps=300), "out": out}
    options |= {"recipe": {"batch": 4, "length": 32, "learning_rate": 1e30}, "vocabulary": 400, "seed": 3}
    with pytest.raises(Diverged, match="loss is not finite at step 2 with seed 3"):
        asking.pretrain(**options)
    record = json.loads((tmp_path / "out.diverged.json").read_text())
    assert (record["status"], record["step"], record["seed"], record["last_good"]) == ("diverged", 2, 3, None)
    assert not out.exists()
    options |= {
        "recipe": {"batch": 4, "length": 32},
        "budget": Budget(minutes=1e-6),
    }  # as few steps as it takes to time one
    assert asking.pretrain(**options) == OK
    assert not (tmp_path / "out.diverged.json").exists()
    made = checkpoint.read(out).about
    assert made["curve"][-1]["step"] == made["steps"] and made["loss"] == made["curve"][-1]["loss"]


@pytest.mark.slow
def test_in_a_suite_its_cells_are_recorded_as_diverged(tmp_path, monkeypatch):
    from ptmbench.bench.runs.suites import demo
    from ptmbench.leaderboard.records import record

    recipe = {**demo.SUITE.recipe, "learning_rate": 1e30}
    monkeypatch.setattr(demo, "SUITE", dataclasses.replace(demo.SUITE, recipe=recipe))
    options = {"models": ("word2vec",), "tasks": ("sst2", "rte"), "seeds": 1, "baselines": False, "jobs": 1}
    assert asking.run_suite(suite="demo", out=tmp_path, budget=Budget(steps=30), **options) == CELLS_FAILED
    found = [record.read(path) for path in (tmp_path / "records").glob("*.json")]
    assert sorted(one.task["name"] for one in found) == ["rte", "sst2"]
    for one in found:
        assert one.status == "diverged" and "not finite at step 2 with seed 0" in one.reason["text"]


def test_weights_that_are_not_finite_are_never_saved(text, interrupted, tmp_path, monkeypatch):
    shutil.copytree(interrupted, tmp_path, dirs_exist_ok=True)
    good = sorted((tmp_path / "out.training").glob("step-*"))
    monkeypatch.setattr(pretrain, "rate_at", lambda *a, **k: float("inf"))
    with pytest.raises(Diverged, match="The weights are not finite") as raised:
        train(text, tmp_path / "out")
    assert raised.value.last_good == good[-1] and str(good[-1]) in str(raised.value)
    assert sorted((tmp_path / "out.training").glob("step-*")) == good


@pytest.mark.parametrize("ahead", [1, 7])
def test_reading_ahead_changes_no_sequence(ahead):
    batches = prefetch(lambda step: step * step, 5, ahead)
    assert [next(batches) for _ in range(20)] == [step * step for step in range(5, 25)]
    batches.close()


def test_what_a_batch_raises_reaches_the_reader():
    with pytest.raises(ZeroDivisionError):
        next(prefetch(lambda step: 1 // step, 0))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_rise_to_the_peak_and_do_not_jump(schedule):
    rates = [rate_at(step, 1000, peak=2.0, warmup=0.1, schedule=schedule) for step in range(1000)]
    assert max(rates) == pytest.approx(2.0, rel=0.02) and rates[:100] == sorted(rates[:100])
    assert rates[99] == 2.0 and abs(rates[100] - rates[99]) < 0.03
    assert rates[100:] == sorted(rates[100:], reverse=True)
    at_the_end = {"linear": 0.0, "cosine": 0.0, "constant": 2.0, "inverse_sqrt": 2.0 * 0.1**0.5}
    assert rates[-1] == pytest.approx(at_the_end[schedule], abs=0.003)


def test_a_folder_that_is_no_checkpoint_is_refused_before_the_training(tmp_path, capsys):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "notes").touch()
    text = tmp_path / "text"
    text.write_text("A cat sat. It slept.\n")
    assert main(["pretrain", "bert", "--corpus", str(text), "--steps", "1", "--out", str(out)]) == 4
    assert "exists and is not a checkpoint, so it is not overwritten" in capsys.readouterr().err
    assert list(out.parent.glob("mine*")) == [out]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"speed": 1}, "no setting 'speed'"),
        ({"batch": 2.5}, "batch takes a whole number"),
        ({"batch": 0}, "at least 1"),
        ({"clip": True}, "clip takes a number"),
        ({"clip": float("nan")}, "at least 0"),
        ({"dropout": 1}, "a number below 1"),
        ({"beta2": 1.0}, "beta2 is a share"),
        ({"epsilon": 0}, "above 0"),
        ({"bias_correction": 1}, "true, false"),
        ({"optimizer": "adagrad", "beta1": 0.8}, "adagrad has no setting 'beta1'"),
        ({"optimizer": "lamb", "bias_correction": False}, "lamb has no setting 'bias_correction'"),
        ({"warmup": 1.5}, "a number up to 1"),
        ({"optimizer": "sgd"}, "adamw, lamb"),
        ({"schedule": "step"}, "linear, cosine"),
        ({"precision": "float16"}, "bfloat16"),
        ({"xla": 1}, "auto, true, false"),
        ({"rematerialise": "yes"}, "true, false"),
        ({"batch": 32, "accumulate": 5}, "multiple of 5"),
    ],
)
def test_settings_that_do_not_fit_are_answered(changes, words):
    with pytest.raises(UsageError, match=words):
        recipe_of(changes)


def test_settings_are_taken_as_they_are():
    changes = {"warmup": 1.0, "dropout": 0.9, "learning_rate": 0.0}
    assert recipe_of(changes) == dataclasses.replace(Recipe(), **changes)
    changes = {"optimizer": "lamb", "xla": False, "accumulate": 4, "batch": 8, "weight_decay": 0}
    assert recipe_of(changes) == dataclasses.replace(Recipe(), **changes)


@pytest.mark.parametrize("name", models.names())
def test_a_models_file_names_what_it_changes_of_adam(name):
    """And nothing else; the recipe of its checkpoints has every value, what the user says before what the file says."""
    module = models.load(name)
    own, shape = getattr(module, "ADAM", {}), next(iter(module.SIZES.values()))
    assert all(value != ADAM[key] for key, value in own.items())
    recipe_of(own)  # values that fit
    trained = module, shape, Budget(tokens=2**20), Vocabulary(size=300)
    full = resolved(Recipe(), *trained)
    assert {key: getattr(full, key) for key in ADAM} == ADAM | own == adam_of(full, module)
    assert resolved(recipe_of({"beta2": 0.5}), *trained).beta2 == 0.5
    assert resolved(recipe_of({"optimizer": "adagrad"}), *trained).beta2 is None


@pytest.mark.parametrize(
    "changes, budget, batch",
    [
        ({}, {"tokens": 2**22}, 4),  # 2048 / 4 tokens per step, in rows of 128
        ({"length": 64}, {"tokens": 2**22}, 8),
        ({"length": 64}, {"flops": 2**22 / 64 * FLOPS}, 8),  # the same tokens
        ({"length": 64}, {"steps": 2**13}, 8),  # the same again, because 2**13 steps of 512 tokens are 2**22
        ({"length": 64}, {"tokens": 8e6}, 8),  # 707 tokens are nearer to 512 than to 1024, by their ratio
        ({"length": 64}, {"tokens": 8.8e6}, 16),
        ({"length": 512}, {"tokens": 10_000}, LEAST_BATCH),
        ({"length": 64, "accumulate": 3}, {"tokens": 2**22}, 6),  # each third is a power of two
        ({"length": 512, "accumulate": 3}, {"tokens": 10_000}, 6),
        ({"length": 512}, {"tokens": 137_000_000_000}, 128),  # BERT had twice as many
        ({"length": 2**15}, {"tokens": 10**18}, 2**9),  # as many as a step may have
        ({}, {"minutes": 5}, BATCH),
        ({"accumulate": 4}, {"minutes": 5}, BATCH),
        ({"accumulate": 5}, {"minutes": 5}, 35),
    ],
)
def test_the_batch_follows_from_the_budget(changes, budget, batch):
    assert batch_of(recipe_of(changes), Budget(**budget), FLOPS) == batch


@pytest.mark.slow
def test_a_pre_training_takes_the_batch_of_its_budget(text, tmp_path):
    made = train(text, tmp_path / "out", budget=Budget(tokens=48_000), recipe=recipe_of({"length": 8}))
    assert made.about["recipe"]["batch"] == 8  # 55 tokens in rows of 8
    assert made.about["steps"] == 48_000 // 64


def test_the_recipe_of_a_checkpoint_has_adams_settings(text, tmp_path):
    made = train(text, tmp_path / "out", recipe=recipe_of({"batch": 4, "length": 32, "epsilon": 1e-7}))
    found = {name: made.about["recipe"][name] for name in ADAM}
    assert found == {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7, "bias_correction": True}
