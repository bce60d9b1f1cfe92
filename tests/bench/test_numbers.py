"""Huge and non-finite numbers from the command line: each is a usage error, before any memory is allocated."""

import math
from dataclasses import fields

import pytest

from ptmbench.bench.__main__ import main
from ptmbench.bench.adapt import names
from ptmbench.bench.adapt.settings import SettingError, changed, defaults, kind, recorded
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.recipe import LEAST, MOST_TOKENS, Recipe, recipe_of
from ptmbench.bench.errors import USAGE, UsageError
from ptmbench.tasks.forms import Form

HUGE = ("1" + "0" * 22, "1e400", "nan", "-1e400", "9" * 400)
FORMS = {"lm_seq2seq": Form.GENERATION, "mapping": Form.RANKING, "infill": Form.GENERATION}


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("name", names())
def test_settings_of_adaptations_are_bounded(name, value):
    """Integers have an upper bound, and floats have to be finite."""
    settings = defaults(FORMS.get(name, Form.CLASSIFICATION), name)
    for f in fields(kind(name)):
        is_integer = isinstance(f.default, int)
        if is_integer or (isinstance(f.default, float) and not math.isfinite(float(value))):
            with pytest.raises(SettingError, match=f.name):
                changed(settings, {f.name: value})


def test_batch_and_length_are_bounded_together():
    settings = defaults(Form.CLASSIFICATION, "finetune")
    assert changed(settings, {"batch": 2**16, "length": 2**8}).batch * 2**8 == MOST_TOKENS
    with pytest.raises(SettingError, match="a step has at most 16777216"):
        changed(settings, {"batch": 2**16, "length": 2**9})
    for batch, length in ((2**16, 2**9), (10**22, 8), (1, 10**22), (0, 8)):
        with pytest.raises(UsageError):
            Recipe(batch=batch, length=length)


@pytest.mark.parametrize("name", [*LEAST, "learning_rate", "warmup", "weight_decay", "clip", "dropout"])
def test_settings_of_pre_training_are_bounded(name):
    for value in (math.inf, -math.inf, math.nan, 10**400, *((10**22,) if name in LEAST else ())):
        with pytest.raises(UsageError, match=f"{name} (takes|is a share)"):
            recipe_of({name: value})


@pytest.mark.parametrize("unit", ["steps", "tokens", "flops", "minutes"])
@pytest.mark.parametrize("value", [*(v for v in HUGE if v != HUGE[0]), "1e31", "-0.0", "-1", "0"])
def test_budgets_are_bounded(unit, value):
    with pytest.raises(UsageError, match=f"--{unit}"):
        Budget.parse(**{unit: value})


def test_negative_zero_becomes_zero():
    """Otherwise -0.0 and 0.0 would give two cells with the same meaning."""
    rates = [recorded(changed(defaults(Form.CLASSIFICATION, "finetune"), {"learning_rate": v})) for v in (-0.0, 0.0)]
    assert [math.copysign(1, rate["learning_rate"]) for rate in rates] == [1, 1]
    assert math.copysign(1, recipe_of({"learning_rate": -0.0}).learning_rate) == 1


@pytest.mark.parametrize("value", ["1" + "0" * 22, "9" * 5000, "1e400", "nan", "-0.0"])
@pytest.mark.parametrize("option", ["--seeds", "--seed", "--limit", "--jobs", "--threads", "--vocabulary"])
def test_integer_options_are_bounded(option, value, capsys):
    command = ["run", "demo", "--models", "majority", "--no-baselines", "--tasks", "sst2", "--dry-run"]
    assert main([*command, option, value]) == USAGE
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [
        ("--set", "batch=10000000000000000000000"),
        ("--set", "length=10000000000000000000000"),
        ("--set", "batch=65536", "--set", "length=131072"),
        ("--batch", "10000000000000000000000"),
        ("--length", "10000000000000000000000"),
        ("--set", "learning_rate=1e400"),
    ],
)
def test_a_pretraining_of_impossible_size_is_a_usage_error(more, tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text("A cat sat. It slept.\n")
    assert (
        main(["pretrain", "bert", "--corpus", str(text), "--steps", "1", "--out", str(tmp_path / "o"), *more]) == USAGE
    )
    assert not (tmp_path / "o").exists() and "Traceback" not in capsys.readouterr().err
