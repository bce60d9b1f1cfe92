"""Option classes for the command line and for Python, and the command that repeats their values."""

import doctest
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptmbench
from ptmbench.bench.__main__ import main
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.keywords import built, keywords_in_errors, names_of, replace_flags_by_keywords
from ptmbench.bench.options import (
    KINDS,
    RUNTIMES,
    CellOptions,
    EvaluateOptions,
    OutputOptions,
    PredictOptions,
    PretrainOptions,
    RunOptions,
    TrainingOptions,
    TuneOptions,
    WorkerOptions,
)
from ptmbench.bench.runs import pretrain, run
from ptmbench.bench.runs.external import predictions
from ptmbench.bench.runs.external.options import RecordOptions
from tests.bench import asking

ROOT = Path(__file__).resolve().parents[2]
NAMES = st.text("abcdefgh_", min_size=1, max_size=8)
VALUES = st.booleans() | st.integers(-9, 10**6) | st.floats(1e-9, 1e9) | NAMES.filter(lambda name: name != "e")
CHANGES = st.dictionaries(NAMES, VALUES, max_size=3)
BUDGETS = st.one_of(
    st.just(Budget()),
    st.builds(Budget, steps=st.integers(1, 10**9)),
    st.builds(Budget, tokens=st.integers(1, 10**12)),
    st.builds(Budget, flops=st.floats(1.0, 1e20)),
    st.builds(Budget, minutes=st.floats(0.01, 1e4)),
)
COUNTS = st.none() | st.integers(1, 900)


def parse_command(command, monkeypatch):
    """The options that ``command`` passes to the engine."""
    result = []
    monkeypatch.setattr(run, "run_suite", lambda options: result.append(options) or OK)
    monkeypatch.setattr(run, "evaluate", lambda options: result.append(options) or OK)
    monkeypatch.setattr(pretrain, "pretrain_command", lambda options: result.append(options) or OK)
    program, *arguments = shlex.split(command)
    assert program == "ptmbench" and main(arguments) == OK
    return result[0]


@settings(max_examples=60, deadline=None)
@given(
    budget=BUDGETS,
    recipe=CHANGES,
    changes=CHANGES,
    kind=st.none() | st.sampled_from(KINDS),
    strategy=st.sampled_from(("one", "mirrored", "tpu")),
    runtime=st.sampled_from(RUNTIMES),
    counts=st.tuples(COUNTS, COUNTS),
    vocabulary=st.none() | st.integers(64, 10**7),
    keep=st.booleans(),
    corpus=st.booleans(),
)
def test_the_command_of_a_run_repeats_its_options(
    tmp_path_factory, budget, recipe, changes, kind, strategy, runtime, counts, vocabulary, keep, corpus
):
    folder = tmp_path_factory.getbasetemp() / "a folder; with $signs"
    folder.mkdir(exist_ok=True)
    limit, threads = counts
    training = TrainingOptions(
        budget=budget, recipe=recipe, tokenizer=kind, vocabulary=vocabulary, corpus=[folder] if corpus else ()
    )
    requested = RunOptions(
        suite="demo",
        data=folder,
        cells=CellOptions(settings=changes, limit=limit),
        training=training,
        workers=WorkerOptions(threads=threads, strategy=strategy, runtime=runtime),
        output=OutputOptions(keep=keep),
    )
    with pytest.MonkeyPatch.context() as patch:
        assert parse_command(requested.command(), patch) == requested


def test_the_command_of_an_evaluation_repeats_its_options(tmp_path, monkeypatch):
    cells = CellOptions(settings={"length": 32, "encoders": "glove"})
    requested = EvaluateOptions(checkpoint=tmp_path, extra_encoders=(tmp_path, tmp_path), suite="demo", cells=cells)
    assert parse_command(requested.command(), monkeypatch) == requested


def test_conditions_are_given_by_name_with_or_without_settings(monkeypatch):
    result = parse_command("ptmbench run demo --condition Misspellings,misspellings:share=0.2+kinds=swap", monkeypatch)
    assert result.cells.conditions == ("misspellings", "misspellings:share=0.2+kinds=swap")
    assert result == RunOptions(suite="demo", cells=CellOptions(conditions=list(result.cells.conditions)))


def test_transforms_are_given_by_name_with_or_without_settings(monkeypatch):
    result = parse_command(
        "ptmbench run demo --transform Int8,prune:sparsity=0.8 --transform prune:pattern=2:4", monkeypatch
    )
    assert result.cells.transforms == ("int8", "prune:sparsity=0.8", "prune:pattern=2:4")
    assert result == RunOptions(suite="demo", cells=CellOptions(transforms=list(result.cells.transforms)))


def test_omitted_options_have_the_defaults(tmp_path, monkeypatch):
    assert parse_command("ptmbench run demo", monkeypatch) == RunOptions(suite="demo")
    assert parse_command(f"ptmbench evaluate {tmp_path}", monkeypatch) == EvaluateOptions(checkpoint=tmp_path)
    result = parse_command(f"ptmbench pretrain bert --out {tmp_path / 'x'}", monkeypatch)
    assert result == PretrainOptions(model="bert", out=tmp_path / "x")


