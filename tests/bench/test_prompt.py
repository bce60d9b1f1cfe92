"""Prompting: rows, the choice of an answer, plans, and whole cells."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import channels
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.prompt import Own
from ptmbench.bench.adapt.prompt import network as prompt
from ptmbench.bench.data import corpora
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.combinations import Combinations
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load, microworld
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example

TEXTS = ["a fine film , it is good .", "a dull film , it is bad .", "the man fell because so he was ill ."] * 3
TOKENIZER = Tokenizer.train("word", TEXTS, 200)
SHOWN = [
    Example(id="0", inputs=("a fine film",), gold="1"),
    Example(id="1", inputs=("a dull film",), gold="0"),
    Example(id="2", inputs=("no label",)),
]


def decode(row):
    pieces = TOKENIZER.pieces(row.ids)
    return " ".join(pieces[: row.begin]), " ".join(pieces[row.begin :])


def rows(task, examples, train=(), seed=0, **changes):
    return prompt.rows(load(task), TOKENIZER, Own(**changes), train, examples, seed)


def test_zero_shot_rows_are_the_question_and_one_answer():
    actual = rows("sst2", [Example(id="0", inputs=("a fine film ,",))], SHOWN)
    assert [decode(row) for row in actual] == [("a fine film , it is", "bad"), ("a fine film , it is", "good")]
    assert [(row.example, row.answer) for row in actual] == [(0, 0), (0, 1)]


def test_choices_are_used_as_answers():
    actual = rows("copa", [Example(id="0", inputs=("the man fell because", "he was ill .", "so"), gold=0)])
    assert [decode(row) for row in actual] == [("the man fell because", "he was ill ."), ("the man fell because", "so")]


def test_labels_are_the_answers_of_tasks_without_words():
    task = SimpleNamespace(form=Form.CLASSIFICATION, words=(), labels=("not_entailment", "other"), prompt="")
    example = Example(id="0", inputs=("One.", "Two."), gold="not_entailment")
    assert [answer.text for answer in prompt.answers(task, example)] == ["not entailment", "other"]
    assert channels.spelled(prompt.solved(task, example)) == "One. Two. not entailment."


def test_solved_examples_precede_the_question_and_depend_on_the_seed():
    questions = [Example(id="0", inputs=("a film",))] * 8
    one = {decode(row)[0] for row in rows("sst2", questions, SHOWN, shots=1)}
    fine, dull = "a fine film it is good . ", "a dull film it is bad . "
    assert one == {fine + "a film it is", dull + "a film it is"}  # sampled for each question
    five_shot = {decode(row)[0] for row in rows("sst2", questions, SHOWN, shots=5)}
    assert five_shot == {fine + dull + "a film it is", dull + fine + "a film it is"}  # all examples with a label
    again, same, other = ([row.ids for row in rows("sst2", questions, SHOWN, shots=1, seed=seed)] for seed in (0, 0, 1))
    assert again == same != other


def test_long_prompts_lose_whole_examples_and_then_their_beginning():
    questions = [Example(id="0", inputs=("a film",))]
    # The question and an answer are 5 tokens, an example is 7; one position is for [CLS].
    assert len(rows("sst2", questions, SHOWN, shots=2, length=20)[0].ids) == 19
    assert len(rows("sst2", questions, SHOWN, shots=2, length=19)[0].ids) == 12
    assert [decode(row) for row in rows("sst2", questions, SHOWN, shots=2, length=4)] == [
        ("it is", "bad"),
        ("it is", "good"),
    ]


def test_a_short_answer_is_not_truncated_with_a_long_one():
    questions = [Example(id="0", inputs=("the man fell because", "so", "he was ill " * 4), gold=0)]
    actual = [decode(row) for row in rows("copa", questions, length=9)]
    assert actual == [("", "so"), ("", "was ill he was ill he was ill")]  # the last 8 tokens; one position is for [CLS]
    network = SimpleNamespace(log_likelihood=lambda batch: -tf.cast(batch["tokens"] > 0, tf.float32))
    scored_rows = rows("copa", questions, length=9)
    assert prompt.predictions(network, "x", load("copa"), TOKENIZER, Own(length=9), scored_rows, 1) == [0]


def predict_with(values, **changes):
    """Predictions of a language model in which the piece p has the probability exp(values[p]) at every position."""
    table = np.full(TOKENIZER.vocabulary.size, -9.0, np.float32)
    for word, value in values.items():
        table[TOKENIZER.encode([word])[0][0]] = value
    table[0] = 0.0
    network = SimpleNamespace(log_likelihood=lambda batch: tf.gather(tf.constant(table), batch["tokens"]))
    task, settings = load("copa"), Own(batch=3, **changes)
    examples = [
        Example(id="0", inputs=("the man fell because", "he was ill", "so")),
        Example(id="1", inputs=("the man", "ill", "was")),
        Example(id="2", inputs=("the man", "he", "he")),
    ]
    actual = prompt.rows(task, TOKENIZER, settings, [], examples, 0)
    return prompt.predictions(network, "x", task, TOKENIZER, settings, actual, len(examples))


def test_the_likeliest_answer_is_predicted_by_mean_or_sum():
    values = {"he": -1.0, "was": -1.0, "ill": -1.0, "so": -2.0}
    assert predict_with(values) == [0, 0, 0]  # means -1 and -2; the first of equal answers wins
    assert predict_with(values, per_token=0) == [1, 0, 0]  # sums -3 and -2
    assert predict_with(values | {"ill": -1.5}) == [0, 1, 0]


def test_unsuitable_tasks_and_models_are_not_applicable():
    with pytest.raises(NotApplicable, match="because a regression task has no list of candidate answers"):
        rows("stsb", [Example(id="0", inputs=("a", "b"))])
    with pytest.raises(NotApplicable, match="because BERT gives no probability of an answer"):
        prompt.predictions(SimpleNamespace(log_likelihood=None), "BERT", load("sst2"), TOKENIZER, Own(), [], 0)


@pytest.mark.parametrize("shots, count", [(0, 1), (4, 3)])
def test_few_shot_cells_have_every_seed_and_keys_depend_on_the_shots(shots, count):
    def plan_cells(adaptation, **settings):
        row = Row.parse("gpt", "tiny")
        combinations = Combinations(
            adaptations=[adaptation],
            seeds=[0, 1, 2],
            data_sha256={"sst2": "x"},
            pretraining_of={},
            tokenizer="x",
            settings=settings,
        )
        return combinations.cells([row], [load("sst2")])

    actual = plan_cells("prompt", shots=shots)
    assert len(actual) == count and actual[0].settings["shots"] == shots
    assert actual[0].key != plan_cells("prompt", shots=9)[0].key
    assert "shots" not in plan_cells("finetune")[0].settings


def test_every_classification_task_has_a_word_for_each_label_and_a_prompt():
    for name in ("sst2", "cola", "rte", "mnli", "mnli_mm", "ax", "qnli", "mrpc", "qqp", "wnli"):
        task = load(name)
        assert len(set(task.words)) == len(task.labels), name
        texts = ("{braces} stay", "second")[: 1 + ("{1}" in task.prompt)]
        assert all(text in task.prompt.format(*texts) for text in texts), name


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    folder = tmp_path_factory.mktemp("microworld")
    microworld.make(folder / "data")
    tokenizer = Tokenizer.load(corpora.tokenizer([folder / "data" / "corpus"], "wordpiece", 400))
    shape = Size(layers=1, width=32, heads=2, inner=64, length=96)
    return Context(data=folder / "data", out=folder, shape=shape, tokenizer=tokenizer, source={"name": "x"})


@pytest.mark.parametrize(
    "task, model, status", [("sst2", "gpt", "ok"), ("copa", "gpt2", "ok"), ("sst2", "bert", "not_applicable")]
)
def test_cells_produce_a_sealed_record(context, task, model, status):
    settings = adaptation_settings.changed(adaptation_settings.defaults(load(task).form, "prompt"), {"shots": 2})
    cell = Cell(
        row=Row(name=f"random-{model}", kind="random", model=model, size="tiny"),
        task=task,
        task_version=1,
        form=load(task).form,
        data_sha256="x",
        adaptation="prompt",
        settings=adaptation_settings.recorded(settings),
        seed=0,
        tokenizer="x",
        limit=24,
    )
    result = cells.run(cell, context)
    assert result.status == status, result.reason
    actual = record.read(record.write(context.out, result))
    assert actual.adaptation["settings"]["shots"] == 2
    if status == "ok":
        assert actual.cost["steps"] == 0 and actual.cost["flops"] == 0 and actual.cost["flops_evaluate"] > 0
        assert 0 <= actual.headline["value"] <= 100
        assert cells.run(cell, context).predictions["sha256"] == result.predictions["sha256"]
