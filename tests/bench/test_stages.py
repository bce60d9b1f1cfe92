"""Artefacts that need others of their kind: continued pre-training, and models adapted to an intermediate task."""

import dataclasses
import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import numpy as np
import pytest

from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import CheckpointError, digest
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.errors import CELLS_FAILED, OK, UsageError
from ptmbench.bench.runs import lineage, pretrain, run, suites
from ptmbench.bench.runs.artefacts import AdaptedModel, Given
from ptmbench.bench.runs.execute import remove_unneeded, set_failures_aside
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import failure_of, intact, settled
from ptmbench.bench.runs.schedule import Schedule
from ptmbench.bench.runs.suites import Stage, demo
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.bench.runs.work import Job, Worker
from ptmbench.leaderboard import record, tables
from ptmbench.models.text.tokenizers import Tokenizer
from tests.bench import asking, test_schedule
from tests.bench.cells import SHORT, train
from tests.bench.processes import ROOT, made_text, start, states, wait_for
from tests.bench.test_schedule import BERT, CELLS, WORDS


@pytest.fixture(scope="module")
def base(text, tmp_path_factory):
    return train("word2vec", text, tmp_path_factory.mktemp("base") / "base")


# Continued pre-training ----------------------------------------------------------------------------------------------


def test_keys_of_pretrainings_without_a_base_are_what_they_were():
    matters = {name: value for name, value in asdict(BERT).items() if name not in ("corpus", "corpus_name")}
    for newer in ("base", "other_tokenizer", "teacher", "held_out", "tuning", "chosen_by"):
        del matters[newer]
    assert BERT.key == digest({"pretraining": matters})
    continued = replace(BERT, base=BERT.key)
    assert continued.key != BERT.key and replace(BERT, base="checkpoint:x").key not in (continued.key, BERT.key)
    assert continued.needs == (WORDS.key, BERT.key) and replace(BERT, other_tokenizer="other").needs == ("other",)


def test_a_continued_pretraining_begins_with_the_weights_of_its_base(text, base, tmp_path):
    still = train("word2vec", text, tmp_path / "still", base=base, recipe=recipe_of({**SHORT, "learning_rate": 0}))
    fresh = train("word2vec", text, tmp_path / "fresh", recipe=recipe_of({**SHORT, "learning_rate": 0}))
    theirs = base.arrays()
    assert all(np.array_equal(value, theirs[name]) for name, value in still.arrays().items())
    assert any(not np.array_equal(value, theirs[name]) for name, value in fresh.arrays().items())
    assert "base" not in fresh.about and "including" not in fresh.about


def test_the_cost_of_all_stages_is_added_up(text, base, tmp_path):
    second = train("word2vec", text, tmp_path / "second", base=base, budget=Budget(steps=2))
    third = train("word2vec", text, tmp_path / "third", base=second, budget=Budget(steps=4))
    assert second.about["base"]["weights_sha256"] == base.weights_sha256 and second.about["base"]["steps"] == 3
    for name, total in (("steps", 9), ("tokens", 9 * 128), ("flops", 3 * base.about["flops"])):
        assert third.about["including"][name] == pytest.approx(total)
    assert third.about["steps"] == 4
    unknown = replace(base, about={**base.about, "tokens": None})  # a published checkpoint does not say
    assert lineage.told(second.about, {"base": unknown})["including"]["tokens"] is None
    total = third.about["including"]
    older = replace(second, about={name: value for name, value in second.about.items() if name != "earlier"})
    assert lineage.told(third.about, {"base": older})["including"] == pytest.approx(total)
    again = lineage.told(third.about, {"base": second, "teacher": base})  # the teacher is in the base already
    assert again["including"] == pytest.approx(total) and again["teacher"]["model"] == "word2vec"


def test_a_base_that_does_not_fit_is_a_sentence(text, base, tmp_path):
    other = Tokenizer.load(corpora.tokenizer(text.files, "wordpiece", 200))
    with pytest.raises(CheckpointError, match=r"another tokenizer \(wordpiece of .* Continue with its own"):
        train(
            "word2vec",
            text,
            tmp_path / "a",
            tokenizer=other,
            corpus=corpora.load(tuple(map(str, text.files)), other),
            base=base,
        )
    with pytest.raises(CheckpointError, match=r"glove tiny cannot continue from .*base.*same model and size"):
        train("glove", text, tmp_path / "b", base=base)
    with pytest.raises(UsageError, match="holds the training state of another run: base is"):
        states_of_another(text, base, tmp_path / "c")


