"""Pre-training: resumption, damaged states, divergence, and settings."""

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
"""FLOPs of a row in the tests of the batch size."""


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
def uninterrupted(text, tmp_path_factory):
    """The weights of an uninterrupted run."""
    return train(text, tmp_path_factory.mktemp("straight") / "out").arrays()


@pytest.fixture(scope="module")
def interrupted(text, tmp_path_factory):
    """The folder of a run that was stopped in the middle by Ctrl-C, with two training states."""
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


def equal_arrays(one, other):
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
def test_resuming_gives_the_same_weights(damage, text, uninterrupted, interrupted, tmp_path):
    shutil.copytree(interrupted, tmp_path, dirs_exist_ok=True)
    older, newer = sorted((tmp_path / "out.training").glob("step-*"))
    assert int(newer.name[-9:]) == int(older.name[-9:]) + 1 < STEPS
    if damage:
        DAMAGES[damage](newer)
    warnings = []
    made = train(text, tmp_path / "out", warn=warnings.append)
    assert equal_arrays(made.arrays(), uninterrupted)
    assert [str(newer) in line for line in warnings] == ([True] if damage else [])
    assert [point["step"] for point in made.about["curve"]] == list(range(1, STEPS + 1))
    assert not (tmp_path / "out.training").exists()


def test_states_of_another_run_are_neither_used_nor_deleted(text, interrupted, tmp_path):
    shutil.copytree(interrupted, tmp_path, dirs_exist_ok=True)
    with pytest.raises(UsageError, match=r"recipe.batch is 4 there and 8 here; seed is 0 there and 1 here"):
        train(text, tmp_path / "out", seed=1, recipe=recipe_of({"batch": 8, "length": 32}))
    assert len(list((tmp_path / "out.training").glob("step-*"))) == 2


