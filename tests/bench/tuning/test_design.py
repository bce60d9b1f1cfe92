"""`Pretraining.design`: what a tuning of adaptations and a run must have in common."""

from dataclasses import replace

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.trainings import GIVEN, Pretraining

ONE = Pretraining(
    model="bert", size="tiny", corpus=("a.txt",), corpus_sha256="c" * 64, corpus_name="a.txt", tokenizer="wordpiece",
    vocabulary=300, budget=Budget(tokens=1000), recipe={"batch": 4}, base="b" * 64,
)  # fmt: skip


def test_a_new_version_of_a_model_changes_key_and_design():
    assert replace(ONE, model_version=2).key != ONE.key
    assert replace(ONE, model_version=2).design != ONE.design


def test_the_design_depends_on_the_recipe_but_not_on_the_seed():
    for changes in ({"seed": 1}, {"base": "d" * 64}, {"corpus": ("b.txt",)}, {"tuning": {"trials": 4, "flops": 1.0}}):
        assert replace(ONE, **changes).design == ONE.design, changes
    for changes in (
        {"recipe": {"batch": 8}},
        {"budget": Budget(tokens=2000)},
        {"corpus_sha256": "e" * 64},
        {"base": ""},
    ):
        assert replace(ONE, **changes).design != ONE.design, changes


def test_given_checkpoints_have_different_designs():
    given = [replace(ONE, base=f"{GIVEN}{name}").design for name in ("one", "other")]
    assert len({*given, ONE.design}) == 3
