"""Unlabelled examples of a student: how they are drawn, their answers from the teacher, cells, costs and records."""

from dataclasses import replace

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench.adapt import mtdnn, settings
from ptmbench.bench.adapt.distil import Own
from ptmbench.bench.adapt.distil.targets import taught
from ptmbench.bench.adapt.effort import Split
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.examples import parts_of, parts_to_tune
from ptmbench.bench.runs.teachers import AdaptedTeacher
from tests.bench.cells import check_resumed, make
from tests.bench.test_distil import GOLD, classified, tagged

UNLABELLED = [replace(example, gold=None) for example in GOLD]


def parts(world, task="sst2", **changes):
    asked = make(task, "bert", "distil", **changes)
    return parts_of(asked, world, tasks.load(task), settings.read("distil", asked.settings))


@pytest.mark.parametrize("task", ["sst2", "conll2003", "stsb"])
def test_unlabelled_examples_are_training_examples_beyond_the_limit(world, task):
    whole, plain = parts(world, task), parts(world, task, train_limit=12)
    found = parts(world, task, train_limit=12, unlabelled=10)
    assert found._replace(unlabelled=()) == plain, "the labelled examples stay the same"
    assert len(found.unlabelled) == 10 and {one.gold for one in found.unlabelled} == {None}
    texts = {example.id: example.inputs for example in whole.train}
    assert all(texts.pop(example.id) == example.inputs for example in (*found.train, *found.unlabelled))
    assert found == parts(world, task, train_limit=12, unlabelled=10)
    assert found.unlabelled != parts(world, task, train_limit=12, unlabelled=10, seed=1).unlabelled
    rest = parts(world, task, train_limit=12, unlabelled=1000)
    assert len(rest.unlabelled) == len(whole.train) - 12, "all that are left"


def test_a_trial_of_tuning_draws_unlabelled_examples_too(world):
    asked = make("sst2", "bert", "distil", train_limit=12, unlabelled=10)
    found = parts_to_tune(asked, world, tasks.load("sst2"), settings.read("distil", asked.settings), 100)
    assert len(found.unlabelled) == 10
    assert not {e.id for e in found.unlabelled} & {e.id for e in (*found.train, *found.selection, *found.report)}


def test_without_examples_beyond_the_limit_the_cell_is_not_applicable(context):
    found = cells.run(make("sst2", "bert", "distil", unlabelled=10), context)
    assert found.status == "not_applicable"
    told = "because all 44 training examples of SST-2 are used with their labels. Set a lower train_limit."
    assert found.reason == {"code": "no-unlabelled-examples", "text": told}


def test_the_teacher_answers_for_unlabelled_texts():
    rows = [classified(1, 0), classified(-1, 1), classified(-1, 2, (2, 3))]
    outputs = [np.float32(numbers) for numbers in ([5, 1, 0, 0], [3, 2, 0, 0], [9, 0, 1, 2])]
    one, two, three = taught(rows, rows, outputs, [GOLD[0], *UNLABELLED[1:3]], "", 0)
    assert (one.arrays["label"], two.arrays["label"], three.arrays["label"]) == (1, 0, 3), "3 is among the answers"
    assert [row.arrays["teacher"].tolist() for row in (one, two, three)] == [list(output) for output in outputs]

    scores = [InputRow({"score": np.float32(one)}, number) for number, one in enumerate((0.25, 0.0))]
    one, two = taught(scores, scores, [[1.5], [-2.0]], [GOLD[0], UNLABELLED[1]], "", 0)
    assert (one.arrays["score"], two.arrays["score"]) == (0.25, -2.0)


def test_the_teacher_tags_the_words_of_unlabelled_sentences():
    sentence = tagged([0, 0, 0])
    arrays = sentence.arrays | {"tags": np.full(5, -1, np.int32)}
    row, output = replace(sentence, arrays=arrays), np.zeros((8, 4), np.float32)
    output[[1, 2, 3], [2, 0, 1]] = 1.0
    (found,) = taught([row], [row], [output], UNLABELLED[:1], "", 0)
    assert found.arrays["tags"].tolist() == [-1, 2, 0, 1, -1]
    assert row.arrays["tags"].tolist() == [-1] * 5, "the given row is not changed"


def test_unlabelled_texts_are_shuffled_within_the_predicted_class():
    rows = [classified(i % 2 if i < 10 else -1, i) for i in range(30)]
    outputs = [np.float32([i % 2 == 0, i % 2 == 1, i, i]) for i in range(30)]
    given = taught(rows, rows, outputs, [*GOLD[:10], *UNLABELLED[10:]], "labels", 0)
    sources = [int(row.arrays["teacher"][2]) for row in given]
    assert sorted(sources) == list(range(30)) != sources
    assert all(source % 2 == number % 2 for number, source in enumerate(sources))
    assert [int(row.arrays["label"]) for row in given] == [i % 2 for i in range(30)]


def test_settings_and_estimates_with_unlabelled_examples():
    assert "unlabelled" not in settings.recorded(Own()), "older cells keep their keys"
    assert Own(unlabelled=5, alpha=0).of("sst2").unlabelled == 0, "no teacher"
    split, own = Split(100, 2.0, 20.0), Own(train_limit=30, unlabelled=50, epochs=3)
    assert own.teacher_rows(split) == 2 * 80 and own.rows_trained_on(split) == 3 * 2 * 80
    assert replace(own, unlabelled=90).teacher_rows(split) == 2 * 100, "no more than there are"
    assert replace(own, augment=1, augment_by="copies").teacher_rows(split) == 2 * 2 * 80
    with pytest.raises(settings.SettingError, match="unlabelled=5 is not valid.*no texts are added"):
        settings.changed(mtdnn.Own(), {"unlabelled": 5})


def with_teacher(context, task):
    """Returns ``context`` with a teacher of ``task``, fine-tuned on 12 examples."""
    cells.adapt(replace(make(task, "bert", "finetune", train_limit=12), limit=48), context)
    (adapted,) = (context.out / "adapted").iterdir()
    return replace(context, teacher=AdaptedTeacher(adapted=checkpoint.read(adapted), weights=None, about={}))


def test_a_student_of_unlabelled_texts_resumes_and_records_its_cost(context, monkeypatch):
    context = with_teacher(context, "sst2")
    few = {"train_limit": 12, "batch": 4, "epochs": 2}
    found = check_resumed(
        make("sst2", "bert", "distil", unlabelled=20, **few),
        context,
        7,
        monkeypatch,
        "flops_teacher",
        "unlabelled_examples",
    )
    plain = cells.run(make("sst2", "bert", "distil", **few), context)
    assert found.cost["unlabelled_examples"] == 20 and "unlabelled_examples" not in plain.cost
    assert (found.cost["steps"], plain.cost["steps"]) == (2 * 8, 2 * 3)
    assert found.cost["flops_teacher"] > 2 * plain.cost["flops_teacher"]
    assert found.adaptation["settings"]["unlabelled"] == 20


@pytest.mark.parametrize(("task", "adaptation"), [("conll2003", "distil"), ("stsb", "distil"), ("sst2", "pkd")])
def test_forms_and_adaptations_with_unlabelled_examples(context, task, adaptation):
    context = with_teacher(replace(context, shape=replace(context.shape, layers=2)), task)
    asked = make(task, "bert", adaptation, train_limit=12, unlabelled=20, batch=4, shuffle="examples")
    found = cells.run(asked, context)
    assert found.status == "ok", found.reason
    assert found.cost["unlabelled_examples"] == 20 and found.cost["steps"] >= 8
