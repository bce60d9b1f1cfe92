"""Variants with few training examples: which tasks have them, their names, and their equality with the task."""

import pytest

from ptmbench import tasks
from ptmbench.tasks.task import UnknownTask


def test_variants_with_few_examples_differ_only_in_the_training_set() -> None:
    few, whole = tasks.load("sst2-500"), tasks.load("sst2")
    assert (few.name, few.train_examples, few.version) == ("sst2-500", 500, whole.version)
    assert few.title == "SST-2, 500 training examples" and "drawn at random and not by class" in few.notes
    same = ("form", "labels", "metrics", "headline", "report", "files", "read", "folders", "chance", "prompt")
    assert all(getattr(few, name) == getattr(whole, name) for name in same)
    assert tasks.load("sst2-500") is few and whole.train_examples == 0
    assert tasks.load("ud_ewt-heads-200").headline == "accuracy" and tasks.load("ud_ewt-200").train_examples == 200
    assert tasks.check_headline(few) is few


def test_a_number_that_a_task_file_defines_keeps_its_meaning() -> None:
    assert (
        tasks.load("blimp-100").train_examples == 0 and tasks.load("blimp-100").title == "BLiMP, 100 of each paradigm"
    )
    assert tasks.load("fewrel-10-5").train_examples == 0


@pytest.mark.parametrize(
    "name",
    ["sst2-9", "sst2-007", "sst2-", "sst2-x", "sst2-500-100", "wikitext2-500", "lama-500", "fewrel-500", "x-500"],
)
def test_invalid_numbers_of_training_examples_are_unknown_tasks(name: str) -> None:
    with pytest.raises(UnknownTask):
        tasks.load(name)


def test_every_task_with_a_training_split_has_variants() -> None:
    eligible = [name for name in tasks.names() if tasks.few.has_training_split(tasks.load(name))]
    assert len(eligible) > 50 and not {"wikitext2", "blimp", "lama", "word_similarity"} & set(eligible)
    for name in eligible:
        assert tasks.load(f"{name}-100").train_examples == 100, name
