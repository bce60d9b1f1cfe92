"""Tasks with few training examples: sampling, early stopping, the reported split, and records."""

from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.data.sources import fingerprint
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.examples import parts_of
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.leaderboard.records import record
from ptmbench.tasks import microworld
from ptmbench.tasks.microworld.build import Sizes


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few") / "data"
    microworld.make(folder, scale=Sizes(corpus_tokens=2000, wiki_tokens=500, train=120, dev=60, test=60, scenes=5))
    return folder


def cell(task: str, row: str = "gpt", seed: int = 0, limit: int = 0, **changes: float) -> Cell:
    found, baseline = tasks.load(task), row == "bag-of-words"
    adaptation = "baseline" if baseline else "finetune"
    settings = adaptation_settings.changed(adaptation_settings.defaults(found.form, adaptation), changes)
    return Cell(
        row=Row.parse(row, None if baseline else "tiny"), task=task, task_version=found.version, form=found.form,
        data_sha256="x", adaptation=adaptation, settings=adaptation_settings.recorded(settings), seed=seed,
        tokenizer="", limit=limit,
    )  # fmt: skip


def parts(world: Path, chosen: Cell):
    return parts_of(
        chosen, world, tasks.load(chosen.task), adaptation_settings.read(chosen.adaptation, chosen.settings)
    )


@pytest.mark.parametrize("task", ["sst2", "conll2003"])
def test_few_examples_depend_on_the_seed_and_a_tenth_is_for_early_stopping(world: Path, task: str) -> None:
    """Early stopping does not use a dev set of the task, because this would add many labels."""
    whole, few = parts(world, cell(task)), parts(world, cell(f"{task}-50"))
    drawn = [*few.train, *few.selection]
    every = {example.id for example in tasks.load(task).examples(world, "train")}
    assert len({example.id for example in drawn}) == len(drawn) == 50 and {e.id for e in drawn} <= every
    assert 1 <= len(few.selection) <= 8 and len(whole.train) > 100
    assert few.report == whole.report, "what is reported stays whole"
    again = parts(world, cell(f"{task}-50", "bag-of-words"))
    assert again == few, "the same for every row"
    other = parts(world, cell(f"{task}-50", seed=1))
    assert {e.id for e in other.train} != {e.id for e in few.train} and other.report == few.report


def test_train_limit_is_applied_after_the_few_examples_are_drawn(world: Path) -> None:
    few, fewer = parts(world, cell("sst2-50")), parts(world, cell("sst2-50", train_limit=20))
    assert len(fewer.train) == 20 and {e.id for e in fewer.train} < {e.id for e in few.train}


def test_a_training_split_that_is_too_small_is_not_applicable(world: Path) -> None:
    with pytest.raises(NotApplicable, match="SST-2, 500 training examples cannot be drawn .* of 120") as found:
        parts(world, cell("sst2-500"))
    assert found.value.code == "few-examples"
    assert len(parts(world, cell("sst2-500", limit=30)).train) == 27, "a quick run takes what there is"


def test_the_record_names_a_separate_task_on_the_same_data(world: Path, tmp_path: Path) -> None:
    few, whole = tasks.load("sst2-50"), tasks.load("sst2")
    assert fingerprint(few, world) == fingerprint(whole, world)
    context = Context(data=world, out=tmp_path, source={"name": "microworld"})
    made = {name: cells.run(cell(name, "bag-of-words"), context) for name in ("sst2-50", "sst2")}
    sheet = record.read(record.write(tmp_path, made["sst2-50"])).task
    assert sheet["name"] == "sst2-50" and made["sst2-50"].key != made["sst2"].key
    assert sheet["training"]["examples"] == 50 and "not by class" in sheet["training"]["drawn"]
    assert sheet["examples"] == made["sst2"].task["examples"] and "training" not in made["sst2"].task
    assert sheet["title"] == "SST-2, 50 training examples"
