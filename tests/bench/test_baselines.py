"""Baselines, which are rows without a network. Their folder is the registry."""

import subprocess
import sys

import pytest

from ptmbench.bench import baselines
from ptmbench.bench.runs.plan import Row
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form


@pytest.mark.parametrize("name", baselines.names())
def test_every_baseline_has_a_label_and_forms(name):
    module = baselines._module(name)
    assert baselines.label(name) == module.LABEL and module.__doc__
    assert module.PREDICTORS and set(module.PREDICTORS) <= set(Form)
    row = Row.parse(name, None)
    assert (row.kind, row.model, row.size) == ("baseline", None, None)


def test_the_default_baselines_of_a_run_depend_on_its_tasks():
    floor = ("bag-of-words", "majority")
    assert baselines.by_default([]) == ()
    assert baselines.by_default([load("sst2"), load("wn18rr")]) == floor
    assert set(baselines.by_default([load("xsum")])) == {*floor, "lead", "oracle"}
    assert set(baselines.by_default([load("sst2"), load("sentiment_transfer")])) == {*floor, "copy", "delete"}


def test_listing_baselines_imports_none_of_them():
    code = (
        "import sys; from ptmbench.bench import baselines; baselines.names(); "
        "print([m for m in sys.modules if 'numpy' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
