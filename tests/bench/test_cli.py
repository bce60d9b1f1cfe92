"""The command line: fast start, one-line error messages, exit statuses, and only data on stdout."""

import importlib
import inspect
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ptmbench.bench import errors
from ptmbench.bench.__main__ import main
from ptmbench.bench.commands.registry import names
from ptmbench.bench.engine.budget import Budget

ROOT = Path(__file__).resolve().parents[2]
SLOW_IMPORTS = {
    "tensorflow",
    "keras",
    "numpy",
    "pandas",
    "pydantic",
    "rich",
    "scipy",
    "sklearn",
    "tokenizers",
    "jinja2",
}


def bench(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ptmbench", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600, **options
    )


@pytest.mark.parametrize("arguments", [["--help"], ["ls"], ["ls", "models", "--json"], ["run", "--help"]])
def test_help_and_ls_start_quickly(arguments: list[str]) -> None:
    """Measures processor time, the best of three, because wall time depends on what else the machine does.

    A quarter of the limit is usual. Importing TensorFlow takes several times the limit."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert bench(*arguments).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) <= 1.0


@pytest.mark.parametrize(
    "arguments", [["--help"], ["ls"], ["ls", "--json"], ["data", "--help"], ["pretrain", "--help"]]
)
def test_help_and_ls_import_no_slow_packages(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom ptmbench.bench.__main__ import main\n"
        f"status = main({arguments!r})\n"
        f"print(sorted({SLOW_IMPORTS!r} & set(sys.modules)), file=sys.stderr)\nsys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")


def test_help_lists_every_command_and_each_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    from ptmbench.bench.commands import COMMANDS

    assert main([]) == main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n  {name} " in shown
        assert main([name, "--help"]) == 0
        assert "Usage: ptmbench " + name in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["rum"], 2, ["'rum'", "run"]),
        (["run"], 2, ["SUITE", "ptmbench run --help"]),
        (["run", "demo", "--nonsense"], 2, ["--nonsense"]),
        (["run", "demo", "--seeds", "0"], 2, ["--seeds", "0"]),
        (["run", "demo", "--seed", "4294967296"], 2, ["--seed", "4294967295"]),
        (["pretrain", "bert", "--out", "out", "--seed", "4294967296"], 2, ["--seed", "4294967295"]),
        (["run", "demo", "--threads", "4000"], 2, ["--threads", "1024"]),
        (["run", "demo", "--steps", "many"], 2, ["--steps", "many", "20e6"]),
        (["run", "demo", "--steps", "1", "--flops", "2"], 2, ["--steps", "--flops"]),
        (["run", "demo", "--tokens", "-5"], 2, ["--tokens", "positive"]),
        (["run", "demo", "--tokens", "nan"], 2, ["--tokens", "positive"]),
        (["run", "demo", "--steps", "1.5"], 2, ["--steps", "whole"]),
        (["pretrain", "bert", "--out", "x", "--save-every", "nan"], 2, ["--save-every", "not a number"]),
        (["data", "fetch", "sst2", "--data", "x", "--timeout", "1e20"], 2, ["--timeout", "86400"]),
        (["run", "demo", "--set", "rate"], 2, ["key=value", "rate"]),
        (["run", "demo", "--set", "a=1", "--set", "a=2"], 2, ["twice"]),
        (["run", "demo", "--recipe", "batch"], 2, ["--recipe takes key=value", "batch"]),
        (["run", "demo", "--recipe", "batsch=4"], 2, ["'batsch'", "batch, length"]),
        (["run", "demo", "--strategy", "multiworker"], 2, ["multiworker", "mirrored"]),
        (["run", "demo", "--models", ","], 2, ["--models"]),
        (["run", "demo", "--corpus"], 2, ["--corpus", "at least one"]),
        (["run", "demo", "--data", ""], 2, ["--data", "is empty"]),
        (["run", "demo", "--out", ""], 2, ["--out", "is empty"]),
        (["run", "demo", "--out", "LICENSE"], 4, ["LICENSE is a file", "another"]),
        (["data", "make", ""], 2, ["FOLDER", "is empty"]),
        (["gate", "a", "b", "--json", "tests"], 4, ["tests is a folder", "another"]),
        (["perf", "corpus", "no-such-text"], 4, ["no-such-text", "does not exist"]),
        (["perf", "pretrain", "--threads", "0"], 2, ["--threads", "1<=x<=1024"]),
        (["perf", "loss", "--corpus", "LICENSE", "--held-out", "LICENSE", "--turns", "0"], 2, ["--turns", "1<=x<="]),
        (["perf", "finetune", "x", "--learning-rate", "nan"], 2, ["--learning-rate", "not a number"]),
        (["perf", "strategies", "--models", "bert,brt"], 2, ["'brt'", "bert"]),
        (["perf", "generate", "--models", "bert"], 2, ["'bert'", "such as t5"]),
        (["run", "demo", "--data", "no-such-folder"], 4, ["no-such-folder", "does not exist"]),
        (["pretrain", "bert", "--size", "huge", "--out", "x"], 2, ["huge", "tiny"]),
        (["pretrain", "bert"], 2, ["--out"]),
        (
            ["pretrain", "bert", "--out", "x", "--corpus", "README.md", "--steps", "1", "--batch", "8"]
            + ["--set", "batch=7"],
            2,
            ["--batch and --set batch", "one of them"],
        ),
        (["evaluate", "no-such-checkpoint"], 4, ["no-such-checkpoint"]),
        (["score", "cola", "--gold", "no-gold", "--predictions", "no-predictions"], 4, ["no-gold"]),
        (["encode", "no-such-checkpoint", "--input", "a", "--out", "b"], 4, ["does not exist"]),
        (["board", "no-such-run"], 4, ["no-such-run"]),
        (["data", "check", "no-such-folder"], 4, ["no-such-folder"]),
        (["ls", "modles"], 2, ["modles", "models"]),
        (["info", "brt"], 2, ["'brt'", "bert"]),
        (["info", "BRT"], 2, ["'BRT'", "bert"]),
        (["run", "GLUES"], 2, ["'GLUES'", "Nearest: glue."]),
        (["run", "demo", "--models", "GPT-22"], 2, ["'GPT-22'", "gpt2"]),
        (["run", "demo", "--tasks", "CoLAA"], 2, ["'CoLAA'", "Nearest: cola,"]),
    ],
)
def test_mistakes_give_a_one_line_error_message(
    arguments: list[str], status: int, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ptmbench: ") and "Traceback" not in err and len(err.strip().splitlines()) == 1
    for word in words:
        assert word in err


ENGINE = {
    "run": ("ptmbench.bench.runs.run", "run_suite"),
    "pretrain": ("ptmbench.bench.runs.pretrain", "pretrain_command"),
    "evaluate": ("ptmbench.bench.runs.run", "evaluate"),
    "predict": ("ptmbench.bench.runs.predict", "predict"),
    "encode": ("ptmbench.bench.runs.predict", "encode"),
}


def engine_options(arguments: list[str], monkeypatch: pytest.MonkeyPatch, answer: int = 0) -> Any:
    """Returns what a command passes to the engine: an options object, or options by name.

    Checks that the engine's own signature accepts it."""
    place, name = ENGINE[arguments[0]]
    module = importlib.import_module(place)
    signature = inspect.signature(getattr(module, name))
    calls: list[Any] = []

    def fake_engine(*positional: Any, **options: Any) -> int:
        signature.bind(*positional, **options)
        calls.append(positional[0] if positional else options)
        return answer

    monkeypatch.setattr(module, name, fake_engine)
    assert main(arguments) == answer
    return calls[0]