@pytest.mark.parametrize("kind", [RunOptions, EvaluateOptions, PretrainOptions, TuneOptions, RecordOptions])
def test_option_names_are_unique_across_groups(kind):
    """The command line has one flat list of options, so names must not clash."""
    result = names_of(kind)
    assert len(result) == len(set(result))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"models": "bert"}, r"models is a sequence, such as \('bert',\), not 'bert'"),
        ({"corpus": Path("a.txt")}, "corpus is a sequence"),
        ({"seeds": 0}, "seeds is a whole number from 1 to 1000, not 0"),
        ({"jobs": True}, "jobs is a whole number"),
        ({"executor": "slurm"}, "executor is one of local, ray, not 'slurm'"),
        ({"tokenizer": "letters"}, "tokenizer is one of wordpiece"),
        ({"save_every": 0}, "save_every is a number of seconds above 0"),
        ({"cell_timeout": -1.0}, "cell_timeout is a number of seconds"),
    ],
)
def test_invalid_values_are_usage_errors(values, words):
    with pytest.raises(UsageError, match=words):
        asking.options(RunOptions, suite="demo", **values)


def test_strings_become_paths_and_options_are_immutable():
    requested = RunOptions(suite="demo", data="here", output=OutputOptions(out="there"))
    assert requested.data == Path("here") and requested.output.out == Path("there")
    assert replace(requested, data=Path("elsewhere")).data == Path("elsewhere")
    with pytest.raises(AttributeError):
        requested.suite = "other"


def test_keywords_give_the_same_options_as_the_groups():
    result = built(RunOptions, {"suite": "demo", "models": ["bert"], "tasks": ["sst2"], "seeds": 2, "flops": 1e12})
    assert result == RunOptions(
        suite="demo",
        models=("bert",),
        cells=CellOptions(tasks=("sst2",), seeds=2),
        training=TrainingOptions(budget=Budget(flops=1e12)),
    )
    ladder = built(RunOptions, {"suite": "demo", "tokens": [1000, 2000]})
    assert ladder.training.budgets == (Budget(tokens=1000), Budget(tokens=2000))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ptmbench.run("demo", task=["sst2"]), "no option 'task' in RunOptions. Nearest: tasks"),
        (lambda: ptmbench.run("demo", xyzzy=1), "no option 'xyzzy' in RunOptions. Choices: adaptations, base"),
        (lambda: ptmbench.run(RunOptions(suite="demo"), seeds=2), r"either RunOptions or keywords \(seeds\)"),
        (lambda: ptmbench.run("demo", steps=3, tokens=4), "^`steps` and `tokens` exclude each other"),
        (lambda: ptmbench.pretrain("bert", out="no", steps=3), "^`pretrain` needs text: give .* with `corpus`"),
        (
            lambda: ptmbench.pretrain("bert", out="no", corpus=["a"]),
            "one of `steps`, `tokens`, `flops`, `minutes`",
        ),
        (lambda: ptmbench.run("glue"), "needs data: give its folder with `data`. `ptmbench data ls`"),
        (lambda: ptmbench.evaluate("no", adapter="a.py"), "either checkpoint, .* or adapter"),
        (lambda: ptmbench.evaluate(adapter="a.py"), "AdapterOptions needs 'tasks'"),
        (lambda: ptmbench.evaluate(adapter="a.py", tasks=["sst2"], keep=True), "no option 'keep' in AdapterOptions"),
        (lambda: ptmbench.evaluate(tasks=["sst2"]), "EvaluateOptions needs 'checkpoint'"),
        (lambda: ptmbench.record("sst2", name="x", out="no"), "RecordOptions needs 'predictions'"),
        (lambda: RecordOptions(task="a", name="x", out="b", predictions="c", flops=0), "flops is a number from"),
        (
            lambda: RecordOptions(task="a", name="x", out="b", predictions="c", parameters=True),
            "parameters is a number",
        ),
        (lambda: ptmbench.run("demo", steps=3, budget=Budget()), "either budget or steps"),
        (lambda: ptmbench.run("dmeo"), "demo"),
        (lambda: ptmbench.pretrain("bert"), "PretrainOptions needs 'out'"),
        (lambda: ptmbench.results("runs", by="seed"), "by is one of record, mean, not 'seed'"),
    ],
)
def test_invalid_keywords_are_usage_errors(call, words):
    with pytest.raises(UsageError, match=words):
        call()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Give another --out, or delete it.", "Give another `out`, or delete it."),
        ("Leave --ray-address out.", "Leave `ray_address` out."),
        ("Add --set length=64.", 'Add `settings={"length": 64}`.'),
        ("Add --recipe kind=bpe, or give --size.", 'Add `recipe={"kind": "bpe"}`, or give `sizes`.'),
        ("bert has --flops 1e12 and --workers 2.", "bert has `flops=1e12` and `jobs=2`."),
        ("Add `--adaptation stacked:encoders=a` to it.", 'Add `adaptations=["stacked:encoders=a"]` to it.'),
        ("Give --no-baselines or --base once.", "Give `baselines=False` or `bases` once."),
        ("Use `run --keep`, or --strict.", "Use `run --keep`, or --strict."),
    ],
)
def test_errors_name_keywords_instead_of_flags(message, expected):
    assert replace_flags_by_keywords(message, names_of(RunOptions)) == expected


