"""Pre-training with a teacher: planning, training, resuming and recording."""

import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import CheckpointError
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.runs import counted, pretrain, run, teachers
from ptmbench.bench.runs.artefacts import Given
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import intact
from ptmbench.bench.runs.suites import Stage, demo
from ptmbench.bench.runs.trainings import GIVEN
from ptmbench.bench.runs.work import Worker
from ptmbench.leaderboard import tables
from ptmbench.leaderboard.page import sheets
from ptmbench.leaderboard.records import record
from ptmbench.leaderboard.scores import frames
from ptmbench.models.text.tokenizers import Tokenizer
from tests.bench import asking
from tests.bench.cells import SHORT, train
from tests.bench.processes import PATIENCE, ROOT, check_killed_again_and_again, made_text, start, states, wait_for
from tests.bench.test_schedule import BERT, CELLS, WORDS, pretraining

STUDENT = pretraining("distilbert", teacher=BERT.key)


@pytest.fixture(scope="module")
def teacher(text, tmp_path_factory):
    return train("bert", text, tmp_path_factory.mktemp("teacher") / "teacher")


@pytest.fixture(scope="module")
def student(text, teacher, tmp_path_factory):
    return train("distilbert", text, tmp_path_factory.mktemp("student") / "student", teacher=teacher)


# In the plan ---------------------------------------------------------------------------------------------------------


def test_a_teacher_is_a_dependency_and_part_of_the_key():
    assert STUDENT.needs == (WORDS.key, BERT.key) and STUDENT.relation(BERT.key) == "Its teacher"
    assert STUDENT.relation(WORDS.key) == "Its tokenizer"
    assert len({STUDENT.key, pretraining("distilbert").key, replace(STUDENT, teacher="checkpoint:x").key}) == 3
    plan = Plan((STUDENT, BERT, WORDS))
    assert [one.key for one in plan.artefacts] == [WORDS.key, BERT.key, STUDENT.key]
    assert Plan.from_json(plan.to_json()) == plan


def test_a_student_fails_if_its_teacher_failed(tmp_path):
    cell = replace(CELLS[0], pretraining=STUDENT.key)
    plan = Plan((WORDS, BERT, STUDENT, cell))
    worker = Worker(tmp_path, plan, Job(data="", source={}, command="run", keep=False, length=32))
    worker.give_up(BERT, {"code": "worker-died", "text": "Two workers died."})
    assert worker.do(STUDENT.key).endswith("Its teacher failed: Two workers died.")
    worker.do(cell.key)
    found = record.read(cell.place(tmp_path))
    assert found.reason["text"] == "Its pre-training failed: Its teacher failed: Two workers died."


@pytest.fixture
def planned(world, tmp_path, monkeypatch):
    """Returns a function that calls `run_suite` and returns its plan before any work begins."""

    def plans(**options):
        found = []
        monkeypatch.setattr(run, "execute", lambda whole, *_: found.append(whole) or OK)
        usual = {"suite": "demo", "models": ("distilbert",), "tasks": ("cola",), "seeds": 1, "vocabulary": 300}
        usual |= {"data": world, "out": tmp_path, "budget": Budget(steps=2), "recipe": SHORT}
        assert asking.run_suite(**(usual | options)) == OK
        return found[0]

    return plans


@pytest.mark.parametrize("size", ["tiny", "mini", "small", "base"])
def test_the_planned_teacher_equals_the_pretraining_of_its_own_row(planned, size):
    whole = planned(sizes=(size,))
    first, second = whole.pretrainings
    assert (first.model, first.size, second.model, second.size) == ("bert", size, "distilbert", size)
    assert second.teacher == first.key and not first.teacher and not second.base
    (alone,) = planned(models=("bert",), sizes=(size,)).pretrainings
    assert alone == first
    both = planned(models=("bert", "distilbert"), sizes=(size,))
    assert {one.key for one in both.pretrainings} == {first.key, second.key}
    assert {cell.pretraining for cell in whole.cells if cell.row.name == "distilbert"} == {second.key}
    assert not any(cell.row.name == "bert" for cell in whole.cells)


