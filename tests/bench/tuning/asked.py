"""Small tunings that the tests of this folder run."""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK
from ptmbench.bench.runs.tuning.tuned import Tuned
from ptmbench.bench.runs.tuning.tuned_settings import TunedSettings
from tests.bench import asking

SMALL = {"suite": "demo", "models": ("word2vec",), "vocabulary": 300, "recipe": {"batch": 4, "length": 32}}
SMALL |= {"budget": Budget(tokens=18_000), "trials": 4, "share": 1.0, "held_out": 2000}


def tuning(out, world, **changes):
    """Tunes pre-trainings in the folder ``out`` and returns the result."""
    assert asking.tune(**(SMALL | {"data": world, "out": out} | changes)) == OK
    return Tuned.read(out).body


def unmeasured(body):
    """Returns the result of a tuning without the time that it took, which differs between equal tunings."""
    return {name: value for name, value in body.items() if name != "seconds"}


SMALL_ADAPTATION = {name: SMALL[name] for name in ("suite", "vocabulary", "recipe", "budget", "trials")}
SMALL_ADAPTATION |= {
    "adaptations": ("finetune",),
    "tasks": ("sst2", "cola"),
    "limit": 60,
    "seeds": 2,
    "models": ("word2vec",),
}


def adapting(out, world, **changes):
    """Tunes adaptations in the folder ``out`` and returns the result."""
    assert asking.tune(**(SMALL_ADAPTATION | {"data": world, "out": out} | changes)) == OK
    return TunedSettings.read(out).body
