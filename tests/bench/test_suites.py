"""Suites: everything that they name exists, and their settings are valid."""

import pytest

from ptmbench import models, tasks
from ptmbench.bench.adapt import settings
from ptmbench.bench.commands.names import docstring
from ptmbench.bench.engine.budget import rungs
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.runs import plan, suites


@pytest.mark.parametrize("name", suites.names())
def test_every_name_in_a_suite_exists(name):
    suite = suites.load(name)
    assert suite.summary and f"bench run {name}" in docstring("suites", name)
    recipe_of(suite.recipe)
    named = {*suite.models, *(f"{model}-{size}" for model in suite.models for size in suite.sizes)}
    assert all(name in named and rungs(budget) for name, budget in suite.budgets.items())
    for row in plan.rows_of(suite.models, suite.sizes, ()):
        assert row.model is None or row.size in models.load(row.model).SIZES
    for task in map(tasks.load, suite.tasks):
        for adaptation in suite.adaptations:
            method, own = plan.variant(adaptation)
            assert plan.settings_of(task, method, suite.settings, own)
    named = {task: tasks.load(task).form for task in suite.tasks} | {
        str(form): form for form in {tasks.load(task).form for task in suite.tasks}
    }
    for place in filter(None, suite.settings):  # each applies to a task of the suite
        where, _, method = place.partition("/")
        assert where in named and (not method or settings.defaults(named[where], method)), place
