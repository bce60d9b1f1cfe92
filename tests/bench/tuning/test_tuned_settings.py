"""A run that adapts models with the settings that a tuning found."""

import shutil

import pytest

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.runs import run
from ptmbench.bench.runs.tuning import sealed, tuned_settings
from ptmbench.bench.runs.tuning.tuned_settings import TunedSettings
from ptmbench.leaderboard.records import record
from tests.bench import asking
from tests.bench.tuning.asked import SMALL_ADAPTATION, adapting

RUN = {name: SMALL_ADAPTATION[name] for name in ("suite", "models", "vocabulary", "recipe", "budget", "tasks", "limit")}
RUN |= {"seeds": 2}


def cells_of(monkeypatch, **options):
    """Returns the cells that a run plans."""
    found = []
    monkeypatch.setattr(run, "execute", lambda whole, *_: found.append(whole) or OK)
    assert asking.run_suite(**(RUN | options)) == OK
    return found[0].cells


FOUND = {"learning_rate": 5e-4, "batch": 64, "epochs": 2}


@pytest.fixture
def chosen(adapted):
    """The folder of a tuning in which `FOUND` won on SST-2, and the own settings on CoLA."""
    body = dict(TunedSettings.read(adapted).body)
    entries = [one | {"changes": FOUND if one["task"] == "sst2" else {}} for one in body["adaptations"]]
    content = {name: value for name, value in body.items() if name not in ("schema", "kind")}
    sealed.write(adapted / tuned_settings.FILE, tuned_settings.KIND, content | {"adaptations": entries})
    return adapted


def test_cells_have_the_tuned_settings(chosen, world, tmp_path, monkeypatch):
    """If the model's own settings won, the cell keeps its key, and with it its record."""
    found = {(one["row"], one["task"]): one for one in TunedSettings.read(chosen).body["adaptations"]}
    out = tmp_path / "run"
    plain, tuned = (
        {(one.row.name, one.task, one.seed): one for one in cells_of(monkeypatch, data=world, out=out, **more)}
        for more in ({}, {"tuned": chosen})
    )
    assert plain.keys() == tuned.keys() and len([place for place in plain if place[:2] in found]) == 8
    for place, cell in tuned.items():
        before, one = plain[place], found.get(place[:2])
        if one is None:  # a baseline
            assert cell == before and not cell.tuning
            continue
        assert cell.settings == {**before.settings, **one["changes"]}
        assert cell.tuning == {"trials": 2, "flops": one["flops"]}
        assert (cell.key == before.key) is (not one["changes"])
        assert cell.pretraining == before.pretraining, "the model is pre-trained once"


@pytest.mark.slow
def test_records_and_the_board_show_that_it_was_tuned(adapted, here, world, tmp_path):
    out = tmp_path / "run"
    assert asking.run_suite(**RUN, data=world, out=out, tuned=adapted) == OK
    for one in map(record.read, (out / "records").iterdir()):
        if one.row["kind"] == "baseline":
            assert "tuning" not in one.adaptation
        else:
            assert one.adaptation["tuning"]["trials"] == 2 and "--tuned" in one.command
    page = (out / "board" / "index.html").read_text()
    assert "adaptation tuned with 2 trials" in page


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget": Budget(tokens=19_000)}, "was tuned for word2vec tiny sst2 finetune with another pre-training"),
        ({"vocabulary": 320}, "was tuned with another tokenizer or corpus than this run has"),
        ({"models": ("glove",)}, r"has no settings for glove tiny sst2 finetune. Leave it out of the run, or give"),
        ({"tasks": ("conll2003",)}, "has no settings for word2vec tiny conll2003 finetune"),
        ({"adaptations": ("features",)}, "has no settings for word2vec tiny sst2 features"),
        ({"settings": {"dropout": 0.3}}, r"sst2 finetune with dropout at 0.1, and this run has 0.3. Give both the"),
        ({"limit": 50}, r"with --limit 60, and this run has 50. Give both the same"),
    ],
)
def test_a_run_that_does_not_match_the_tuning_is_rejected(adapted, world, tmp_path, changes, said):
    with pytest.raises(UsageError, match=said):
        asking.run_suite(
            **(RUN | {"data": world, "out": tmp_path / "run", "tuned": adapted, "dry_run": True} | changes)
        )


def test_a_run_on_other_data_is_rejected(adapted, world, tmp_path):
    other = shutil.copytree(world, tmp_path / "data")
    with open(other / "glue" / "SST-2" / "train.tsv", "a", encoding="utf-8") as file:
        file.write("a further sentence \t1\n")
    with pytest.raises(UsageError, match="was tuned for word2vec tiny sst2 finetune on other data of this task"):
        asking.run_suite(**RUN, data=other, out=tmp_path / "run", tuned=adapted, dry_run=True)


def test_adaptations_that_train_nothing_need_no_tuning(adapted, world, tmp_path, monkeypatch):
    cells = cells_of(
        monkeypatch, data=world, out=tmp_path / "run", tuned=adapted, tasks=("wikitext2",), baselines=False
    )
    assert cells and not any(cell.tuning for cell in cells)


@pytest.mark.slow
def test_tasks_without_a_training_set_use_the_settings_of_their_training_task(world, tmp_path, monkeypatch):
    """MNLI mismatched uses the model of MNLI."""
    out, options = tmp_path / "tuned", {"trials": 2, "seeds": 1, "baselines": False, "tasks": ("mnli_mm", "mnli")}
    body = adapting(out, world, **options)
    assert [one["task"] for one in body["adaptations"]] == ["mnli"]
    cells = cells_of(monkeypatch, data=world, out=tmp_path / "run", tuned=out, tasks=("mnli_mm",), baselines=False)
    (one,) = body["adaptations"]
    assert cells and all(
        cell.tuning["flops"] == one["flops"] and cell.settings.items() >= one["changes"].items() for cell in cells
    )
