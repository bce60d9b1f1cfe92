"""The search space of a tuning, and the values that its trials use."""

from fractions import Fraction

import numpy as np
import pytest

from ptmbench.bench.adapt import settings
from ptmbench.bench.engine.recipe import MOST_TOKENS, Recipe
from ptmbench.bench.runs.tuning import space
from ptmbench.tasks.forms import Form

OWN = Recipe(batch=8, length=32, learning_rate=1e-3)


def test_every_model_tries_the_same_factors():
    one, other = (space.of_recipe(own).tried(27, 0) for own in (OWN, Recipe(batch=8, learning_rate=4e-4)))
    assert one[0] == other[0] == {}
    for mine, theirs in zip(one[1:], other[1:], strict=True):
        assert theirs["learning_rate"] == pytest.approx(0.4 * mine["learning_rate"], rel=0.01)
        assert (mine["batch"], mine["warmup"]) == (theirs["batch"], theirs["warmup"])


def test_trials_stay_in_the_space_and_cover_it():
    searched = space.of_recipe(OWN)
    tried = searched.tried(61, 0)[1:]
    rates = np.log2([one["learning_rate"] / 1e-3 for one in tried])
    counts = np.histogram(rates, 6, (-3, 3))[0]
    assert np.abs(rates).max() <= 3 and counts.min() >= 9 and counts.max() <= 11
    assert {one["batch"] for one in tried} == {2, 4, 8, 16, 32}
    assert {one["warmup"] for one in tried} == {*space.WARMUPS}
    assert tried[:9] == searched.tried(10, 0)[1:] and searched.tried(10, 1) == searched.tried(10, 1)
    first, second = ([tuple(one.values()) for one in searched.tried(10, seed)[1:]] for seed in (1, 2))
    assert not {*first} & {*second, *(tuple(one.values()) for one in tried)}
    assert [space._inverse(n, 2) for n in (1, 2, 3, 4)] == [0.5, 0.25, 0.75, 0.125]  # van der Corput's
    assert Fraction(space._inverse(5, 3)).limit_denominator(100) == Fraction(7, 9)


def test_impossible_batch_sizes_are_not_tried():
    def batches(**recipe):
        return space.of_recipe(Recipe(learning_rate=1e-3, **recipe)).batches

    assert batches(batch=1) == (1, 2, 4)
    assert batches(batch=8, accumulate=4) == (4, 8, 16, 32)
    assert batches(batch=2**15, length=64) == (2**13, 2**14, 2**15, 2**16)
    assert space.of_recipe(Recipe(batch=8, accumulate=4, learning_rate=1e-3)).about["batch"] == [4, 8, 16, 32]


def test_adaptations_are_tuned_at_the_same_points_as_pretrainings():
    """These are rates, batch sizes and, in place of the warm-up, epochs, or steps if these are limited."""
    own = settings.changed(settings.defaults(Form.CLASSIFICATION, "finetune"), {"batch": 8, "learning_rate": 2e-3})
    searched = space.of_settings(own)
    assert (searched.batches, searched.other, searched.others) == ((2, 4, 8, 16, 32), "epochs", (2, 4, 8))
    recipes = space.of_recipe(OWN).tried(10, 3)[1:]
    for mine, theirs in zip(searched.tried(10, 3)[1:], recipes, strict=True):
        assert mine["learning_rate"] == pytest.approx(2 * theirs["learning_rate"], rel=0.01)
        assert mine["batch"] == theirs["batch"] and mine["epochs"] in (2, 4, 8)
        assert settings.changed(own, mine).epochs == mine["epochs"]
    limited = space.of_settings(settings.changed(own, {"max_steps": 100, "epochs": 1}))
    assert (limited.other, limited.others) == ("max_steps", (50, 100, 200))
    assert space.of_settings(settings.changed(own, {"epochs": 1})).others == (1, 2), "half an epoch is none"
    long = space.of_settings(settings.changed(own, {"batch": 2**14, "length": 512}))
    assert long.batches == (2**12, 2**13, 2**14, 2**15) and MOST_TOKENS == 2**15 * 512