def test_run_passes_its_options_to_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.touch(), second.touch()
    arguments = ["run", "glue", "--models", "bert, gpt", "--models", "bert", "--seeds", "3", "--data", str(tmp_path)]
    arguments += ["--corpus", str(first), str(second), "--tokens", "20e6", "--set", "rate=3e-5", "--set", "warm=true"]
    arguments += ["--size", "small", "--strategy", "mirrored", "--recipe", "batch=256", "--recipe", "xla=true"]
    options = engine_options([*arguments, "--adaptation", "finetune,features", "--limit", "9"], monkeypatch, answer=1)
    assert (options.suite, options.models, options.sizes) == ("glue", ("bert", "gpt"), ("small",))
    assert options.cells.tasks is None and options.output.out is None
    assert options.training.recipe == {"batch": 256, "xla": True}
    assert options.training.corpus == (first, second)
    assert options.training.budget == Budget(tokens=20_000_000)
    assert options.cells.adaptations == ("finetune", "features")
    assert options.cells.settings == {"rate": 3e-5, "warm": True}
    assert (options.cells.seeds, options.cells.limit, options.workers.jobs, options.dry_run) == (3, 9, None, False)
    assert options.workers.strategy == "mirrored"
    assert options.baselines and not options.output.keep and not options.output.retry
    assert not engine_options(["run", "glue", "--no-baselines"], monkeypatch).baselines


