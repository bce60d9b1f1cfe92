"""TensorBoard logs of pre-trainings: event files and traces, read back as TensorBoard reads them."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.course import Course
from ptmbench.bench.engine.monitoring import Log, LogOptions
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.errors import EnvironmentProblem, UsageError
from ptmbench.bench.keywords import built
from ptmbench.bench.options import PretrainOptions, RunOptions
from ptmbench.bench.runs.pretrain import pretrain
from ptmbench.models.text import corpus as corpora
from tests.bench.processes import PATIENCE, made_text, start, states, wait_for

UNITS = ("steps", "tokens", "megaflops")


def read_events(folder):
    """(unit, name, step, value) of all events below ``folder``, in the order of the files."""
    import tensorflow as tf

    read_points = []
    for unit in UNITS:
        for path in sorted((folder / unit).glob("events.out.tfevents.*")):
            for event in map(tf.compat.v1.Event.FromString, tf.data.TFRecordDataset(str(path)).as_numpy_iterator()):
                for value in event.summary.value:
                    read_points.append((unit, value.tag, event.step, float(tf.make_ndarray(value.tensor))))
    return read_points


def course_of(*steps):
    return Course(step=steps[-1], steps=20, curve=[{"step": step, "loss": 1.0 / step} for step in steps])


def log_of(folder, **options):
    log_options = LogOptions(tensorboard=folder, **options)
    return Log(log_options, "bert", tokens=128, flops=3e6, rate=lambda step: step / 10)


def test_events_are_written_by_steps_tokens_and_megaflops(tmp_path):
    with log_of(tmp_path) as log:
        log.begin(course_of(2, 4))
        log.add({"step": 6, "loss": 0.125})
    read_points = read_events(tmp_path / "bert")
    losses = {
        unit: [(step, value) for one, name, step, value in read_points if (one, name) == (unit, "loss")]
        for unit in UNITS
    }
    assert losses["steps"] == [(2, 0.5), (4, 0.25), (6, 0.125)]
    assert losses["tokens"] == [(256, 0.5), (512, 0.25), (768, 0.125)]
    assert losses["megaflops"] == [(6, 0.5), (12, 0.25), (18, 0.125)]
    rates = [value for unit, name, _, value in read_points if (unit, name) == ("steps", "learning_rate")]
    assert rates == pytest.approx([0.1, 0.3, 0.5])


def test_a_resumed_log_has_each_point_once(tmp_path):
    """Points after the last training state are written again when their steps are repeated."""
    with log_of(tmp_path) as log:
        log.begin(course_of(2))
        log.add({"step": 4, "loss": 0.7})
    other = tmp_path / "bert" / "steps" / "events.out.tfevents.1.of-another-program"
    other.touch()
    with log_of(tmp_path) as log:
        log.begin(course_of(2))
        log.add({"step": 4, "loss": 0.25})
    losses = [
        (step, value) for unit, name, step, value in read_events(tmp_path / "bert") if (unit, name) == ("steps", "loss")
    ]
    assert losses == [(2, 0.5), (4, 0.25)] and other.exists()


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Log(LogOptions(), "bert", tokens=1, flops=1.0, rate=float) as log:
        log.begin(course_of(2))
        log.add({"step": 4, "loss": 0.7})
        log.after(1, list)
    assert not [*tmp_path.iterdir()]


def test_invalid_options_are_errors(tmp_path):
    with pytest.raises(UsageError, match="Give one with --tensorboard"):
        LogOptions(trace=3)
    with pytest.raises(UsageError, match="whole number of steps from 1, not 0"):
        LogOptions(tensorboard=tmp_path, trace=0)
    (tmp_path / "bert").touch()
    with pytest.raises(EnvironmentProblem, match="cannot be written: .* Give another one with --tensorboard"):
        log_of(tmp_path).begin(course_of(2))


def test_pretrain_and_run_accept_log_options(tmp_path):
    values = {"tensorboard": str(tmp_path), "trace": 2}
    options = built(PretrainOptions, {"model": "bert", "out": "out", **values})
    assert options.log == built(RunOptions, {"suite": "demo", **values}).log
    assert LogOptions(**json.loads(json.dumps(options.log.given()))) == options.log
    assert LogOptions().given() == {}


def pretrain_with_log(out, **log):
    path = made_text(out.with_suffix(".txt"))
    tokenizer = corpora.train_tokenizer([path], "wordpiece", 200)
    corpus = corpora.tokenise([path], tokenizer)
    recipe = recipe_of({"batch": 4, "length": 16, "dropout": 0.1})
    about = {"corpus": corpus, "tokenizer": tokenizer, "recipe": recipe, "warn": print}
    return pretrain("word2vec", "tiny", budget=Budget(steps=30), out=out, log=LogOptions(**log), **about)


def test_logging_changes_no_weights_and_the_trace_is_readable(tmp_path):
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    plain = pretrain_with_log(tmp_path / "plain")
    logged = pretrain_with_log(tmp_path / "logged", tensorboard=tmp_path / "logs", trace=3)
    arrays = logged.arrays()
    assert all(np.array_equal(array, arrays[name]) for name, array in plain.arrays().items())
    assert logged.about["curve"] == plain.about["curve"] and logged.weights_sha256 == plain.weights_sha256
    folder = tmp_path / "logs" / "logged"
    losses = [(step, value) for unit, name, step, value in read_events(folder) if (unit, name) == ("steps", "loss")]
    assert losses == [(point["step"], np.float32(point["loss"])) for point in plain.about["curve"]]
    (trace,) = (folder / "steps" / "plugins" / "profile").glob("*/*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(trace.read_bytes())
    assert sum(len(line.events) for plane in space.planes for line in plane.lines) > 0


@pytest.mark.slow
def test_a_killed_training_logs_the_same_as_an_uninterrupted_one(tmp_path):
    """The training is killed twice, between two training states. Each point exists once, with the same value."""
    text = made_text(tmp_path / "text.txt")
    logs, steps = tmp_path / "logs", ("--steps", "2000", "--tensorboard", str(tmp_path / "logs"))
    uninterrupted = start(text, tmp_path / "straight", *steps, model="word2vec")
    assert uninterrupted.wait(timeout=PATIENCE) == 0, uninterrupted.stderr.read()
    killed = tmp_path / "killed"

    def bytes_written():
        try:
            return sum(path.stat().st_size for path in (logs / "killed").glob("steps/events*"))
        except FileNotFoundError:  # a resuming training has just removed the older file
            return 0

    for threshold in (2_000, 5_000):  # bytes; about ten points each
        process = start(text, killed, *steps, "--save-every", "0.2", model="word2vec")
        wait_for(lambda: (states(killed) and bytes_written() > threshold) or process.poll() is not None)  # noqa: B023
        process.kill()
        _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL, f"the training ended before it could be killed: {stderr[-500:]}"
    last = start(text, killed, *steps, model="word2vec")
    assert last.wait(timeout=PATIENCE) == 0, last.stderr.read()
    expected = read_events(logs / "straight")
    assert read_events(logs / "killed") == expected and len(expected) == len(UNITS) * 3 * 100


@pytest.mark.sweep
def test_pretrainings_of_a_run_are_logged(tmp_path):
    """The workers are separate processes. They receive the options with the job of the run."""
    command = [sys.executable, "-m", "ptmbench", "run", "demo", "--models", "word2vec,glove", "--tasks", "sst2"]
    command += [
        "--seeds",
        "1",
        "--no-baselines",
        "--steps",
        "20",
        "--out",
        "run",
        "--tensorboard",
        "logs",
        "--trace",
        "2",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    names = sorted(folder.name for folder in (tmp_path / "logs").iterdir())
    assert [name.partition("-")[0] for name in names] == ["glove", "word2vec"]
    for folder in (tmp_path / "logs").iterdir():
        about = json.loads((tmp_path / "run" / "pretrained" / folder.name / "manifest.json").read_text())["about"]
        steps = [step for unit, name, step, _ in read_events(folder) if (unit, name) == ("steps", "loss")]
        assert steps == [point["step"] for point in about["curve"]]
        assert [*folder.glob("steps/plugins/profile/*/*.xplane.pb")]
