"""A broken file in a registry is reported with its line. Commands that do not need it still work."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ptmbench import models
from ptmbench.tasks import microworld

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "models": "models/masked_language_modeling",
    "objectives": "models/objectives",
    "tasks": "tasks",
    "adaptations": "bench/adapt",
    "suites": "bench/runs/suites",
    "corpora": "bench/data/recipes",
    "baselines": "bench/baselines",
}
BREAKS = {
    "syntax": '"""Broken."""\n\nthis is no Python\n',
    "exit": '"""Broken."""\n\nraise SystemExit(0)\n',
    "import": '"""Broken."""\n\nimport there_is_no_such_package\n',
    "bytes": b'"""Broken \xff."""\n\nx = 1\n',
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the project, with data in it. Tests may break its files."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "ptmbench", folder / "ptmbench", ignore=shutil.ignore_patterns("__pycache__"))
    for room in ("bench", "models", "tasks", "leaderboard"):  # as an installed package has them
        ignored = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(ROOT / room, folder / "ptmbench" / room, ignore=ignored)
    microworld.make(folder / "data")
    return folder


def ptmbench(clone, *arguments):
    """Runs the command in the copy. Returns its exit status, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "ptmbench", *map(str, arguments)],
        cwd=clone,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(clone), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def break_registry(clone):
    """A function that puts a file called "broken" into a registry. The file is removed after the test."""
    written = []

    def put(kind, content, name="broken"):
        folder = clone / "ptmbench" / FOLDERS[kind]
        path = folder / name / "__init__.py" if kind == "adaptations" else folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        written.append(path)
        return path

    yield put
    for path in written:
        path.unlink()
        if path.name == "__init__.py":
            shutil.rmtree(path.parent)


@pytest.mark.parametrize("how", BREAKS)
def test_lists_still_work_with_a_broken_file(how, clone, break_registry):
    for kind in FOLDERS:
        break_registry(kind, BREAKS[how])
    status, listed, _ = ptmbench(clone, "ls")
    assert status == 0 and listed.count("broken") == len(FOLDERS) - 1  # baselines are not listed
    status, listed, stderr = ptmbench(clone, "data", "ls", "data")
    assert status == 0 and "sst2" in listed and "broken" not in listed
    assert re.search(r"tasks/broken\.py(, line \d,)? cannot be run: \w+", stderr), stderr
    assert ptmbench(clone, "info", "sst2")[0] == 0


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("models", ("info", "broken")),
        ("models", ("pretrain", "broken", "--corpus", "data/corpus/novel.txt", "--steps", "1", "--out", "out")),
        ("objectives", ("info", "broken")),
        ("tasks", ("info", "broken")),
        ("tasks", ("run", "demo", "--tasks", "broken", "--models", "majority", "--no-baselines", "--dry-run")),
        ("suites", ("run", "broken")),
        ("corpora", ("data", "corpus", "broken", "--data", "data")),
        ("adaptations", ("run", "demo", "--adaptation", "broken", "--dry-run")),
        ("baselines", ("run", "demo", "--models", "broken", "--tasks", "sst2", "--dry-run")),
    ],
)
def test_a_command_that_needs_a_broken_file_reports_its_path_and_line(kind, command, clone, break_registry):
    (clone / "data" / "corpus" / "novel.txt").write_text("A cat sat. It slept.\n")
    path = break_registry(kind, BREAKS["syntax"])
    status, _, stderr = ptmbench(clone, *command)
    assert status == 4, stderr
    assert f"{path}, line 3, cannot be run: SyntaxError: invalid syntax" in stderr.replace("\n", " ")


def test_a_run_continues_without_a_broken_baseline_and_a_broken_task(clone, break_registry):
    broken = [break_registry(kind, BREAKS["exit"]) for kind in ("baselines", "tasks")]
    out = clone / "beside"
    status, _, stderr = ptmbench(clone, "run", "demo", "--models", "majority", "--tasks", "sst2", "--out", out)
    assert status == 0 and f"{broken[0]}, line 3, cannot be run: SystemExit: 0." in stderr
    assert len(list(out.glob("records/*.json"))) == 2  # majority, and bag-of-words as a default baseline
    status, planned, stderr = ptmbench(clone, "run", "words", "--data", "data", "--models", "majority", "--dry-run")
    assert status == 0 and "majority" in planned
    assert ptmbench(clone, "data", "check", "data")[0] in (0, 4)