def test_each_stage_of_a_student_has_the_teacher_of_the_same_stage(planned, monkeypatch):
    stage = Stage(budget=Budget(steps=7), corpus=("glue/*/*.tsv",))
    monkeypatch.setattr(demo, "SUITE", replace(demo.SUITE, base=stage))
    found = {(one.model, one.budget.steps): one for one in planned().pretrainings}
    assert len(found) == 4
    assert found["distilbert", 7].teacher == found["bert", 7].key
    assert found["distilbert", 2].teacher == found["bert", 2].key
    assert found["distilbert", 2].base == found["distilbert", 7].key and found["bert", 2].base == found["bert", 7].key


def test_texts_of_the_teacher_count_as_training_data():
    other = replace(BERT, corpus_sha256="y")
    same = Plan((WORDS, BERT, STUDENT))
    assert [one.key for one in counted._stages(same, STUDENT.key)] == [STUDENT.key]  # both have the same corpus
    words = replace(WORDS, corpus_sha256="y")
    student = replace(STUDENT, teacher=other.key)
    texts = counted._stages(Plan((WORDS, words, other, student)), student.key)
    assert [one.corpus_sha256 for one in texts] == ["x", "y"]
    given = Given(key=f"{GIVEN}z", path="z")
    student = replace(STUDENT, teacher=given.key)
    assert not counted._stages(Plan((WORDS, given, student)), student.key)  # its corpus is unknown


# Given teachers ------------------------------------------------------------------------------------------------------


def test_a_run_accepts_a_teacher_checkpoint(planned, teacher):
    usual = {"vocabulary": None, "teachers": (teacher.folder,), "recipe": SHORT}
    whole = planned(**usual)
    (only,) = whole.pretrainings
    given, cut = whole.by_key[only.teacher], whole.by_key[only.tokenizer_key]
    assert isinstance(given, Given) and given.path == str(teacher.folder)
    assert cut.path == str(teacher.folder / "tokenizer.json")
    with pytest.raises(UsageError, match=r"cannot teach distilbert mini: its layers is 2 and not 4, width is 128 and"):
        planned(**usual, sizes=("mini",))
    with pytest.raises(UsageError, match="No model of this run learns from .*, which is bert tiny. Choose its student"):
        planned(**usual, models=("gpt",), dry_run=True)
    with pytest.raises(UsageError, match="--tokenizer wordpiece, not bpe"):
        planned(**usual, tokenizer="bpe")
    options = asking.options(asking.RunOptions, suite="demo", teachers=(teacher.folder,))
    assert f"--teacher {teacher.folder}" in options.command()


def test_checkpoints_with_different_tokenizers_are_rejected(planned, text, teacher, tmp_path):
    other = Tokenizer.load(corpora.tokenizer(text.files, "wordpiece", 200))
    corpus = corpora.load(tuple(map(str, text.files)), other)
    second = train("bert", text, tmp_path / "second", tokenizer=other, corpus=corpus)
    with pytest.raises(UsageError, match="The checkpoints of --teacher have different tokenizers"):
        planned(vocabulary=None, teachers=(teacher.folder, second.folder))
    with pytest.raises(UsageError, match="The checkpoints of --base and --teacher have different tokenizers"):
        planned(vocabulary=None, models=("bert",), bases=(second.folder,), teachers=(teacher.folder,))
    with pytest.raises(CheckpointError, match=r"another tokenizer \(wordpiece of .* Teach over its own"):
        train("distilbert", text, tmp_path / "student", teacher=second)


def test_pretrain_accepts_and_requires_a_teacher(text, teacher, student, tmp_path):
    usual = {"model": "distilbert", "corpus": text.files, "budget": Budget(steps=2), "recipe": SHORT}
    usual |= {"out": tmp_path / "out"}
    with pytest.raises(
        UsageError, match=r"distilbert tiny learns from a teacher, bert tiny. .* with --teacher, or use"
    ):
        asking.pretrain(**usual)
    with pytest.raises(UsageError, match="bert learns without a teacher. Leave --teacher out"):
        asking.pretrain(**(usual | {"model": "bert"}), teachers=(teacher.folder,))
    with pytest.raises(UsageError, match="it is distilbert, and the teacher is bert. Give a checkpoint of that model"):
        asking.pretrain(**usual, teachers=(student.folder,))
    with pytest.raises(UsageError, match=r"its layers is 2 and not 4, .*heads is 2 and not 4"):
        asking.pretrain(**usual, size="mini", teachers=(teacher.folder,))
    with pytest.raises(UsageError, match=r"its length is 512 and not 600"):
        asking.pretrain(**(usual | {"recipe": {"batch": 4, "length": 600}}), teachers=(teacher.folder,))
    with pytest.raises(UsageError, match="A pre-training has one teacher. Give --teacher once"):
        asking.pretrain(**usual, teachers=(teacher.folder, teacher.folder))
    with pytest.raises(UsageError, match="more than --vocabulary 100. Leave --vocabulary out"):
        asking.pretrain(**usual, teachers=(teacher.folder,), vocabulary=100)
    assert asking.pretrain(**usual, teachers=(teacher.folder,)) == OK
    about = checkpoint.read(tmp_path / "out").about
    assert about["tokenizer"] == teacher.about["tokenizer"] and about["including"]["steps"] == 5
    assert about["teacher"]["weights_sha256"] == teacher.weights_sha256


