"""Named runs: everything that they name is there and fits, and a checkpoint can take their tasks."""

import pytest

import models
import tasks
from bench import plan, suites
from bench.adapt import settings
from bench.commands.names import docstring
from bench.engine.recipe import recipe_of
from tasks.forms import Form


@pytest.mark.parametrize("name", suites.names())
def test_a_suite_names_what_is_there(name):
    suite = suites.load(name)
    assert suite.summary and f"bench run {name}" in docstring("suites", name)
    recipe_of(suite.recipe)
    for row in plan.rows_of(suite.models, suite.sizes, ()):
        assert row.model is None or row.size in models.load(row.model).SIZES
    for task in map(tasks.load, suite.tasks):
        for adaptation in suite.adaptations:
            method, own = plan.variant(adaptation)
            assert plan.settings_of(task.form, method, suite.settings, own)
    for place in filter(None, suite.settings):
        form, _, method = place.partition("/")
        assert form in list(Form) and (not method or settings.defaults(Form(form), method)), place
    assert all(
        any(str(tasks.load(t).form) == place.partition("/")[0] for t in suite.tasks)
        for place in suite.settings
        if place
    )
