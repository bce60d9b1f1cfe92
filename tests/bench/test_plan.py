"""Plans: their cells, and what the keys depend on."""

import dataclasses

import pytest

from ptmbench import tasks
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.settings import SettingError, Settings
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import digest
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs import plan
from ptmbench.bench.runs.artefacts import VERSION, AdaptedModel, Given, Row
from ptmbench.bench.runs.combinations import Combinations
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.trainings import Pretraining, TokenizerTraining

COLA, CONLL, WIKI = tasks.load("cola"), tasks.load("conll2003"), tasks.load("wikitext2")


WORDS = TokenizerTraining(tokenizer="wordpiece", vocabulary=1000, corpus=("a.txt",), corpus_sha256="c")


FIRST = ("row", "task", "task_version", "form", "data_sha256", "adaptation", "settings", "seed", "tokenizer")
FIRST += ("pretraining", "limit")
"""The fields of cells in the first version. Later fields do not change the keys of cells that do not use them."""


def first_key(cell):
    """The expected key of a ``cell`` that uses no later field except the version of its adaptation."""
    matters = {name: value for name, value in dataclasses.asdict(cell).items() if name in FIRST}
    if cell.adaptation_version != 1:
        matters["adaptation_version"] = cell.adaptation_version
    return digest({"cell": matters, "version": VERSION})


def cells(rows, found=(COLA,), **changes):
    options = {
        "adaptations": ("finetune",),
        "seeds": range(3),
        "data_sha256": {task.name: "d" for task in (COLA, CONLL, WIKI)},
        "pretraining_of": {},
        "tokenizer": "t",
    }
    return Combinations(**(options | changes)).cells(rows, found)


def pretraining(**changes):
    options = {
        "model": "bert",
        "size": "tiny",
        "corpus": ("a.txt",),
        "corpus_sha256": "c",
        "corpus_name": "a",
        "tokenizer": "wordpiece",
        "vocabulary": 1000,
        "budget": Budget(steps=5),
        "recipe": {},
    }
    return Pretraining(**(options | changes))


def test_models_are_followed_by_their_twins_and_baselines_come_last():
    names = [row.name for row in plan.rows_of(["bert", "gpt"], ["tiny"], ["majority"])]
    assert names == ["bert", "random-bert", "gpt", "random-gpt", "majority"]
    assert [row.name for row in plan.rows_of(["bert", "random-gpt"], ["tiny", "mini"], None)] == [
        "bert",
        "bert",
        "random-gpt",
        "random-gpt",
    ]


def test_cells_have_every_seed_unless_nothing_is_random():
    rows = [Row.parse("bert", "tiny"), Row.parse("random-bert", "tiny"), Row.parse("majority", None)]
    assert len(cells(rows)) == 3 + 3 + 1
    likelihood = cells(rows, (WIKI,))
    assert [(c.row.name, c.adaptation, c.seed) for c in likelihood] == [
        ("bert", "likelihood", 0),
        ("random-bert", "likelihood", 0),
        ("random-bert", "likelihood", 1),
        ("random-bert", "likelihood", 2),
        ("majority", "baseline", 0),
    ]


def test_baselines_have_every_seed_on_sampled_training_sets():
    rows = [Row.parse("majority", None), Row.parse("gpt", "tiny")]
    found = cells(rows, [small_task := tasks.load("cola-100"), COLA], data_sha256={"cola": "d", "cola-100": "d"})
    assert [(one.row.name, one.task, one.seed) for one in found if one.task == small_task.name] == [
        (name, "cola-100", seed) for name in ("majority", "gpt") for seed in range(3)
    ]
    assert sum(one.task == "cola" for one in found) == 1 + 3 and len({one.key for one in found}) == 6 + 4


def test_keys_depend_on_everything_that_changes_the_result():
    row = Row.parse("bert", "tiny")
    base = cells([row])[0].key
    changed = [
        cells([Row.parse("bert", "mini")])[0],
        cells([row], data_sha256={"cola": "other"})[0],
        cells([row], tokenizer="other")[0],
        cells([row], pretraining_of={row: "weights"})[0],
        cells([row], settings={"learning_rate": 1e-5})[0],
        cells([row], adaptations=("features",))[0],
        cells([row], limit=7)[0],
        cells([row])[1],
    ]
    keys = {cell.key for cell in changed}
    assert len(keys) == len(changed) and base not in keys
    assert cells([row])[0].key == base


def test_pretraining_keys_depend_on_the_corpus_text_and_not_its_path():
    base = pretraining()
    assert pretraining(corpus=("elsewhere/b.txt",), corpus_name="b").key == base.key
    for change in (
        {"corpus_sha256": "x"},
        {"budget": Budget(steps=6)},
        {"recipe": {"batch": 8}},
        {"seed": 1},
        {"vocabulary": 2000},
    ):
        assert pretraining(**change).key != base.key


def test_plans_round_trip_through_json():
    first = pretraining()
    second = pretraining(base=first.key, other_tokenizer=WORDS.key)
    rows = [Row.parse("bert", "tiny"), Row.parse("majority", None)]
    own = cells(rows, (COLA, CONLL), tokenizer=WORDS.key, pretraining_of={rows[0]: second.key})
    complete = Plan((WORDS, Given(key="given", path="/there"), AdaptedModel(cell=own[0]), second, first, *own))
    again = Plan.from_json(complete.to_json())
    assert again == complete and [one.kind for one in complete.artefacts[:3]] == ["tokenizer", "given", "pretraining"]
    assert [one.key for one in again.artefacts] == [one.key for one in complete.artefacts]
    assert [c.key for c in again.cells] == [c.key for c in complete.cells]
    assert again.pretrainings == (first, second)