def test_pretrain_accepts_its_model_before_or_after_the_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tail = ["--size", "mini", "--corpus", str(tmp_path), "--minutes", "2.5", "--out", "here"]
    options = engine_options(["pretrain", "bert", *tail], monkeypatch)
    assert options == engine_options(["pretrain", *tail, "bert"], monkeypatch)
    assert (options.model, options.size, options.out) == ("bert", "mini", Path("here"))
    assert options.training.budget == Budget(minutes=2.5) and options.training.recipe == {}
    options = engine_options(["pretrain", "bert", *tail, "--batch", "8", "--set", "xla=true"], monkeypatch)
    assert options.training.recipe == {"batch": 8, "xla": True}


def test_evaluate_predict_and_encode_pass_their_options_to_the_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = engine_options(["evaluate", str(tmp_path), "--tasks", "cola,sst2", "--dry-run"], monkeypatch)
    assert (options.checkpoint, options.cells.tasks, options.dry_run) == (tmp_path, ("cola", "sst2"), True)
    options = engine_options(["predict", str(tmp_path), str(tmp_path), "--out", "submission"], monkeypatch)
    assert (options.checkpoints, options.split) == ((tmp_path, tmp_path), "test")
    lines = tmp_path / "lines.txt"
    lines.touch()
    options = engine_options(["encode", str(tmp_path), "--input", str(lines), "--out", "x.npz"], monkeypatch)
    assert (options["source"], options["out"]) == (lines, Path("x.npz"))