MODEL = models.paths()["bert"].read_text(encoding="utf-8")
CONTRACT = {
    "no base": ("models", MODEL.replace('"base": Size(', '"large": Size('), "SIZES lacks base."),
    "no sizes": ("models", MODEL.replace("SIZES = ", "SHAPES = "), "It has no SIZES"),
    "no card": ("models", MODEL.replace("CARD = ", "SHEET = "), "It has no CARD"),
    "no loss": (
        "models",
        MODEL.replace('loss="L_MLM + L_NSP",', ""),
        "missing 1 required keyword-only argument: 'loss'",
    ),
    "objective": (
        "models",
        MODEL.replace('("mlm", "nsp")', '("mlm", "npp")'),
        "names 'npp', which is no objective. Nearest: nsp.",
    ),
    "rate": ("models", MODEL.replace("ADAM = {", 'LEARNING_RATE = "2e-3"\nADAM = {'), "LEARNING_RATE is a number"),
    "no build": ("models", MODEL.replace("def build(", "def made("), "It has no function build(size, vocabulary)."),
    "no description": (
        "models",
        MODEL.replace("def describe(", "def made("),
        "no function describe(",
    ),
    "arity": ("models", MODEL.replace("describe(size: Size, ", "describe("), "no function describe("),
    "formula": (
        "models",
        MODEL.replace("D, V = size.width, ", "D, V = size.wide, "),
        "describe fails for the",
    ),
    "kind": (
        "models",
        MODEL.replace("    return EncoderModel(", "    return dict("),
        "for the size tiny, where a models.costs.Model belongs.",
    ),
    "costs": (
        "models",
        MODEL.replace("costs import EncoderModel", "costs import EncoderModel, Model").replace(
            "    return EncoderModel(", "    return Model(encoder=bert(size, V))\n    return EncoderModel("
        ),
        "What describe gives for the size tiny has no training_flops: NotImplementedError.",
    ),
}
STUDENT = models.paths()["distilbert"].read_text(encoding="utf-8")
CONTRACT |= {
    "no teacher": (
        "models",
        STUDENT.replace("TEACHER = Teacher(", "TEACHER = dict("),
        "TEACHER is a models.card.Teacher",
    ),
    "teacher": ("models", STUDENT.replace('model="bert"', 'model="bart_"'), "another model, not 'bart_'"),
    "own teacher": ("models", STUDENT.replace('model="bert"', 'model="broken"'), "another model, not 'broken'"),
    "teacher's size": ("models", STUDENT.replace("size=doubled", 'size="tiny"'), "TEACHER.size is a function of"),
    "teacher's parts": (
        "models",
        STUDENT.replace('("encoder/embeddings/", "encoder/stack/", "mlm/")', '"mlm/"'),
        "TEACHER.parts is a tuple",
    ),
    "untaught": (
        "models",
        STUDENT.replace(", teacher: Pretrainable | None = None)", ")"),
        "It has no function build(size, vocabulary, teacher).",
    ),
}
TASK = (ROOT / "tasks" / "sst2.py").read_text(encoding="utf-8").replace('name="sst2"', 'name="broken"')
SUITE = (ROOT / "bench" / "runs" / "suites" / "demo.py").read_text(encoding="utf-8")
ADAPTATION = (ROOT / "bench" / "adapt" / "finetune" / "__init__.py").read_text(encoding="utf-8")
CONTRACT |= {
    "no task": ("tasks", TASK.replace("TASK = ", "SHEET = "), "It has no TASK"),
    "name": ("tasks", TASK.replace('name="broken"', 'name="other"'), "TASK.name is 'other'"),
    "read": ("tasks", TASK.replace("read=read,", "read=label,"), "TASK.read is a function of 2 arguments"),
    "metrics": ("tasks", TASK.replace("(accuracy,)", "(max, 3)"), "TASK.metrics are functions of gold"),
    "report": ("tasks", TASK.replace("chance=50.0", 'report="exam"'), "TASK.report is 'exam'"),
    "folders": ("tasks", TASK.replace('("glue/SST-2", "SST-2")', '"glue/SST-2"'), "TASK.folders is a tuple"),
    "labels": ("tasks", TASK.replace('LABELS = ("0", "1")', 'LABELS = ("0",)'), "needs two labels or more"),
    "headline": ("tasks", TASK.replace('headline="accuracy"', 'headline="acuracy"'), "names acuracy, which no metric"),
    "no suite": ("suites", SUITE.replace("SUITE = ", "RUN = "), "It has no SUITE"),
    "tuple": ("suites", SUITE.replace('("bert", "gpt", "elmo", "electra")', '"bert"'), "SUITE.models is a tuple"),
    "summary": ("adaptations", ADAPTATION.replace("    summary = ", "    words = "), "It has no summary"),
    "no adaptation": (
        "adaptations",
        ADAPTATION.replace("ADAPTATION = ", "OTHER = "),
        "It has no ADAPTATION, an instance",
    ),
    "arguments": (
        "adaptations",
        ADAPTATION.replace("encoder: Any, settings: Any, *others: Any", "encoder: Any"),
        "Its reading(encoder) takes other arguments than reading(encoder, settings, others).",
    ),
    "head": (
        "adaptations",
        ADAPTATION.replace("    summary = ", '    heads = {Form.SPAN: "heads.spam"}\n    summary = ').replace(
            "\n\n\nclass", "\nfrom ptmbench.tasks.forms import Form\n\n\nclass"
        ),
        "Its heads name 'heads.spam', but there is no file",
    ),
    "reading": ("adaptations", ADAPTATION.replace("import Reading", "import Other"), "imports Other, which"),
}


@pytest.mark.parametrize("what", CONTRACT)
def test_what_a_file_lacks_is_reported_before_anything_runs(what, clone, break_registry):
    kind, content, words = CONTRACT[what]
    path = break_registry(kind, content)
    plan = ("--models", "majority", "--no-baselines", "--dry-run", "--data", "data")
    command = {
        "models": ("run", "demo", "--models", "broken", "--dry-run", "--data", "data"),
        "tasks": ("run", "demo", "--tasks", "broken", *plan),
        "suites": ("run", "broken", *plan),
        "adaptations": ("run", "demo", "--tasks", "sst2", "--adaptation", "broken", *plan),
    }[kind]
    status, _, stderr = ptmbench(clone, *command)
    assert status == 4, stderr
    assert str(path) in stderr and words in stderr.replace("\n", " "), stderr