def test_only_usage_errors_are_rewritten():
    with pytest.raises(KeyError, match="--out"), keywords_in_errors(["out"]):
        raise KeyError("--out")
    with pytest.raises(UsageError, match="^`out`$"), keywords_in_errors(["out"]):
        raise UsageError("--out")


def test_the_command_of_a_record_repeats_its_options(tmp_path, monkeypatch):
    result = []
    monkeypatch.setattr(predictions, "record", lambda options: result.append(options) or "record.json")
    file = tmp_path / "a file"
    file.touch()
    requested = RecordOptions(
        task="sst2", predictions=file, name="our net", out=tmp_path, data=tmp_path, seed=3, fixed=True,
        parameters=110e6, flops=2e18, note="a note",
    )  # fmt: skip
    assert main(["record", *requested.arguments(), "--out", str(tmp_path)]) == OK
    assert result == [requested]


@pytest.mark.slow
def test_verbose_false_silences_a_run(tmp_path, capsys):
    """A run without training: neither this process nor its worker prints anything."""
    requested = {"models": ["majority"], "tasks": ["sst2"], "baselines": False, "jobs": 1}
    frame = ptmbench.run("demo", out=tmp_path / "one", verbose=False, **requested)
    assert capsys.readouterr() == ("", "") and len(frame) == 1
    again = ptmbench.run("demo", out=tmp_path / "one", **requested)
    captured = capsys.readouterr()
    assert captured.out == "" and "1 of 1 cells recorded" in captured.err and again.equals(frame)
    assert len(ptmbench.run("demo", dry_run=True, verbose=False, **requested)) == 0
    assert "majority" in capsys.readouterr().out


def test_importing_the_package_imports_no_heavy_dependencies():
    code = "import ptmbench, sys; assert not {'tensorflow', 'pandas', 'numpy', 'click'} & set(sys.modules), sys.modules"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.slow
def test_the_doctest_of_the_package_passes(tmp_path, monkeypatch):
    monkeypatch.setenv("PTMBENCH_CACHE", str(tmp_path / "cache"))
    result = doctest.testmod(ptmbench)
    assert result.attempted and not result.failed


@pytest.mark.slow
def test_pretrain_evaluate_predict_and_score_from_python(tmp_path, monkeypatch):
    """The functions of the package, from text to scored predictions."""
    from ptmbench.tasks import microworld

    monkeypatch.setenv("PTMBENCH_CACHE", str(tmp_path / "cache"))
    world = tmp_path / "world"
    microworld.make(world)
    corpus = sorted((world / "corpus").glob("*.txt"))
    recipe = {"batch": 4, "length": 32}
    made = ptmbench.pretrain(
        "bert", out=tmp_path / "bert", steps=2, corpus=corpus, vocabulary=300, recipe=recipe, verbose=False
    )
    assert made.about["steps"] == 2 and made.folder == tmp_path / "bert"

    frame = ptmbench.evaluate(
        made,
        data=world,
        tasks=["sst2"],
        seeds=1,
        settings={"max_steps": 2, "length": 32},
        jobs=1,
        threads=1,
        out=tmp_path / "run",
        keep=True,
    )
    assert frame.attrs == {"exit_status": OK, "damaged": []}
    (line,) = frame.to_dict("records")
    assert (line["model"], line["task"], line["status"], line["steps"]) == ("bert", "sst2", "ok", 2)
    assert line["low"] <= line["score"] <= line["high"] and line["flops_pretrain"] == made.about["flops"]
    assert line["command"].startswith(f"ptmbench evaluate {tmp_path / 'bert'} --data {world} --set max_steps=2")
    assert ptmbench.results(tmp_path / "run").equals(frame)

    (adapted,) = (tmp_path / "run" / "adapted").iterdir()
    answers = ptmbench.predict(adapted, data=world, out=tmp_path / "out", split="dev")
    assert list(answers.columns[:3]) == ["task", "id", "prediction"] and set(answers.task) == {"sst2"}
    lines = (tmp_path / "out" / "sst2.dev.jsonl").read_text().splitlines()
    assert len(answers) == len(lines)
    requested = PredictOptions(checkpoints=(adapted,), data=world, split="dev")
    assert ptmbench.predict(requested, verbose=False).equals(answers)

    scores = ptmbench.score("sst2", answers, data=world)
    assert scores["headline"] == line["score"] and scores["examples"] == len(answers)
    gold = world / "glue" / "SST-2" / "dev.tsv"
    for same in (
        list(answers.prediction),
        dict(zip(answers.id, answers.prediction, strict=True)),
        tmp_path / "out" / "sst2.dev.jsonl",
    ):
        assert ptmbench.score("sst2", same, gold) == scores

    texts = [row.split("\t")[0] for row in gold.read_text().splitlines()[1:]]
    from_texts = ptmbench.predict(adapted, texts, verbose=False)
    assert list(from_texts.prediction) == list(answers.prediction)