def states_of_another(text, base, out):
    """A training from random weights is stopped; then it is to go on from ``base``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrain, "check_finished", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train("word2vec", text, out, save_every=0.0)
    train("word2vec", text, out, base=base)


def test_pretrain_takes_a_base(text, base, tmp_path):
    usual = {"model": "word2vec", "corpus": text.files, "budget": Budget(steps=2), "recipe": SHORT}
    usual |= {"out": tmp_path / "out"}
    with pytest.raises(UsageError, match="is word2vec tiny, and glove tiny is to be pre-trained"):
        asking.pretrain(**(usual | {"model": "glove"}), bases=(base.folder,))
    with pytest.raises(UsageError, match="more than --vocabulary 100. Leave --vocabulary out"):
        asking.pretrain(**usual, bases=(base.folder,), vocabulary=100)
    with pytest.raises(UsageError, match="Give --base once"):
        asking.pretrain(**usual, bases=(base.folder, base.folder))
    with pytest.raises(UsageError, match=r"made for inputs of 4096 tokens.*network of 5000.*same length"):
        asking.pretrain(**(usual | {"recipe": {"batch": 4, "length": 5000}}), bases=(base.folder,))
    assert asking.pretrain(**usual, bases=(base.folder,)) == OK
    about = checkpoint.read(tmp_path / "out").about
    assert about["tokenizer"] == base.about["tokenizer"] and about["including"]["steps"] == 5


@pytest.fixture
def planned(world, tmp_path, monkeypatch):
    """`run_suite` up to the moment at which work would begin: its plan."""

    def plans(**options):
        found = []
        monkeypatch.setattr(run, "execute", lambda whole, *_: found.append(whole) or OK)
        usual = {"suite": "demo", "models": ("word2vec", "glove"), "tasks": ("cola",), "seeds": 1, "vocabulary": 300}
        usual |= {"data": world, "out": tmp_path, "budget": Budget(steps=2), "recipe": SHORT}
        assert asking.run_suite(**(usual | options)) == OK
        return found[0]

    return plans


def test_a_suite_may_have_an_earlier_stage(planned, monkeypatch):
    alone = planned()
    stage = Stage(budget=Budget(steps=7), corpus=("glue/*/*.tsv",), recipe={"learning_rate": 1e-4})
    monkeypatch.setattr(demo, "SUITE", replace(demo.SUITE, base=stage))
    whole = planned(adaptations=("finetune", "features"))
    cut, *trained = [one for one in whole.artefacts if one.kind in ("tokenizer", "pretraining")]
    assert [(one.model, one.budget.steps) for one in trained] == [
        ("word2vec", 7), ("word2vec", 2), ("glove", 7), ("glove", 2)
    ]  # fmt: skip
    first, second = trained[:2]
    assert second.base == first.key and not first.base and second.needs == (cut.key, first.key)
    assert cut.corpus_sha256 == first.corpus_sha256 != second.corpus_sha256 == alone.pretrainings[0].corpus_sha256
    assert first.recipe["learning_rate"] == 1e-4 and "learning_rate" not in second.recipe
    assert {cell.pretraining for cell in whole.cells if cell.row.name == "word2vec"} == {second.key}
    assert {cell.tokenizer for cell in whole.cells if cell.row.model} == {cut.key}
    assert Plan.from_json(whole.to_json()) == whole


def test_a_suite_with_a_stage_that_is_none_is_told(monkeypatch):
    assert suites._mistakes(replace(demo.SUITE, base=Stage(budget=Budget(), corpus=("a",)))) == [
        "SUITE.base is a bench.runs.suites.Stage whose budget has a unit, or None."
    ]


def test_a_run_takes_bases(planned, base):
    whole = planned(models=("word2vec", "majority"), vocabulary=None, bases=(base.folder,), corpus=())
    (training,) = whole.pretrainings
    weights, cut = whole.by_key[training.base], whole.by_key[training.tokenizer_key]
    assert isinstance(weights, Given) and weights.path == str(base.folder)
    assert cut.path == str(base.folder / "tokenizer.json") and cut.key == base.about["tokenizer"]["sha256"]
    assert {cell.tokenizer for cell in whole.cells if cell.row.model} == {cut.key}
    with pytest.raises(UsageError, match="No checkpoint of --base is of glove tiny; there is word2vec tiny"):
        planned(vocabulary=None, bases=(base.folder,))
    with pytest.raises(UsageError, match="--tokenizer wordpiece, not bpe"):
        planned(models=("word2vec",), vocabulary=None, tokenizer="bpe", bases=(base.folder,))


JOB = Job(data="", source={}, command="run", keep=False, length=32)


def test_failures_go_down_the_graph_with_their_reasons(tmp_path):
    second = replace(BERT, base=BERT.key)
    third = replace(BERT, base=second.key)
    cell = replace(CELLS[0], pretraining=third.key)
    plan = Plan((WORDS, BERT, second, third, cell))
    worker = Worker(tmp_path, plan, JOB)
    worker.give_up(BERT, {"code": "worker-died", "text": "Two workers died."})
    assert failure_of(tmp_path, BERT).name == f"bert-tiny.{BERT.key[:12]}.failed.json"
    for one in (second, third, cell):
        assert one.key not in settled(tmp_path, plan)
        said = worker.do(one.key)
        assert said.startswith(one.title) and "Two workers died." in said
    assert settled(tmp_path, plan) == {BERT.key, second.key, third.key, cell.key}
    found = record.read(cell.place(tmp_path))
    assert (found.status, found.reason["code"]) == ("failed", "worker-died")
    continues = "The pre-training that it continues failed: "
    assert found.reason["text"] == f"Its pre-training failed: {2 * continues}Two workers died."
    set_failures_aside(tmp_path)
    assert not settled(tmp_path, plan)


def test_a_tokenizer_that_cannot_be_trained_ends_the_run_with_its_sentence(world, tmp_path, capfd):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"caf\xe9 au lait\n" * 9)
    from ptmbench.bench.__main__ import main

    command = ["run", "demo", "--models", "random-word2vec", "--no-baselines", "--tasks", "cola", "--seeds", "1"]
    command += ["--corpus", str(bad), "--data", str(world), "--out", str(tmp_path / "out"), "--jobs", "1"]
    for _ in range(2):  # the second time as well, with the same corpus
        assert main(command) == 4
        assert "is not UTF-8" in capfd.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.glob("out/records/*")) and not list(tmp_path.glob("out/tokenizers/*.json"))


# Intermediate tasks --------------------------------------------------------------------------------------------------


def test_models_are_adapted_to_an_intermediate_task_once(planned):
    asked = ("finetune", "finetune:after=sst2", "features:layers=top+after=sst2")
    whole = planned(models=("bert",), tasks=("cola", "sst2", "wikitext2"), adaptations=asked, seeds=2)
    adapted = {one.key: one for one in whole.artefacts if isinstance(one, AdaptedModel)}
    names = sorted((one.cell.row.name, one.cell.adaptation, one.cell.seed) for one in adapted.values())
    rows = ("bert", "random-bert")
    assert names == sorted((row, way, n) for row in rows for way in ("finetune", "features:layers=top") for n in (0, 1))
    for cell in whole.cells:
        if cell.adaptation == "finetune:after=sst2" and cell.task == "cola":
            first = adapted[cell.adapted].cell
            assert (first.task, first.row, first.seed, first.adaptation) == ("sst2", cell.row, cell.seed, "finetune")
        elif cell.task != "cola" or cell.adaptation == "finetune":
            assert not cell.adapted  # a task after itself is the task alone
    plain = planned(models=("bert",), tasks=("cola", "sst2", "wikitext2"), adaptations=("finetune",), seeds=2)
    assert {cell.key for cell in plain.cells} <= {cell.key for cell in whole.cells}
    with pytest.raises(UsageError, match="models are not trained on wikitext2"):
        planned(models=("bert",), adaptations=("finetune:after=wikitext2",))


def test_adapted_models_go_when_no_cell_needs_them(tmp_path):
    first, second = (AdaptedModel(cell=test_schedule.cell("random-bert", task)) for task in ("sst2", "rte"))
    cells = [replace(test_schedule.cell("random-bert", "cola", seed), adapted=first.key) for seed in (0, 1)]
    cells += [replace(test_schedule.cell("random-bert", "rte"), predictor=second.key)]
    whole = Plan((WORDS, first, second, *cells))

    def left(*statuses):
        for one in (first, second):
            (one.checkpoint(tmp_path)).mkdir(parents=True, exist_ok=True)
        remove_unneeded(whole, tmp_path, {one.key: status for one, status in zip(cells, statuses, strict=False)})
        return [one.place(tmp_path).exists() for one in (first, second)]

    assert left() == [True, True] and left("ok") == [True, True]
    assert left("ok", "failed", "not_applicable") == [True, False], "--retry runs the failed cell again"
    assert left("ok", "diverged", "failed") == [True, True]
    assert left("ok", "not_applicable", "ok") == [False, False]
    assert not (tmp_path / "intermediate").exists()
    assert Schedule(whole.artefacts, {one.key for one in cells}).over, "they are not made again for what is done"


def test_a_removal_that_was_killed_is_finished_by_the_next_run(tmp_path, monkeypatch):
    one = AdaptedModel(cell=test_schedule.cell("random-bert", "sst2"))
    asked = replace(test_schedule.cell("random-bert", "sst2"), predictor=one.key)
    whole, gone = Plan((WORDS, one, asked)), []
    one.checkpoint(tmp_path).mkdir(parents=True)
    monkeypatch.setattr("ptmbench.bench.runs.execute.shutil.rmtree", lambda path, **_: gone.append(path.name))
    remove_unneeded(whole, tmp_path, {asked.key: "ok"})  # killed before it deleted anything
    assert gone == [f".{one.key[:12]}"] and not one.place(tmp_path).exists()
    monkeypatch.undo()
    one.checkpoint(tmp_path).mkdir(parents=True)  # somebody made it again
    remove_unneeded(whole, tmp_path, {})
    assert [path.name for path in (tmp_path / "intermediate").iterdir()] == [one.key[:12]]
    remove_unneeded(whole, tmp_path, {asked.key: "ok"})
    assert not (tmp_path / "intermediate").exists()


@pytest.mark.slow
def test_a_cell_begins_with_the_model_of_its_intermediate_task(world, tmp_path):
    """What an intermediate task teaches is where the target task begins: at a rate of 0 both networks answer alike."""
    usual = {"suite": "demo", "data": world, "models": ("bert",), "baselines": False, "jobs": 1, "threads": 1}
    usual |= {"tasks": ("cola",), "seeds": 1, "budget": Budget(steps=3), "out": tmp_path, "vocabulary": 300}
    usual |= {"settings": {"max_steps": 3, "length": 32}, "recipe": SHORT}
    assert asking.run_suite(**usual, adaptations=("finetune", "finetune:after=sst2")) == OK
    found = {one.adaptation["name"]: one for one in map(record.read, (tmp_path / "records").glob("*.json"))}
    plain, after = found["finetune"], found["finetune:after=sst2"]
    about = after.adaptation["intermediate"]
    assert about["task"] == "sst2" and about["cost"]["steps"] == 3 and "intermediate" not in plain.adaptation
    assert after.pretraining == plain.pretraining and after.curve != plain.curve
    whole = Plan.from_json((tmp_path / "plan.json").read_text())
    (adapted,) = (one for one in whole.artefacts if isinstance(one, AdaptedModel))
    assert not (tmp_path / "adapted").exists() and not (tmp_path / "intermediate").exists()  # nothing is kept
    job = Job(**json.loads((tmp_path / "job.json").read_text()))
    assert Worker(tmp_path, whole, job).do(adapted.key).endswith(": done")  # it can be made again
    assert intact(tmp_path, adapted) and checkpoint.read(adapted.checkpoint(tmp_path)).about["task"] == "sst2"

    # The same cell, taught nothing: its encoder's weights are those of the adapted model.
    (cell,) = (one for one in whole.cells if one.adapted)
    still = dataclasses.replace(cell, settings={**cell.settings, "learning_rate": 0.0, "max_steps": 1})
    job = dataclasses.replace(job, keep=True)
    plan = Plan((*(one for one in whole.artefacts if one.kind != "cell"), still))
    assert "failed" not in Worker(tmp_path, plan, job).do(still.key)
    (kept,) = (tmp_path / "adapted").iterdir()
    ours, theirs = checkpoint.read(kept).arrays(), checkpoint.read(adapted.checkpoint(tmp_path)).arrays()
    encoder = [name for name in ours if not name.startswith("adapted/")]
    assert encoder and all(np.array_equal(ours[name], theirs[name]) for name in encoder)
    given = checkpoint.read(whole.by_key[cell.pretraining].place(tmp_path)).arrays()
    assert any(not np.array_equal(ours[name], given[name]) for name in encoder)


# Real processes ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_continued_pretraining_killed_again_and_again_ends_with_the_same_weights(tmp_path):
    text = made_text(tmp_path / "corpus.txt")
    assert start(text, tmp_path / "base", "--steps", "5").wait(timeout=300) == 0
    more = ("--base", str(tmp_path / "base"), "--steps", "300")

    def begin(out, *further):
        return start(text, out, *more, *further)

    straight, out = begin(tmp_path / "straight"), tmp_path / "killed"
    for _ in range(3):
        before, process = states(out), begin(out, "--save-every", "0.05")
        wait_for(lambda before=before, process=process: states(out) - before or process.poll() is not None)
        process.kill()
        _, said = process.communicate()
        assert process.returncode == -signal.SIGKILL, said
    assert begin(out).wait(timeout=300) == straight.wait(timeout=300) == 0
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (tmp_path / "straight", out)]
    assert weights[0] == weights[1] and checkpoint.read(out).about["including"]["steps"] == 305


SCRIPT = """
import sys
from dataclasses import replace
from pathlib import Path
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.options import CellOptions, OutputOptions, RunOptions, TrainingOptions, WorkerOptions
from ptmbench.bench.runs.run import run_suite
from ptmbench.bench.runs.suites import Stage
from ptmbench.bench.runs.suites import demo

