"""Checkpoints given as task teachers, with their own tokenizer: plans, mistakes, and what records contain."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from ptmbench.bench.adapt.distil.targets import taught
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK, NotApplicable, UsageError
from ptmbench.bench.runs import estimate
from ptmbench.bench.runs.artefacts import AdaptedModel
from ptmbench.bench.runs.trainings import GIVEN
from ptmbench.leaderboard import tables
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from tests.bench import asking
from tests.bench.cells import SHORT
from tests.bench.test_distil import GOLD, tagged

NAME = "paper-small"
DISTIL = f"distil:teacher={NAME}"


def imported(folder, tokenizer, name=NAME, seed=0):
    """Writes a checkpoint of random weights in the format of `import`."""
    size = Size(layers=1, width=24, heads=2, inner=48, length=64)
    network = networks.build("bert", size, tokenizer, seed)
    about = dict.fromkeys(("seed", "steps", "tokens", "flops", "seconds", "loss", "corpus_sha256"))
    about |= {"kind": "pretrained", "division": "published", "name": name, "model": "bert", "size": "1x24"}
    about |= {"shape": asdict(size), "corpus": "published", "tokenizer": tokenizer.about}
    arrays = {"weights": networks.weights(network.loss.variables)}
    return checkpoint.write(folder, about=about, arrays=arrays, texts={"tokenizer.json": tokenizer.to_json()})


@pytest.fixture(scope="module")
def given(text, tmp_path_factory):
    return imported(tmp_path_factory.mktemp("given") / "teacher", text.tokenizer)


def test_a_given_teacher_uses_its_own_weights_and_tokenizer(planned, world, given, text, tmp_path):
    options = {"models": ("random-bert",), "adaptations": (DISTIL,), "baselines": False}
    options |= {"tasks": ("sst2",), "settings": {"length": 64}}
    whole = planned(**options, task_teachers=(given.folder,))
    (student,) = whole.cells
    teacher = whole.by_key[student.teacher].cell
    assert not whole.pretrainings and teacher.pretraining == f"{GIVEN}{given.weights_sha256}"
    assert (teacher.who, teacher.row.division, teacher.adaptation) == ("paper-small-1x24", "published", "finetune")
    assert teacher.tokenizer == given.about["tokenizer"]["sha256"] != student.tokenizer

    other = imported(tmp_path / "other", text.tokenizer, seed=1)
    (second,) = planned(**options, task_teachers=(other.folder,)).cells
    assert second.settings == student.settings and second.key != student.key, "its weights are part of the key"

    found = list(estimate.estimates(whole, world, 1e9))
    costs = {one.piece.key: one.flops for one in found}
    (alone,) = planned(**options | {"adaptations": ("distil:alpha=0",)}).cells
    asking_once = costs[student.key] - estimate.cell_cost(alone, world, {}, None, cut=estimate._cut(whole, alone))[1]
    assert isinstance(whole.by_key[student.teacher], AdaptedModel)
    assert 0 < asking_once < costs[student.teacher] / 12, "a row is read forwards and backwards in four epochs"


def test_a_given_teacher_does_not_change_a_row_of_the_same_name_and_size(planned, text, tmp_path):
    """Rows are compared by name, but a given checkpoint of BERT tiny is not the BERT tiny of the run."""
    own = imported(tmp_path / "own", text.tokenizer)
    about = {name: value for name, value in own.about.items() if name not in ("division", "name")}
    arrays, texts = {"weights": own.arrays()}, {"tokenizer.json": text.tokenizer.to_json()}
    own = checkpoint.write(tmp_path / "tiny", about=about | {"size": "tiny"}, arrays=arrays, texts=texts)
    options = {"models": ("bert",), "baselines": False, "tasks": ("sst2",), "settings": {"length": 64}}
    whole = planned(**options, adaptations=("distil:teacher=bert-tiny", "finetune"), task_teachers=(own.folder,))
    (plain,) = planned(**options, adaptations=("finetune",)).cells
    assert plain.key in {one.key for one in whole.cells} and len(whole.pretrainings) == 1
    (teacher,) = {one.teacher for one in whole.cells} - {""}
    assert whole.by_key[teacher].cell.pretraining == f"{GIVEN}{own.weights_sha256}"


def test_mistakes_with_given_teachers_are_rejected(planned, given, text, tmp_path, world):
    options = {"models": ("random-bert",), "baselines": False, "tasks": ("sst2",), "settings": {"length": 64}}
    twin = imported(tmp_path / "twin", text.tokenizer, seed=1)
    for teachers, changes, words in (
        ((given.folder, twin.folder), {}, "are both called paper-small. Leave one of them out, or import it again"),
        ((given.folder,), {"adaptations": ("finetune",)}, "No cell learns from paper-small, .*distil:teacher=paper"),
        ((given.folder,), {"settings": {"length": 96}}, "paper-small in .* at most 64 tokens.* Add --set length=64"),
    ):
        with pytest.raises(UsageError, match=words):
            planned(**{**options, "adaptations": (DISTIL,), **changes}, task_teachers=teachers)
    evaluated = {"checkpoint": given.folder, "data": world, "tasks": ("sst2",), "out": tmp_path / "out"}
    for teachers, words in (((), "bert-mini, and no checkpoint of --task-teacher has this name. Give"),):
        with pytest.raises(UsageError, match=words):
            asking.evaluate(**evaluated, adaptations=("distil:teacher=bert-mini",), task_teachers=teachers)
    with pytest.raises(UsageError, match="this name; there is paper-small. Give"):
        asking.evaluate(**evaluated, adaptations=("distil:teacher=bert-mini",), task_teachers=(given.folder,))


def test_word_level_targets_are_aligned_across_tokenizers():
    """The subwords of three words begin at 2, 3 and 6 in the teacher, and at 1, 2 and 4 in the student."""
    student, teacher = tagged([0, 1, -1, 2]), tagged([0, 1, 2])
    places = np.array([2, 3, 6], np.int32)
    tags = np.full(9, -1, np.int32)
    tags[places] = [0, 1, 2]
    teacher = replace(teacher, arrays={**teacher.arrays, "tags": tags, "places": places})
    teacher_outputs = np.arange(36, dtype=np.float32).reshape(9, 4)
    (row,) = taught([student], [teacher], [teacher_outputs], GOLD, "", 0)
    assert (row.arrays["teacher"].T[student.arrays["places"]] == teacher_outputs[places]).all()
    fewer = replace(teacher, arrays={**teacher.arrays, "places": places[:2]})  # without the third word
    with pytest.raises(NotApplicable, match="see different training examples.*Give both the same settings"):
        taught([student], [fewer], [teacher_outputs], GOLD, "", 0)


def test_a_teacher_may_cut_long_sentences_after_other_words():
    """The student's rows begin at words 0 and 3 of a sentence, the teacher's at words 0, 2 and 4."""
    tags = [0, 1, 2, 1, 0]

    def row(first, end):
        return replace(tagged(tags[first:end]), note=(first, np.arange(1, end - first + 1)))

    student, teacher = [row(0, 3), row(3, 5)], [row(0, 2), row(2, 4), row(4, 5)]
    outputs = [np.arange(32, dtype=np.float32).reshape(8, 4) + 100 * number for number in range(3)]
    found = taught(student, teacher, outputs, GOLD, "", 0)
    said = np.concatenate([one.arrays["teacher"].T[one.arrays["places"]] for one in found])
    expected = [outputs[0][1], outputs[0][2], outputs[1][1], outputs[1][2], outputs[2][1]]
    assert (said == np.stack(expected)).all()
    assert [one.arrays["tags"].tolist() for one in found] == [one.arrays["tags"].tolist() for one in student]
    for others in (teacher[:2], [replace(one, example=1) for one in teacher]):
        with pytest.raises(NotApplicable, match="see different training examples"):
            taught(student, others, outputs[: len(others)], GOLD, "", 0)


@pytest.mark.slow
def test_records_of_students_describe_the_given_teacher(world, given, tmp_path):
    usual = {"data": world, "seeds": 1, "jobs": 1, "threads": 1, "tasks": ("sst2", "conll2003")}
    usual |= {"settings": {"max_steps": 3, "length": 48}, "task_teachers": (given.folder,)}
    out = tmp_path / "run"
    more = {"suite": "demo", "models": ("random-bert",), "sizes": ("tiny",), "baselines": False, "vocabulary": 400}
    assert asking.run_suite(**usual, **more, adaptations=(DISTIL,), recipe=SHORT, budget=Budget(steps=2), out=out) == OK
    found = [record.read(path) for path in (out / "records").glob("*.json")]
    assert len(found) == 2 and {one.status for one in found} == {"ok"}, [one.reason for one in found]
    for one in found:
        about = one.adaptation["teacher"]
        assert (about["name"], about["size"], about["adaptation"]) == (NAME, "1x24", "finetune")
        assert about["pretraining"]["weights_sha256"] == given.weights_sha256 and one.cost["flops_teacher"] > 0
        assert about["pretraining"]["tokenizer"] == given.about["tokenizer"] != one.row["tokenizer"]
        assert "--task-teacher" in one.command

    # The teacher's own rows, and a student with the same tokenizer: the checkpoint teaches itself.
    same = usual | {"tasks": ("sst2",), "checkpoint": given.folder, "suite": "demo"}
    assert asking.evaluate(**same, adaptations=("finetune", DISTIL), out=tmp_path / "own") == OK
    both = (record.read(path) for folder in ("run", "own") for path in (tmp_path / folder / "records").glob("*.json"))
    board = tables.compression(list(both))
    kept = board[board["adaptation"].str.startswith("distil")]
    assert kept["compared with"].str.contains(NAME).all(), board.to_string()
    retained = kept[kept["task"].str.startswith("SST-2")]["retention %"]
    assert len(retained) == 2 and retained.notna().all(), board.to_string()