def test_dots_and_home_folders_in_paths_are_resolved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rows, default folders and files next to an output are named after its path, but "." and ".." give no name."""
    (tmp_path / "home" / "bert").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "home" / "bert")
    assert engine_options(["evaluate", "."], monkeypatch).checkpoint.name == "bert"
    assert engine_options(["pretrain", "bert", "--out", ".."], monkeypatch).out == tmp_path / "home"
    options = engine_options(["run", "demo", "--data=~/bert", "--out=~/runs"], monkeypatch)
    assert (options.data, options.output.out) == (tmp_path / "home" / "bert", tmp_path / "home" / "runs")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (errors.UsageError("no"), 2, "no"),
        (errors.EnvironmentProblem("gone"), 4, "gone"),
        (OSError(28, "No space left on device", "big.bin"), 4, "The disk is full: big.bin. Make room, and"),
        (FileExistsError(17, "File exists", "runs"), 4, "A folder was expected, but this is a file: runs."),
        (PermissionError(13, "Permission denied", "locked"), 4, "Permission denied: locked."),
        (MemoryError(), 4, "out of memory"),
        (KeyboardInterrupt(), 130, "Run the same command again to resume"),
        (SystemExit(143), 143, "SIGTERM"),
        (ValueError("odd \x1b[31mthing"), 70, "ValueError: odd \\x1b[31mthing"),
    ],
)
def test_exceptions_become_exit_statuses(
    error: BaseException,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr("ptmbench.bench.commands.names.names", fail)
    assert main(["ls"]) == status
    err = capfd.readouterr().err
    assert said in err and "Traceback" not in err
    assert main(["ls", "--debug"]) == status
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize("path", sorted(errors.STATUSES))
def test_the_table_of_statuses_names_existing_exceptions(path: str) -> None:
    """The table holds names. A class that moved would silently get status 70."""
    module, _, name = path.rpartition(".")
    cls = getattr(importlib.import_module(module), name)
    error = cls.__new__(cls, "reason")  # some constructors take more than a reason
    assert errors.status(error) == errors.STATUSES[path]
    assert errors.sentence(error) == "reason"


def test_missing_data_gives_the_environment_status() -> None:
    from ptmbench.tasks.task import MissingData

    assert errors.status(MissingData("the file x is missing")) == errors.ENVIRONMENT


def test_a_closed_pipe_gives_no_error_message() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "ptmbench", "ls"], cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, timeout=600
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(("closed", "status"), [("0<&-", 0), (">&-", 0), ("2>&-", 2)])
def test_commands_work_with_closed_standard_streams(closed: str, status: int) -> None:
    command = "ls suites" if status == 0 else "rum"
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m bench {command} {closed}"], cwd=ROOT, capture_output=True, timeout=600
    )
    assert (done.returncode, done.stderr) == (status, b"")
    assert bool(done.stdout) == (closed == "0<&-")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which only Linux has")
def test_a_full_disk_behind_stdout_gives_an_error_message() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ptmbench", "ls"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
        )
    assert (done.returncode, done.stderr) == (
        4,
        "ptmbench: The disk is full. Make room, and give the same command again.\n",
    )


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_give_their_exit_status(number: int, status: int) -> None:
    code = (
        "import os, sys\nfrom ptmbench.bench.commands import names\nfrom ptmbench.bench.__main__ import main\n"
        f"names.names = lambda kind: os.kill(os.getpid(), {int(number)})\nsys.exit(main(['ls']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == status
    assert done.stderr.strip().startswith("ptmbench: Stopped") and "Traceback" not in done.stderr


def test_ls_as_json_lists_all_models_and_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    from ptmbench import models, tasks

    assert main(["ls", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert tuple(row["name"] for row in listed["models"]) == models.names()
    assert tuple(row["name"] for row in listed["tasks"]) == tasks.names()
    assert all(row["summary"] for rows in listed.values() for row in rows)


def test_info_of_a_model_states_the_parameters_of_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    from ptmbench import models
    from ptmbench.models.text.tokenizers import Vocabulary

    assert main(["info", "bert", "--json", "--vocabulary", "1000"]) == 0
    sheet = json.loads(capsys.readouterr().out)["models"]
    module = models.load("bert")
    for size, shape in module.SIZES.items():
        described = module.describe(shape, Vocabulary(size=1000))
        assert sheet["sizes"][size]["parameters"] == described.parameters().total
    assert sheet["citation"] == module.CARD.citation


def test_info_of_a_suite_has_readable_values_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "demo"]) == 0
    shown = capsys.readouterr().out
    assert "    all: length 64" in shown and "<function" not in shown and "{}" not in shown
    assert main(["info", "demo", "--json"]) == 0
    assert "keeps" not in json.loads(capsys.readouterr().out)["suites"]


@pytest.mark.parametrize("kind", ["adaptations", "transforms", "conditions"])
def test_info_tells_what_each_setting_means(kind, capsys):
    for name in names(kind):
        assert main(["info", name, "--json"]) == 0
        sheet = json.loads(capsys.readouterr().out)[kind]
        rows = [row for part in ("own", "settings") for row in sheet.get(part, ())]
        assert not [row["set"] for row in rows if not row["meaning"]], name
    assert main(["info", "prune"]) == 0
    assert (
        "    sparsity=0.5  (from 0 to below 1)\n        Share of the weights of each kernel" in capsys.readouterr().out
    )


def test_info_accepts_the_variants_of_a_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "multi30k-fr-en"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("multi30k-fr-en (task)") and "Elliott et al., 2016" in shown
    assert main(["info", "lama-nowhere"]) == 2
    assert "LAMA has no 'nowhere'" in capsys.readouterr().err
    assert main(["info", "cola-x"]) == 2
    assert "There is no task 'cola-x'. Nearest: cola" in capsys.readouterr().err


def test_info_works_for_everything_that_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    from ptmbench.bench.commands.names import FOLDERS, docstring, names, one_of, summary

    for kind in FOLDERS:
        for name in names(kind):
            first_sentence = summary(kind, name)
            assert " ".join(docstring(kind, name).split()).startswith(first_sentence) and first_sentence[-1] in ".?!"
            assert main(["info", name]) == 0
            assert f"{name} ({one_of(kind)})" in capsys.readouterr().out
            assert main(["info", name, "--json"]) == 0
            assert kind in json.loads(capsys.readouterr().out)


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    from ptmbench.bench.commands.files import dumps

    values = {"a": float("nan"), "b": [np.float32("inf"), np.int64(3)], "c": Path("x")}
    assert json.loads(dumps(values)) == {"a": "nan", "b": ["inf", 3], "c": "x"}


def test_doctor_finds_no_problem_on_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = bench("doctor", "--json", env=os.environ | {"PTMBENCH_CACHE": str(tmp_path / "cache")})
    assert done.returncode == 0, done.stdout
    assert done.stderr == "", "TensorFlow was not kept quiet"
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert findings["python"]["state"] == "ok"
    assert {"processor", "memory", "cache", "BLAS", "import", "accelerators", "commit"} <= set(findings)


def test_doctor_reports_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    from ptmbench.bench.commands.doctor import writable

    blocked = tmp_path / "file"
    blocked.touch()
    finding = writable("cache", blocked / "cache")
    assert finding.state == "missing" and "PTMBENCH_CACHE" in finding.advice