demo.SUITE = replace(demo.SUITE, base=Stage(budget=Budget(steps=40), corpus=("corpus/*.txt",)))
sys.exit(run_suite(RunOptions(
    suite="demo", data=Path(sys.argv[1]), models=("bert",), baselines=False,
    cells=CellOptions(tasks=("sst2",), adaptations=("finetune:after=cola",), seeds=1,
                      settings={"length": 32, "batch": 4, "max_steps": 40}),
    training=TrainingOptions(budget=Budget(steps=40), recipe={"batch": 4, "length": 32}, vocabulary=300),
    workers=WorkerOptions(jobs=1, threads=1),
    output=OutputOptions(out=Path(sys.argv[2]), save_every=float(sys.argv[3])),
)))
"""


@pytest.mark.slow
def test_a_run_killed_in_every_node_ends_with_the_same_record(world, tmp_path):
    """In the base, in the pre-training that continues it, in the intermediate task, and in the cell."""

    log = tmp_path / "log"

    def begin(out, save_every="600"):
        with open(log, "w") as file:
            return subprocess.Popen([sys.executable, "-c", SCRIPT, world, out, save_every], cwd=ROOT, stderr=file)

    assert begin(tmp_path / "straight").wait(timeout=400) == OK, log.read_text()
    whole = Plan.from_json((tmp_path / "straight" / "plan.json").read_text())
    first, second = whole.pretrainings
    (adapted,) = (one for one in whole.artefacts if isinstance(one, AdaptedModel))
    out = tmp_path / "killed"
    for saved, made in (
        (lambda: states(first.place(out)), []),
        (lambda: states(second.place(out)), [first]),
        (lambda: list((adapted.place(out) / "unfinished").glob("*/*/step-*")), [first, second]),
        (lambda: list((out / "unfinished").glob("*/*/step-*")), [first, second, adapted]),
    ):
        process = begin(out, "0.01")
        wait_for(lambda saved=saved, process=process: saved() or process.poll() is not None, 300.0)
        process.kill()
        assert process.wait() == -signal.SIGKILL, log.read_text()
        time.sleep(1.5)  # its worker sees the pipe close and stops
        done = [one for one in whole.artefacts if isinstance(one, Pretraining | AdaptedModel) and intact(out, one)]
        assert [one.key for one in made] == [one.key for one in done]
    assert begin(out).wait(timeout=400) == OK, log.read_text()
    found = [record.read(next((folder / "records").iterdir())) for folder in (tmp_path / "straight", out)]
    for part in ("key", "scores", "curve", "predictions", "adaptation"):
        left, right = (_comparable(getattr(one, part)) for one in found)
        assert left == right
    assert found[0].pretraining["weights_sha256"] == found[1].pretraining["weights_sha256"]
    including = found[1].pretraining["including"]
    assert (including["steps"], found[1].pretraining["base"]["steps"]) == (80, 40)
    (line,) = tables.records(found[1:]).to_dict("records")
    assert line["pretraining_tokens"] == 80 * 128 and line["pretraining_flops"] == including["flops"]


def _comparable(value):
    """``value`` without what clocks and processes say."""
    if not isinstance(value, dict):
        return value
    measured = ("seconds", "energy", "peak_memory_bytes")
    return {name: _comparable(part) for name, part in value.items() if name not in measured}


def test_a_run_whose_base_diverges_records_its_cells_so(world, tmp_path, monkeypatch):
    stage = Stage(budget=Budget(steps=4), corpus=("corpus/*.txt",), recipe={"learning_rate": 1e30})
    monkeypatch.setattr(demo, "SUITE", replace(demo.SUITE, base=stage))
    options = {"models": ("word2vec",), "tasks": ("cola",), "seeds": 1, "baselines": False, "jobs": 1, "threads": 1}
    options |= {"data": world, "out": tmp_path, "budget": Budget(steps=4), "recipe": SHORT, "vocabulary": 300}
    assert asking.run_suite(suite="demo", **options) == CELLS_FAILED
    (found,) = [record.read(path) for path in (tmp_path / "records").glob("*.json")]
    assert found.status == "diverged" and found.pretraining is None
    assert found.reason["text"].startswith(
        "Its pre-training failed: The pre-training that it continues failed: The loss"
    )
