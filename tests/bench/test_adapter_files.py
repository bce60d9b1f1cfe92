"""`evaluate --adapter`: Keras models of other projects, adapters of ten lines, and the example of docs/foreign.md."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import ptmbench
from ptmbench.bench.__main__ import main
from ptmbench.leaderboard.records.store import load
from ptmbench.tasks import load as loaded_task
from ptmbench.tasks.task import Example

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "foreign.md").read_text(encoding="utf-8")


def code_on_page(name: str) -> str:
    """Returns the code that the page shows as the file ``name``."""
    return re.search(rf'^```python title="{name}"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)[1]


def evaluate(file: Path, world: Path, out: Path, tasks: str = "sst2", *more) -> int:
    options = ["--adapter", file, "--tasks", tasks, "--data", world, "--out", out, *more]
    return main(["evaluate", *map(str, options)])


def accuracy_by_keras(file: str, examples: Sequence[Example]) -> float:
    """Computes the accuracy of the saved model with Keras alone."""
    import keras

    model = keras.saving.load_model(file)
    logits = model.predict(keras.ops.convert_to_tensor([one.inputs[0] for one in examples]), verbose=0)
    return float(np.mean(logits.argmax(axis=1) == [int(one.gold) for one in examples]))


@pytest.mark.slow
def test_the_example_of_the_documentation_runs(tmp_path, world, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "adapter.py"):
        Path(name).write_text(code_on_page(name))
    assert len(code_on_page("adapter.py").splitlines()) <= 10
    environment = os.environ | {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "train.py", str(world)], check=True, env=environment, timeout=300)
    out = Path("runs/ours")
    assert evaluate(Path("adapter.py"), world, out, "sst2,mrpc") == 0
    found = load([out]).records
    frame = ptmbench.evaluate(adapter="adapter.py", tasks=["sst2", "mrpc"], data=world, out="runs/function")
    assert frame.attrs["exit_status"] == 0 and set(frame.key) == {one.key for one in found}
    scored = [one for one in found if one.task["name"] == "sst2"]
    assert [one.seed for one in scored] == [0, 1, 2] and all(one.status == "ok" for one in scored)
    examples = loaded_task("sst2").examples(world, "dev")
    for one in scored:
        assert one.headline["value"] == pytest.approx(100 * accuracy_by_keras(f"sst2.{one.seed}.keras", examples))
        assert one.cost["parameters"] == 2000 * 32 + 32 * 2 + 2
        assert one.cost["latency_seconds"] > 0 and one.cost["peak_memory_bytes"] > 0 and one.device
        assert one.row["division"] == "external" and one.adaptation["name"] == "external"
    reasons = [one.reason for one in found if one.task["name"] == "mrpc"]
    assert reasons[0] == {"code": "not-made-for", "text": "because our-bag is not made for MRPC."}
    page = (out / "board" / "index.html").read_text()
    assert "our-bag" in page and "unknown" in page
    assert main(["gate", str(out), str(out)]) == 0


HEAD = """
import keras
import numpy as np
from keras import ops

NAME = "our-net"
"""
GUESS = """
class Guess(keras.Model):
    def __init__(self, outputs):
        super().__init__()
        self.bias = self.add_weight(shape=(outputs,), initializer="ones")

    def call(self, batch):
        return ops.cast(batch["length"], "float32")[..., None] * self.bias
"""
CLASSES = """
def load(task, seed):
    return Guess(len(task.labels))

def encode(inputs, task):
    return {"length": np.array([len(" ".join(texts)) % 7 for texts in inputs])}
"""
TAGS = """
def load(task):
    return Guess(len(task.labels))

def encode(inputs, task):
    return {"length": np.zeros((len(inputs), max(map(len, inputs)) + 2))}
"""
NUMBERS = """
def load(task, seed):
    return Guess(1)

def encode(inputs, task):
    assert all(len(texts) == 2 for texts in inputs)
    return {"length": np.array([len(one) / max(len(other), 1) for one, other in inputs])}
"""


def adapter(folder: Path, text: str) -> Path:
    file = folder / "adapter.py"
    file.write_text(HEAD + GUESS + text)
    return file


@pytest.mark.parametrize(
    ("task", "text", "seeds"), [("sst2", CLASSES, 2), ("conll2003", TAGS, 1), ("stsb", NUMBERS, 2)]
)
def test_forms_are_evaluated_and_a_changed_adapter_makes_new_cells(tmp_path, world, task, text, seeds):
    file, out = adapter(tmp_path, text), tmp_path / "run"
    assert evaluate(file, world, out, task, "--seeds", 2, "--limit", 70) == 0
    found = load([out]).records
    assert [one.seed for one in found] == list(range(seeds)) and {one.status for one in found} == {"ok"}
    assert {one.task["examples"] for one in found} == {70}
    assert {one.adaptation["name"] for one in found} == {"fixed" if seeds == 1 else "external"}
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/*.json*")}
    assert evaluate(file, world, out, task, "--seeds", 2, "--limit", 70) == 0
    assert {path: path.stat().st_mtime_ns for path in out.glob("*/*.json*")} == before
    file.write_text(file.read_text() + "# changed\n")  # a changed adapter makes new cells
    assert evaluate(file, world, out, task, "--seeds", 2, "--limit", 70) == 0
    assert len(load([out]).records) == 2 * seeds


def test_without_encode_the_model_reads_strings(tmp_path, world):
    text = """
