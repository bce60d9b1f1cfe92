"""Training steps outside TensorFlow: with the runtime of JAX, here and on machines without TensorFlow (``--carry``)."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest

from ptmbench.bench.__main__ import main
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.portable import driver, program
from ptmbench.bench.engine.portable.program import _BITS, _spelled, foreign, lowered
from ptmbench.bench.engine.portable.step import PjrtStep
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.errors import OK, ContinuedElsewhere, EnvironmentProblem, UsageError
from ptmbench.bench.runs import pretrain as pretraining
from ptmbench.models.text import corpus as corpora
from tests.models.networks import build, made, small, swept_model

SETTINGS = {"batch": 4, "length": 16, "learning_rate": 1e-3, "dropout": 0.1, "xla": True}


def needs_jax():
    pytest.importorskip("jax", reason="the runtime of JAX is an extra: pip install 'ptmbench[jax]'")


def test_a_state_in_several_files_is_read_back_unchanged(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"b": rng.normal(size=(300, 7)).astype(np.float32), "a": np.int64(3), "c": np.zeros((0, 4), np.float32)}
    driver.write_state(tmp_path / "step-000000007", {"step": 7}, arrays, piece=1000)
    about, again = driver.read_state(tmp_path / "step-000000007")
    assert about == {"step": 7} and again.keys() == arrays.keys()
    assert len([*(tmp_path / "step-000000007").glob("*.bin")]) == 9
    for name, array in arrays.items():
        assert again[name].dtype == array.dtype and np.array_equal(again[name], array)


@pytest.mark.parametrize("broken", ["000.bin", "state.json"])
def test_a_damaged_state_is_skipped(broken, tmp_path):
    for step in (5, 10):
        driver.write_state(tmp_path / f"step-{step:09d}", {"step": step}, {"a": np.arange(step)})
    path, messages = tmp_path / "step-000000010" / broken, []
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    about, _ = driver.newest_state(tmp_path, messages.append)
    assert about["step"] == 5 and str(path) in messages[0]
    path.unlink()
    assert driver.newest_state(tmp_path, messages.append)[0]["step"] == 5 and "cannot be read" in messages[1]


def test_boolean_constants_become_lists():
    """MLIR packs them in bytes or in bits."""
    bits = np.random.default_rng(0).integers(0, 2, (3, 5))
    for packed in (bits.astype(np.uint8).tobytes(), np.packbits(bits, bitorder="little").tobytes()):
        text = _BITS.sub(_spelled, f'%0 = stablehlo.constant dense<"0x{packed.hex().upper()}"> : tensor<3x5xi1>')
        values = json.loads(text.removeprefix("%0 = stablehlo.constant dense<").partition(">")[0])
        assert np.array_equal(values, bits) and text.endswith(" : tensor<3x5xi1>")


def test_missing_jax_is_an_error_with_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(EnvironmentProblem, match=r"pip install 'ptmbench\[jax\]'"):
        PjrtStep(None, [])


def step_of(name, **options):
    """The network of the model ``name`` with dropout, its training step, and its batches."""
    model = made(name)
    keras.utils.set_random_seed(3)
    network = build(model.module, small(model.module))
    network.encoder.dropout = 0.1
    variables, totals = list(network.loss.trainable_variables), network.loss.totals
    return network, TrainStep(network.loss, variables, totals=totals, jit=True, **options), model.batches


@pytest.mark.parametrize("options", [{"accumulate": 2}, {"optimizer": "adagrad"}], ids=str)
def test_steps_that_cannot_be_lowered_are_usage_errors(options):
    network, step, batches = step_of("bert", **options)
    with pytest.raises(UsageError, match="no gradient accumulation and dense gradients"):
        lowered(step, network.loss.variables, batches(0, 1))


def run_steps(network, step, batches, first, last):
    for number in range(first, last):
        scalars = step(batches(number, 1), (1, number), 1e-3 * (number + 1))
    step.settle()
    state = step.state()
    weights = {variable.path: variable.numpy() for variable in network.loss.variables}
    noise = 1e-15 * max(1.0, float(scalars["gradient_norm"])) ** 2  # rounding errors grow with the gradient
    for number, variable in enumerate(network.loss.trainable_variables):
        squares = state[f"{2 * number + 3:05d}"]  # Adam's v
        weights[variable.path] = np.where(squares < noise, 0.0, weights[variable.path])
    return {name: float(value) for name, value in scalars.items()}, weights, state


def assert_close(one, other):
    """Compares scalars and states of two trainings, by mean differences of arrays.

    `run_steps` zeroes weights whose gradient is only rounding error, such as biases of keys: Adam divides it by itself.
    """
    for name, value in one[0].items():
        assert other[0][name] == pytest.approx(value, rel=1e-4, abs=1e-5), name
    for here, there in zip(one[1:], other[1:], strict=True):
        assert here.keys() == there.keys()
        assert max(np.abs(array - there[name]).mean() for name, array in here.items()) < 5e-5


def test_a_lowered_step_has_only_stablehlo_operations(monkeypatch):
    """CPUs also run XLA's internal operations (MHLO). GPUs refuse them."""
    assert foreign("module\n%1 = mhlo.copy %0 : tensor<f32>\n  %2 = stablehlo.add %1, %1") == ["mhlo.copy"]
    network, step, batches = step_of("glove")
    lowered(step, network.loss.variables, batches(0, 1))
    monkeypatch.setattr(program, "_COPY", re.compile("(not)(there)"))
    with pytest.raises(EnvironmentProblem, match=r"some devices refuse: mhlo\.copy\. Train it"):
        lowered(step, network.loss.variables, batches(0, 1))