def test_keep_up_to_deletes_later_states(tmp_path):
    for step in (10, 20, 30):
        checkpoint.write(tmp_path / f"step-{step:09d}", about={}, arrays={}, texts={})
    (tmp_path / ".step-000000030.17.tmp").mkdir()
    checkpoint.write(tmp_path / "step-000000025", about={}, arrays={}, texts={})
    checkpoint.keep_up_to(tmp_path / "step-000000025", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000020", "step-000000025"]


def test_a_second_pretraining_in_the_same_folder_is_refused(text, interrupted, tmp_path):
    """Each would delete the states of the other, and the last one would replace the checkpoint of the other."""
    shutil.copytree(interrupted, tmp_path, dirs_exist_ok=True)
    out = tmp_path / "out"
    before = {path.name for path in (tmp_path / "out.training").iterdir()}
    options = {"model": "word2vec", "size": "tiny", "corpus": text.files, "budget": Budget(steps=STEPS), "out": out}
    options |= {"recipe": {"batch": 4, "length": 32}, "vocabulary": 400}
    with place.locked(out), pytest.raises(EnvironmentProblem, match="Another pre-training is writing to"):
        asking.pretrain(**options)
    assert {path.name for path in (tmp_path / "out.training").iterdir()} == before
    checkpoint.write(out, about={}, arrays={}, texts={})  # the other pre-training has finished
    with pytest.raises(UsageError, match="holds a finished checkpoint"), place.locked(out):
        pass
    with place.locked(tmp_path / "new"):
        assert (tmp_path / "new.training").exists()
    assert not list(tmp_path.glob("new*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_training_even_if_its_handler_returns(number):
    """A program that embeds this one may have a signal handler that returns."""
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
def test_a_loop_that_ends_early_writes_no_checkpoint(steps, text, interrupted, tmp_path, monkeypatch):
    """For any cause. A checkpoint describes the whole loop, and states are deleted only after it is written."""
    shutil.copytree(interrupted, tmp_path, dirs_exist_ok=True)
    before = sorted((tmp_path / "out.training").glob("step-*"))
    monkeypatch.setattr(pretrain, "_train", lambda course, *_: setattr(course, "steps", steps))
    with pytest.raises(Unfinished, match=r"ended after \d+ of (12|an unknown number of) steps"):
        train(text, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert sorted((tmp_path / "out.training").glob("step-*")) == before


def test_states_are_kept_until_the_checkpoint_is_complete(text, interrupted, tmp_path, monkeypatch):
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


def test_a_learning_rate_of_zero_is_not_replaced_by_the_default(text, tmp_path):
    made = train(text, tmp_path / "out", recipe=recipe_of({"batch": 4, "length": 32, "learning_rate": 0}))
    assert made.about["recipe"]["learning_rate"] == 0


def test_divergence_is_reported_with_its_step_and_recorded(text, tmp_path, monkeypatch):
    """Losses are fetched every third step, and the second one is not finite."""
    out = tmp_path / "out"
    options = {"model": "word2vec", "size": "tiny", "corpus": text.files, "budget": Budget(steps=300), "out": out}
    options |= {"recipe": {"batch": 4, "length": 32, "learning_rate": 1e30}, "vocabulary": 400, "seed": 3}
    with pytest.raises(Diverged, match="loss is not finite at step 2 with seed 3"):
        asking.pretrain(**options)
    record = json.loads((tmp_path / "out.diverged.json").read_text())
    assert (record["status"], record["step"], record["seed"], record["last_good"]) == ("diverged", 2, 3, None)
    assert not out.exists()
    # The minimum number of steps for timing.
    options |= {
        "recipe": {"batch": 4, "length": 32},
        "budget": Budget(minutes=1e-6),
    }
    assert asking.pretrain(**options) == OK
    assert not (tmp_path / "out.diverged.json").exists()
    made = checkpoint.read(out).about
    assert made["curve"][-1]["step"] == made["steps"] and made["loss"] == made["curve"][-1]["loss"]


@pytest.mark.slow
def test_cells_of_a_diverged_pretraining_are_recorded_as_diverged(tmp_path, monkeypatch):
    from ptmbench.bench.runs.suites import demo
    from ptmbench.leaderboard.records import record

    recipe = {**demo.SUITE.recipe, "learning_rate": 1e30}
    monkeypatch.setattr(demo, "SUITE", dataclasses.replace(demo.SUITE, recipe=recipe))
    options = {"models": ("word2vec",), "tasks": ("sst2", "rte"), "seeds": 1, "baselines": False, "jobs": 1}
    assert asking.run_suite(suite="demo", out=tmp_path, budget=Budget(steps=30), **options) == CELLS_FAILED
    result = [record.read(path) for path in (tmp_path / "records").glob("*.json")]
    assert sorted(one.task["name"] for one in result) == ["rte", "sst2"]
    for one in result:
        assert one.status == "diverged" and "not finite at step 2 with seed 0" in one.reason["text"]


def test_non_finite_weights_are_never_saved(text, interrupted, tmp_path, monkeypatch):
    shutil.copytree(interrupted, tmp_path, dirs_exist_ok=True)
    states_before = sorted((tmp_path / "out.training").glob("step-*"))
    monkeypatch.setattr(pretrain, "rate_at", lambda *a, **k: float("inf"))
    with pytest.raises(Diverged, match="The weights are not finite") as raised:
        train(text, tmp_path / "out")
    assert raised.value.last_good == states_before[-1] and str(states_before[-1]) in str(raised.value)
    assert sorted((tmp_path / "out.training").glob("step-*")) == states_before


@pytest.mark.parametrize("ahead", [1, 7])
def test_prefetching_does_not_change_the_sequence(ahead):
    batches = prefetch(lambda step: step * step, 5, ahead)
    assert [next(batches) for _ in range(20)] == [step * step for step in range(5, 25)]
    batches.close()


def test_errors_in_a_prefetched_batch_reach_the_caller():
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


def test_an_output_folder_that_is_not_a_checkpoint_is_refused_before_training(tmp_path, capsys):
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
def test_invalid_settings_are_usage_errors(changes, words):
    with pytest.raises(UsageError, match=words):
        recipe_of(changes)


def test_valid_settings_are_kept():
    changes = {"warmup": 1.0, "dropout": 0.9, "learning_rate": 0.0}
    assert recipe_of(changes) == dataclasses.replace(Recipe(), **changes)
    changes = {"optimizer": "lamb", "xla": False, "accumulate": 4, "batch": 8, "weight_decay": 0}
    assert recipe_of(changes) == dataclasses.replace(Recipe(), **changes)


@pytest.mark.parametrize("name", models.names())
def test_a_model_file_lists_only_the_adam_settings_that_it_changes(name):
    """It repeats no default. The resolved recipe has every value, and the user's settings override the file."""
    module = models.load(name)
    adam_changes, shape = getattr(module, "ADAM", {}), next(iter(module.SIZES.values()))
    assert all(value != ADAM[key] for key, value in adam_changes.items())
    recipe_of(adam_changes)  # the values are valid
    arguments = module, shape, Budget(tokens=2**20), Vocabulary(size=300)
    full = resolved(Recipe(), *arguments)
    assert {key: getattr(full, key) for key in ADAM} == ADAM | adam_changes == adam_of(full, module)
    assert resolved(recipe_of({"beta2": 0.5}), *arguments).beta2 == 0.5
    assert resolved(recipe_of({"optimizer": "adagrad"}), *arguments).beta2 is None


@pytest.mark.parametrize(
    "changes, budget, batch",
    [
        ({}, {"tokens": 2**22}, 4),  # 2048 / 4 tokens per step, in rows of 128
        ({"length": 64}, {"tokens": 2**22}, 8),
        ({"length": 64}, {"flops": 2**22 / 64 * FLOPS}, 8),  # the same tokens
        ({"length": 64}, {"steps": 2**13}, 8),  # the same tokens, because 2**13 steps of 512 tokens are 2**22
        ({"length": 64}, {"tokens": 8e6}, 8),  # 707 tokens are closer to 512 than to 1024 by ratio
        ({"length": 64}, {"tokens": 8.8e6}, 16),
        ({"length": 512}, {"tokens": 10_000}, LEAST_BATCH),
        ({"length": 64, "accumulate": 3}, {"tokens": 2**22}, 6),  # each third is a power of two
        ({"length": 512, "accumulate": 3}, {"tokens": 10_000}, 6),
        ({"length": 512}, {"tokens": 137_000_000_000}, 128),  # BERT's batch was twice as large
        ({"length": 2**15}, {"tokens": 10**18}, 2**9),  # the maximum for a step
        ({}, {"minutes": 5}, BATCH),
        ({"accumulate": 4}, {"minutes": 5}, BATCH),
        ({"accumulate": 5}, {"minutes": 5}, 35),
    ],
)
def test_the_default_batch_depends_on_the_budget(changes, budget, batch):
    assert batch_of(recipe_of(changes), Budget(**budget), FLOPS) == batch


@pytest.mark.slow
def test_a_pre_training_uses_the_default_batch_of_its_budget(text, tmp_path):
    made = train(text, tmp_path / "out", budget=Budget(tokens=48_000), recipe=recipe_of({"length": 8}))
    assert made.about["recipe"]["batch"] == 8  # 55 tokens in rows of 8
    assert made.about["steps"] == 48_000 // 64


def test_the_recipe_of_a_checkpoint_has_all_adam_settings(text, tmp_path):
    made = train(text, tmp_path / "out", recipe=recipe_of({"batch": 4, "length": 32, "epsilon": 1e-7}))
    result = {name: made.about["recipe"][name] for name in ADAM}
    assert result == {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7, "bias_correction": True}