class First(keras.Model):
    def call(self, texts):
        import tensorflow as tf
        assert texts.dtype == tf.string
        share = tf.cast(tf.strings.length(texts[:, 0]), tf.float32)
        return tf.stack([share, share + 1.0], axis=1)

def load(task):
    return First()
"""
    assert evaluate(adapter(tmp_path, text), world, tmp_path / "run", "mrpc", "--limit", 40) == 0
    assert load([tmp_path / "run"]).records[0].status == "ok"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def load(task, seed):\n    return 1 / 0", "adapter.py, line 16, cannot be run: ZeroDivisionError"),
        ("def load(task, seed):\n    return 'a path'", "load returned str for sst2, but a keras.Model was expected"),
        ("def load(task):\n    return Guess(3)\n" + CLASSES[CLASSES.index("def encode") :], "of shape [32, 3]"),
        ("def load(task):\n    return Guess(2)\ndef encode(inputs, task):\n    return np.zeros(3)", "a row for each"),
        (CLASSES.replace("% 7", "* np.nan"), "NaN or infinity"),
    ],
)
def test_the_record_of_a_failed_cell_gives_the_reason(tmp_path, world, text, words):
    assert evaluate(adapter(tmp_path, text), world, tmp_path / "run", "sst2", "--seed", 0) == 1
    (found,) = load([tmp_path / "run"]).records
    assert found.status == "failed" and words in found.reason["text"], found.reason


def test_forms_that_adapters_do_not_support_are_not_applicable(tmp_path, world):
    assert evaluate(adapter(tmp_path, CLASSES), world, tmp_path / "run", "squad11", "--seed", 0) == 0
    (found,) = load([tmp_path / "run"]).records
    assert found.status == "not_applicable" and "classification, regression, tagging" in found.reason["text"]


def test_an_evaluation_without_data_ends_with_the_environment_status(tmp_path, world, capsys):
    file, absent = adapter(tmp_path, CLASSES), tmp_path / "absent"
    absent.mkdir()
    assert evaluate(file, absent, tmp_path / "run", "sst2", "--seed", 0) == 4
    told = capsys.readouterr().err
    assert "1 cells (1 without data)" in told and f"`ptmbench data ls {absent}` shows which files" in told
    assert evaluate(file, world, tmp_path / "run", "sst2", "--seed", 0) == 0
    assert evaluate(file, absent, tmp_path / "run", "squad11", "--seed", 0) == 0  # no data would help


@pytest.mark.parametrize(
    ("content", "more", "status", "words"),
    [
        ("NAME = 'x'\nload = 3\n", [], 4, "It has no function load(task, seed) or load(task)."),
        ("NAME = 3\ndef load(task): ...\n", [], 4, "It has no NAME, a text."),
        ("NAME = 'x'\nimport nothing_of_the_kind\n", [], 4, "adapter.py, line 2, cannot be run: ModuleNotFoundError"),
        ("NAME = 'x'\ndef load(task)\n", [], 4, "adapter.py, line 2, cannot be run: SyntaxError"),
        ("NAME = 'bert'\ndef load(task): ...\n", [], 2, "'bert' would be taken for bert"),
        ("NAME = 'x'\ndef load(task): ...\n", ["--adaptation", "features"], 2, "--adaptation is for checkpoints"),
        ("NAME = 'x'\ndef load(task): ...\n", ["--suite", "demo"], 2, "--suite is for checkpoints"),
    ],
)
def test_invalid_adapter_files_and_options_are_rejected(tmp_path, world, capsys, content, more, status, words):
    file = tmp_path / "adapter.py"
    file.write_text(content)
    assert evaluate(file, world, tmp_path / "run", "sst2", *more) == status
    assert words in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_evaluate_takes_either_a_checkpoint_or_an_adapter(tmp_path, capsys):
    (tmp_path / "adapter.py").write_text("NAME = 'x'\ndef load(task): ...\n")
    assert main(["evaluate", "--tasks", "sst2"]) == 2
    assert main(["evaluate", str(tmp_path), "--adapter", str(tmp_path / "adapter.py")]) == 2
    assert main(["evaluate", "--adapter", str(tmp_path / "adapter.py")]) == 2
    assert "name them with --tasks" in capsys.readouterr().err