def check_runtime(name):
    needs_jax()
    network, step, batches = step_of(name)
    here = run_steps(network, step, batches, 0, 4)
    network, step, batches = step_of(name)
    assert_close(here, run_steps(network, PjrtStep(step, network.loss.variables), batches, 0, 4))


@pytest.mark.parametrize(
    "name", ["glove", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bert", "distilbert"))]
)
def test_the_runtime_of_jax_equals_tensorflow(name):
    """Weights, moments and scalars agree after four steps with dropout."""
    check_runtime(name)


@pytest.mark.sweep
@swept_model
def test_the_runtime_of_jax_trains_every_model(name):
    check_runtime(name)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A corpus and a tokenizer trained on it."""
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    rng = np.random.default_rng(0)
    words = ["the", "cat", "dog", "sat", "ran", "on", "mat", "sea", "old", "red"]
    lines = (" ".join(rng.choice(words, 9)) + " ." for _ in range(400))
    path.write_text("\n".join(line + "\n" * (number % 5 == 4) for number, line in enumerate(lines)) + "\n")
    tokenizer = corpora.train_tokenizer([path], "wordpiece", 80)
    return corpora.tokenise([path], tokenizer), tokenizer


def pretrain(text, out, *, steps=12, **options):
    corpus, tokenizer = text
    about = {"budget": Budget(steps=steps), "recipe": recipe_of(SETTINGS), "seed": 5}
    return pretraining.pretrain("bert", "tiny", corpus=corpus, tokenizer=tokenizer, out=out, **about, **options)


@pytest.fixture(scope="module")
def here(text, tmp_path_factory):
    """The checkpoint of a training with TensorFlow."""
    return pretrain(text, tmp_path_factory.mktemp("here") / "out")


def expect_carried(text, out, folder, words, **options):
    with pytest.raises(ContinuedElsewhere, match=words):
        pretrain(text, out, carry=folder, **options)


def drive(folder, *options, expect=0):
    """Runs the driver in a process where TensorFlow, Keras and this package cannot be imported."""
    forbidden = folder.parent / "forbidden"
    for name in ("tensorflow", "keras", "ptmbench"):
        (forbidden / name).mkdir(parents=True, exist_ok=True)
        (forbidden / name / "__init__.py").write_text("raise SystemExit('imported where it should not be')")
    environment = os.environ | {"PYTHONPATH": str(forbidden), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, folder / "driver.py", *options]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_training_elsewhere_gives_the_same_checkpoint(text, here, tmp_path):
    needs_jax()
    folder, out = tmp_path / "carried", tmp_path / "out"
    expect_carried(text, out, folder, "12 steps, .* Copy it to a machine with JAX")
    expect_carried(text, out, folder, "has no states yet")
    with pytest.raises(UsageError, match="steps is 12 there and 14 here. Give another folder to --carry"):
        pretrain(text, tmp_path / "other", steps=14, carry=folder)
    shutil.copytree(folder, tmp_path / "measured", ignore=shutil.ignore_patterns("first"))
    assert "steps/s" in drive(tmp_path / "measured", "--measure", "14")
    assert not (tmp_path / "measured" / "states").exists()
    assert "12 steps" in drive(folder)
    assert "finished before" in drive(folder)
    there = pretrain(text, out, carry=folder)
    assert there.about["device"].startswith("cpu (cpu, PJRT of JAX ")
    assert [point["step"] for point in there.about["curve"]] == [point["step"] for point in here.about["curve"]]
    assert there.about["loss"] == pytest.approx(here.about["loss"], rel=1e-4)
    arrays, others = here.arrays(), there.arrays()
    assert max(np.abs(array - others[name]).mean() for name, array in arrays.items()) < 5e-5
    assert not (tmp_path / "out.training").exists()


@pytest.mark.slow
def test_a_killed_driver_ends_with_the_same_weights_and_can_be_resumed_here(text, tmp_path):
    needs_jax()
    uninterrupted, killed = tmp_path / "straight", tmp_path / "killed"
    for folder in (uninterrupted, killed):
        expect_carried(text, tmp_path / "out", folder, "Copy it to", steps=200)
    drive(uninterrupted)
    command = [sys.executable, killed / "driver.py", "--save-every", "0.05"]
    for after in ("step-000000002", "step-000000080"):  # or a later one
        process = subprocess.Popen(command, cwd="/", start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            wait_for(killed / "states", after, process)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    about, _ = driver.newest_state(killed / "states")
    if about["step"] < 200:
        expect_carried(
            text,
            tmp_path / "out",
            killed,
            f"has finished {about['step']} of 200 steps. Run .* or leave out --carry",
            steps=200,
        )
        state = checkpoint.newest_intact(tmp_path / "out.training", print)[0]
        assert state.about["step"] == about["step"]
    drive(killed)
    one, other = (driver.newest_state(folder / "states")[1] for folder in (uninterrupted, killed))
    assert one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())
    assert all(name.startswith("weights/") for name in one)


def wait_for(states, name, process, seconds=120):
    """Waits until the state ``name`` or a later one exists, or the process has ended."""
    end = time.monotonic() + seconds
    while not any(one.name >= name for one in states.glob("step-*")) and process.poll() is None:
        assert time.monotonic() < end, "the driver wrote no state in time"
        time.sleep(0.02)


def interrupt_at_step_5(self, step, scalars):
    if step == 5:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
def test_a_training_can_resume_with_another_runtime(text, here, tmp_path, monkeypatch):
    """After an interrupt with one runtime, training continues with the other from the same state."""
    needs_jax()
    for first, second in (("tensorflow", "pjrt"), ("pjrt", "tensorflow")):
        out = tmp_path / f"{first}-{second}"
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(pretraining.Losses, "add", interrupt_at_step_5)
            pretrain(text, out, runtime=first)
        assert checkpoint.newest_intact(tmp_path / f"{out.name}.training", print)[0].about["step"] == 5
        there = pretrain(text, out, runtime=second)
        assert ("PJRT" in there.about["device"]) == (second == "pjrt")
        result = there.arrays()
        assert max(np.abs(array - result[name]).mean() for name, array in here.arrays().items()) < 5e-5


def test_carry_does_not_accept_a_budget_in_minutes(text, tmp_path):
    with pytest.raises(UsageError, match="--carry takes no budget in --minutes"):
        options = {"corpus": text[0], "tokenizer": text[1], "out": tmp_path / "out", "recipe": recipe_of(SETTINGS)}
        pretraining.pretrain("bert", "tiny", budget=Budget(minutes=1), carry=tmp_path / "carried", **options)


def test_carry_refuses_a_folder_of_something_else(text, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="plan.json cannot be read. .* Or give a folder that does not exist yet"):
        pretrain(text, tmp_path / "out", carry=tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"


def test_a_pretraining_that_is_not_applicable_does_not_stop_the_others(tmp_path, capsys):
    """XLM needs texts annotated with their language, which this corpus does not have."""
    (tmp_path / "corpus.txt").write_text("The cat sat on the mat. It purred.\n\n" * 200)
    options = ["--corpus", str(tmp_path / "corpus.txt"), "--steps", "2", "--recipe", "length=16", "--vocabulary", "300"]
    options += ["--models", "xlm,glove", "--tasks", "sst2", "--seeds", "1", "--no-baselines"]
    assert main(["run", "demo", *options, "--out", str(tmp_path / "run"), "--carry", str(tmp_path / "away")]) == OK
    errors = capsys.readouterr().err
    assert "xlm-tiny (wordpiece) not applicable: because this model learns from annotated text" in errors
    assert "1 pre-trainings wait in" in errors and [*(tmp_path / "away").glob("glove-tiny-*/plan.json")]


@pytest.mark.slow
def test_pretrainings_of_a_run_are_carried_and_its_cells_run_here(tmp_path, capsys):
    """The teacher is carried first, and its student when the teacher is finished."""
    needs_jax()
    out, away = tmp_path / "run", tmp_path / "away"
    command = [
        "run",
        "demo",
        "--models",
        "distilbert",
        "--tasks",
        "sst2",
        "--seeds",
        "1",
        "--no-baselines",
        "--steps",
        "4",
    ]
    command += ["--recipe", "length=16", "--set", "epochs=1", "--out", str(out)]

    def messages(*more):
        assert main([*command, *more]) == OK
        return capsys.readouterr().err

    first = messages("--carry", str(away))
    assert (
        "1 pre-trainings wait in" in first
        and "distilbert-tiny (wordpiece): a pre-training that they need is not finished" in first
    )
    drive(away)
    second = messages("--carry", str(away))
    assert "Pre-training bert-tiny (wordpiece): done." in second and "1 pre-trainings wait in" in second
    drive(away)
    assert "All 2 pre-trainings are made. Leave out --carry to run the cells." in messages("--carry", str(away))
    assert not (out / "records").exists()
    messages()
    (record,) = (json.loads(path.read_text()) for path in (out / "records").glob("*.json"))
    assert record["status"] == "ok" and "PJRT of JAX" in record["pretraining"]["device"]


@pytest.mark.slow
def test_a_run_pretrains_with_the_runtime_of_jax(tmp_path):
    needs_jax()
    command = ["run", "demo", "--models", "bert", "--tasks", "sst2", "--seeds", "1", "--no-baselines", "--steps", "4"]
    command += ["--recipe", "length=16", "--set", "epochs=1", "--runtime", "pjrt", "--out", str(tmp_path)]
    assert main(command) == OK
    (record,) = (json.loads(path.read_text()) for path in (tmp_path / "records").glob("*.json"))
    assert record["status"] == "ok" and "PJRT of JAX" in record["pretraining"]["device"]
    assert "--runtime pjrt" in record["command"]