def test_a_teacher_with_a_random_head_is_rejected(text, teacher, tmp_path):
    """A published BERT may have been saved without its head."""
    headless = replace(teacher, about={**teacher.about, "afresh": ["mlm/transform/kernel", "mlm/output_bias"]})
    with pytest.raises(CheckpointError, match="imported without mlm/transform/kernel, mlm/output_bias, whose weights"):
        train("distilbert", text, tmp_path / "out", teacher=headless)
    headless = replace(teacher, about={**teacher.about, "afresh": ["encoder/pooler/kernel", "nsp/scores/kernel"]})
    assert teachers.mistake(headless, "distilbert", "tiny", 32) == ""  # the student does not use them
    with pytest.raises(CheckpointError, match="distilbert tiny learns from a teacher, bert tiny. Give its checkpoint"):
        train("distilbert", text, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_teacher_size_that_does_not_exist_is_rejected(monkeypatch):
    module = models.load("distilbert")
    monkeypatch.setattr(module, "TEACHER", replace(module.TEACHER, size=lambda size: replace(size, embedding=99)))
    with pytest.raises(
        models.BrokenModel, match=r"distilbert.py: TEACHER.size gives Size\(.*embedding=99.*not a size of bert"
    ):
        teachers.of("distilbert", "tiny")


def test_a_circle_of_teachers_is_rejected(monkeypatch, text, tmp_path):
    """For a model of the circle, and for a model outside that learns from it."""
    student, bert = models.load("distilbert"), models.load("bert")
    monkeypatch.setattr(bert, "TEACHER", replace(student.TEACHER, model="distilbert"), raising=False)
    monkeypatch.setattr(models.load("albert"), "TEACHER", student.TEACHER, raising=False)
    circle = "bert, which learns from distilbert, which learns from bert"
    for name, told in (("albert", circle), ("distilbert", "bert, which learns from distilbert")):
        with pytest.raises(
            models.BrokenModel, match=f"{name}.py: TEACHER leads in a circle: {name} learns from {told}"
        ):
            models.teacher(name)
    options = {"models": ("distilbert",), "baselines": False, "corpus": text.files, "tasks": ("sst2",)}
    with pytest.raises(models.BrokenModel, match="leads in a circle"):
        asking.run_suite(suite="demo", data=tmp_path, out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


# Trained -------------------------------------------------------------------------------------------------------------


def test_a_student_starts_from_its_teacher_and_does_not_change_it(text, teacher, student, tmp_path):
    still = train(
        "distilbert", text, tmp_path / "still", teacher=teacher, recipe=recipe_of({**SHORT, "learning_rate": 0.0})
    )
    theirs, ours = teacher.arrays(), student.arrays()
    for name, value in still.arrays().items():
        assert np.array_equal(value, theirs[name]), name  # one layer, the teacher's first
    network = networks.build("distilbert", networks.sized(models.load("distilbert"), "tiny", 32), text.tokenizer, 0)
    assert ours.keys() == {variable.path for variable in network.loss.variables}
    assert all(not np.array_equal(value, theirs[name]) for name, value in ours.items())
    assert checkpoint.read(teacher.folder).arrays().keys() == theirs.keys()  # the seal is still valid


def test_the_cost_of_the_teacher_is_recorded_and_counted(teacher, student):
    told, module = student.about["teacher"], models.load("distilbert")
    assert (told["model"], told["size"], told["steps"]) == ("bert", "tiny", 3)
    assert told["weights_sha256"] == teacher.weights_sha256 and told["flops"] == teacher.about["flops"]
    for name in ("steps", "tokens", "flops", "seconds"):
        assert student.about["including"][name] == pytest.approx(student.about[name] + teacher.about[name])
    words, shape = Tokenizer.load(student.path("tokenizer.json")).vocabulary, networks.sized(module, "tiny", 32)
    described = module.describe(shape, words)
    forward = described.teacher.forward_flops(32)
    assert student.about["flops"] == 3 * 4 * (3 * described.forward_flops(32) + forward) and forward > 0


def test_an_equal_flops_budget_gives_a_student_fewer_steps(text, teacher, tmp_path):
    module, words = models.load("distilbert"), text.tokenizer.vocabulary
    described = module.describe(networks.sized(module, "tiny", 32), words)
    alone = 4 * 3 * described.forward_flops(32)
    made = train("distilbert", text, tmp_path / "out", teacher=teacher, budget=Budget(flops=10 * alone))
    assert made.about["steps"] == int(10 * alone / (alone + 4 * described.teacher.forward_flops(32))) < 10
    assert made.about["flops"] <= 10 * alone


def test_training_does_not_resume_with_another_teacher(text, teacher, tmp_path):
    other = train("bert", text, tmp_path / "other", seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrain, "check_finished", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train("distilbert", text, tmp_path / "out", teacher=teacher, save_every=0.0)
    state = checkpoint.newest_intact(tmp_path / "out.training", print)
    assert state[1]["weights"].keys() == {*train("distilbert", text, tmp_path / "whole", teacher=teacher).arrays()}
    with pytest.raises(UsageError, match="holds the training state of another run: teacher is"):
        train("distilbert", text, tmp_path / "out", teacher=other)


def test_a_teacher_shared_with_the_base_is_counted_once(text, teacher, student, tmp_path):
    second = train("distilbert", text, tmp_path / "second", teacher=teacher, base=student, budget=Budget(steps=2))
    assert second.about["including"]["steps"] == 3 + 3 + 2
    assert {second.about[role]["model"] for role in ("base", "teacher")} == {"distilbert", "bert"}


@pytest.mark.slow
def test_soft_targets_of_a_trained_teacher_help_more_than_random_ones(text, tmp_path):
    """Both students start with the weights of the trained teacher."""
    from ptmbench.bench.engine.step import TrainStep

    recipe = recipe_of({"batch": 16, "length": 32})
    trained = train("bert", text, tmp_path / "trained", budget=Budget(steps=150), recipe=recipe)
    still = recipe_of({"batch": 16, "length": 32, "learning_rate": 0.0})
    untrained = train("bert", text, tmp_path / "untrained", budget=Budget(steps=1), recipe=still)
    shape, ends = networks.sized(models.load("distilbert"), "tiny", 32), []
    for taught_by in (trained, untrained):
        first, other = (teachers.build_network(one, 0) for one in (trained, taught_by))
        student = networks.build("distilbert", shape, text.tokenizer, 0, teacher=first)
        student.loss.teacher = other
        other.loss.trainable = False
        step = TrainStep(student.loss, student.loss.trainable_variables)
        make = student.batches(text.corpus, 16, 32)
        for number in range(80):
            step(make(number, 0), (0, number), 2e-3 * min(1.0, (80 - number) / 40))
        ends.append(np.mean([float(student.loss(make(1000 + number, 0))["mlm_loss"]) for number in range(10)]))
    assert ends[0] < ends[1] - 0.1, ends


# On the board --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_records_and_board_name_the_teacher(world, tmp_path):
    usual = {"suite": "demo", "data": world, "models": ("distilbert", "bert"), "baselines": False, "jobs": 1}
    usual |= {"tasks": ("sst2",), "seeds": 1, "budget": Budget(steps=3), "out": tmp_path, "vocabulary": 300}
    usual |= {"settings": {"max_steps": 3, "length": 32}, "recipe": SHORT, "threads": 1}
    assert asking.run_suite(**usual) == OK
    found = {one.row["name"]: one for one in map(record.read, (tmp_path / "records").glob("*.json"))}
    student, teacher = (found[name].pretraining for name in ("distilbert", "bert"))
    assert student["teacher"]["weights_sha256"] == teacher["weights_sha256"] and "teacher" not in teacher
    assert student["including"]["steps"] == 6 and len(list((tmp_path / "pretrained").glob("*"))) == 2
    lines = {line["model"]: line for line in frames.records(found.values()).to_dict("records")}
    assert lines["distilbert"]["flops_pretrain"] == student["flops"] + teacher["flops"]
    (words,) = sheets._pretraining([found["distilbert"]])
    assert words.endswith(f"taught by bert tiny, weights {teacher['weights_sha256'][:12]}")
    page = (tmp_path / "board" / "index.html").read_text()
    assert words in page
    card = found["distilbert"].row["card"]
    assert (card["extensions"], card["layers"]) == (["distillation"], "6")
    (line,) = tables.table_3([found["distilbert"]]).to_dict("records")
    assert line["method"] == "DistilBERT"
    about = found["distilbert"].cost
    module = models.load("distilbert")
    vocabulary = Tokenizer.load(next((tmp_path / "tokenizers").glob("*"))).vocabulary
    parameters, _ = module.describe(module.SIZES["tiny"], vocabulary).parameters()
    assert about["parameters"] < parameters + 10_000  # the teacher's parameters are not counted


# Real processes ------------------------------------------------------------------------------------------------------


@pytest.mark.sweep
def test_repeated_kills_do_not_change_the_weights_of_a_student(tmp_path):
    text = made_text(tmp_path / "corpus.txt")
    assert start(text, tmp_path / "teacher", "--steps", "20").wait(timeout=PATIENCE) == 0
    more = ("--teacher", str(tmp_path / "teacher"), "--steps", "200")

    def begin(out, *further):
        return start(text, out, *more, *further, model="distilbert")

    out = check_killed_again_and_again(begin, tmp_path, 3)
    assert checkpoint.read(out).about["including"]["steps"] == 220


SCRIPT = """
import sys
from pathlib import Path
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.options import CellOptions, OutputOptions, RunOptions, TrainingOptions, WorkerOptions
from ptmbench.bench.runs.run import run_suite

sys.exit(run_suite(RunOptions(
    suite="demo", data=Path(sys.argv[1]), models=("distilbert",), baselines=False,
    cells=CellOptions(tasks=("sst2",), seeds=1, settings={"length": 32, "batch": 4, "max_steps": 5}),
    training=TrainingOptions(budget=Budget(steps=60), recipe={"batch": 4, "length": 32}, vocabulary=300),
    workers=WorkerOptions(jobs=2, threads=1),
    output=OutputOptions(out=Path(sys.argv[2]), save_every=float(sys.argv[3])),
)))
"""


@pytest.mark.slow
def test_kills_during_teacher_and_student_training_do_not_change_the_record(world, tmp_path):
    """With two workers, the student starts only after its teacher has finished."""
    log = tmp_path / "log"

    def begin(out, save_every="600"):
        with open(log, "w") as file:
            return subprocess.Popen([sys.executable, "-c", SCRIPT, world, out, save_every], cwd=ROOT, stderr=file)

    assert begin(tmp_path / "straight").wait(timeout=PATIENCE) == OK, log.read_text()
    whole = Plan.from_json((tmp_path / "straight" / "plan.json").read_text())
    first, second = whole.pretrainings
    assert (first.model, second.model) == ("bert", "distilbert")
    out = tmp_path / "killed"
    for one, made in ((first, []), (second, [first])):
        process = begin(out, "0.01")
        wait_for(lambda one=one, process=process: states(one.place(out)) or process.poll() is not None)
        assert made or not states(second.place(out))
        process.kill()
        assert process.wait() == -signal.SIGKILL, log.read_text()
        time.sleep(1.5)  # its worker sees the pipe close and stops
        assert [piece.key for piece in made] == [piece.key for piece in whole.pretrainings if intact(out, piece)]
    assert begin(out).wait(timeout=PATIENCE) == OK, log.read_text()
    found = [record.read(next((folder / "records").iterdir())) for folder in (tmp_path / "straight", out)]
    assert found[0].scores == found[1].scores and found[0].key == found[1].key
    for name in ("weights_sha256", "loss", "steps"):
        assert found[0].pretraining[name] == found[1].pretraining[name]
    assert found[0].pretraining["teacher"]["weights_sha256"] == found[1].pretraining["teacher"]["weights_sha256"]