def test_cells_that_share_a_traced_step_are_one_group():
    rows = [Row.parse("bert", "tiny"), Row.parse("random-bert", "tiny")]
    complete = Plan((WORDS, *cells(rows, (COLA, CONLL), tokenizer=WORDS.key)))
    groups = complete.groups()
    assert set(groups) == {"bert.tiny.classification.finetune", "bert.tiny.tagging.finetune"}
    assert {cell.row.kind for cell in groups["bert.tiny.tagging.finetune"]} == {"pretrained", "random"}


def test_workers_share_a_group_only_on_request():
    complete = Plan((WORDS, *cells([Row.parse("bert", "tiny")], tokenizer=WORDS.key)))
    assert len(complete.groups()) == 1 and len(complete.ends) == 3
    assert complete.workers(None, 8) == 1, "two workers on one group trace its step twice"
    assert [complete.workers(asked, 8) for asked in (1, 2, 5)] == [1, 2, 3]
    assert Plan(()).workers(4, 8) == Plan(()).workers(None, 8) == 1


def test_an_unknown_adaptation_is_an_error_that_lists_the_choices():
    with pytest.raises(UsageError, match="'tune'.*features, finetune"):
        cells([Row.parse("bert", "tiny")], adaptations=("tune",))


def test_settings_of_user_override_suite_and_form():
    suite = {"": {"length": 64}, "tagging": {"epochs": 2}, "tagging/features": {"epochs": 5}}
    assert plan.settings_of(CONLL, "finetune", suite, {})["epochs"] == 2
    assert plan.settings_of(CONLL, "features", suite, {})["epochs"] == 5
    suite |= {"conll2003": {"epochs": 3}, "conll2003/features": {"batch": 8}, "sst2": {"epochs": 7}}
    assert plan.settings_of(CONLL, "finetune", suite, {})["epochs"] == 3
    found = plan.settings_of(CONLL, "features", suite, {})
    assert (found["length"], found["epochs"], found["batch"]) == (64, 3, 8)
    found = plan.settings_of(CONLL, "features", suite, {"epochs": 9, "length": "32"})
    assert (found["length"], found["epochs"], found["batch"]) == (32, 9, 8)


@pytest.mark.parametrize(
    "changes",
    [{"epoch": 3}, {"epochs": "many"}, {"epochs": 0}, {"epochs": 1.5}, {"learning_rate": -1}, {"batch": "nan"}]
    + [{"selection": 0}, {"target_length": 1}],
)
def test_invalid_settings_are_errors(changes):
    with pytest.raises(SettingError, match=next(iter(changes))):
        plan.settings_of(COLA, "finetune", {}, changes)


def test_an_adaptation_name_may_include_settings():
    """Variants are separate rows of the board, by name. Their changes are in their settings and keys."""
    asked = ("features", "features:layers=top", "ulmfit:unfreeze=0+concat=0")
    found = cells([Row.parse("gpt", "tiny")], (COLA, WIKI), adaptations=asked, seeds=[0], settings={"epochs": 7})
    assert [(c.task, c.adaptation, c.method) for c in found] == [
        *(("cola", name, name.partition(":")[0]) for name in asked),
        ("wikitext2", "likelihood", "likelihood"),
    ]
    plain, top, tricks = (c.settings for c in found[:3])
    assert "layers" not in plain and top == plain | {"layers": "top"}
    assert (tricks["unfreeze"], tricks["concat"], tricks["slanted"], tricks["epochs"]) == (0, 0, 1, 7)
    assert len({c.key for c in found}) == len({c.group for c in found}) == 4


def test_a_setting_of_one_adaptation_does_not_change_the_others():
    row = [Row.parse("gpt", "tiny")]
    asked = {"adaptations": ("finetune", "ulmfit"), "seeds": [0]}
    plain = cells(row, (COLA, WIKI), **asked)
    found = cells(row, (COLA, WIKI), **asked, settings={"lm_epochs": "3"})
    assert [c.method for c in found] == ["finetune", "ulmfit", "likelihood"]
    assert "lm_epochs" not in found[0].settings and found[1].settings["lm_epochs"] == 3
    assert [a.key == b.key for a, b in zip(plain, found, strict=True)] == [True, False, True]


def test_a_setting_of_an_adaptation_outside_the_run_is_an_error():
    with pytest.raises(SettingError, match="lm_epochs.*--adaptation ulmfit"):
        cells([Row.parse("gpt", "tiny")], (COLA,), adaptations=("finetune",), seeds=[0], settings={"lm_epochs": 3})


@pytest.mark.parametrize("asked", ("features:", "features:layers", "ulmfit:unfreeze=0=1"))
def test_an_adaptation_with_an_incomplete_setting_is_a_usage_error(asked):
    with pytest.raises(UsageError, match="ulmfit:unfreeze=0"):
        cells([Row.parse("bert", "tiny")], adaptations=(asked,))


@pytest.mark.parametrize("name", plan.adaptations())
def test_cells_of_every_adaptation_have_its_name(name):
    """A setting must not have the name of a method of `Settings`."""
    own = {field.name for field in dataclasses.fields(adaptation_settings.kind(name))}
    assert not own & {attribute for attribute in dir(Settings) if callable(getattr(Settings, attribute))}
    found = cells(
        [Row.parse("bert", "tiny")],
        (COLA, CONLL),
        adaptations=(name,),
        neighbour=lambda *asked: "key",
        teacher=lambda named: plan.Teaching(plan.teacher_row(named), "key"),
        adapted=lambda cell: "key",
    )
    assert found and {cell.method for cell in found} == {name}
