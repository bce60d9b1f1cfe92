"""Profiled cells: latency and memory of stored models, replicates of scores, and the suite `table3`."""

import dataclasses
import json
import os
import pkgutil
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench import environment
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.options import OutputOptions
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs import inference, suites
from ptmbench.bench.runs.artefacts import Cell, Row
from ptmbench.bench.runs.run import _measurements
from ptmbench.bench.runs.suites import compression, table3
from ptmbench.bench.scoring import score
from ptmbench.leaderboard.records import record
from ptmbench.models import model_compression
from ptmbench.models.card import Size
from tests.bench import asking
from tests.bench.cells import make
from tests.bench.test_plan import COLA
from tests.bench.test_task_teachers import imported
from tests.bench.test_transform_cells import after


@pytest.fixture
def profiled(context):
    return dataclasses.replace(context, profile=True, compared=True)


@pytest.fixture
def in_process(monkeypatch):
    """Measures in this process, with two rounds. A new process would import TensorFlow again."""
    monkeypatch.setattr(inference, "ROUNDS", (2, 2))
    asked = []

    def measured(given):
        asked.append(given)
        return inference.measured(json.loads(json.dumps(given)))

    monkeypatch.setattr(inference, "_in_new_process", measured)
    return asked


def test_a_profiled_cell_records_latency_disk_size_and_replicates(profiled, in_process):
    cell = make("cola", "bert", "finetune")
    found = cells.run(cell, profiled)
    assert found.status == "ok", found.reason
    measured = found.cost["inference"]
    assert list(measured["latency"]) == ["1", "8", "32"]
    for one in measured["latency"].values():
        assert 0 < one["low"] <= one["median"] <= one["high"] and one["rounds"] == 2
        assert one["processor"] > 0
    assert measured["examples"] == 32 and measured["threads"] == environment.threads() and measured["cpu_share"] > 0
    assert found.cost["disk_bytes_compressed"] > 0 and found.cost["flops_per_example"] > 0
    assert not os.path.exists(in_process[0]["checkpoint"])  # the model is stored only for the measurement
    assert len(found.headline["redrawn"]) == 200
    record.write(profiled.out, found)
    compared = cells.run(cell, dataclasses.replace(profiled, profile=False))
    assert "inference" not in compared.cost and compared.headline == found.headline
    assert compared.cost["disk_bytes_compressed"] == found.cost["disk_bytes_compressed"]
    plain = cells.run(cell, dataclasses.replace(profiled, profile=False, compared=False))
    assert plain.key == found.key and "inference" not in plain.cost and "redrawn" not in plain.headline
    assert plain.cost["flops_per_example"] == found.cost["flops_per_example"]
    assert {**found.headline, "redrawn": None} == {**plain.headline, "redrawn": None}


def test_a_measurement_that_fails_keeps_the_score_and_gives_a_reason(profiled, monkeypatch, capsys):
    monkeypatch.setattr(inference.sys, "executable", "/bin/false")
    found = cells.run(make("cola", "bert", "finetune"), profiled)
    assert found.status == "ok" and found.cost["inference"] == {"reason": "exit status 1"}
    assert "Latency was not measured" in capsys.readouterr().err


def test_an_adaptation_without_its_own_weights_is_not_measured(profiled, in_process):
    found = cells.run(make("wikitext2", "gpt", "likelihood"), profiled)
    assert found.status == "ok", found.reason
    assert "inference" not in found.cost and not in_process


@pytest.mark.parametrize(("cores", "expected"), [(2, [[0, 1]]), (9, [[0, 2, 4, 6, 8], [1, 3, 5, 7]])])
def test_cores_are_shared_among_measurements(cores, expected, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)), raising=False)
    assert inference.groups() == expected


def test_measurements_at_the_same_time_have_different_cores(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "cache_subfolder", lambda name: tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    with ThreadPoolExecutor(1) as pool:
        with inference._turn() as first, inference._turn() as second:
            assert (first, second) == ([0, 2, 4, 6], [1, 3, 5, 7])
            third = pool.submit(inference._turn().__enter__)
            time.sleep(0.2)
            assert not third.done()
        assert third.result(timeout=30) in (first, second)


@pytest.mark.slow
def test_the_measuring_process_has_one_thread_on_one_core(profiled):
    found = cells.run(make("cola", "bert", "finetune"), profiled).cost["inference"]
    assert found["threads"] == 1 and found["examples"] == 32
    if hasattr(os, "sched_getaffinity"):
        assert found["pinned"] in os.sched_getaffinity(0)
    assert found["peak_memory_bytes"] > found["memory_before_bytes"] > 0


def test_replicates_are_the_same_for_the_same_predictions(world):
    task = tasks.load("cola")
    examples = task.examples(world, "dev")
    gold = [example.gold for example in examples]
    drawn = score.redrawn(task, examples, gold)
    assert len(drawn) == 200 and np.std(drawn) == pytest.approx(0, abs=1e-3)  # a perfect model is always perfect
    halves = [score.redrawn(task, examples, [*gold[: len(gold) // 2], *gold[len(gold) // 2 :][::-1]]) for _ in range(2)]
    assert halves[0] == halves[1]


# The suite -----------------------------------------------------------------------------------------------------------


def test_the_plain_student_of_table_3_trains_longer_and_only_suites_of_compression_profile():
    epochs = int(table3.BASELINE.rpartition("=")[2])
    assert epochs > 3 * table3.EPOCHS
    chosen = suites.load("table3")
    assert chosen.profile
    assert {name for name in suites.names() if suites.load(name).profile} == {"table3", "compression"}


@pytest.mark.parametrize(
    "suite, asked, profile, compared",
    [("demo", None, 0, 0), ("demo", True, 1, 1), ("compression", None, 1, 1), ("compression", False, 0, 1)],
)
def test_suites_of_compression_record_replicates_even_without_latency(suite, asked, profile, compared):
    found = _measurements(suites.load(suite), OutputOptions(profile=asked))
    assert found == {"profile": bool(profile), "compared": bool(compared)}


def test_the_suite_compression_transforms_only_what_is_fine_tuned():
    def kept(transform, **changes):
        found, _ = after(transform, (COLA,), ("bert",), seeds=[0])
        return [compression.keeps(dataclasses.replace(one, **changes)) for one in found]

    assert kept("int8") == kept("int8", adaptation="finetune:after=mnli") == [True, True]
    assert kept("int8", adaptation="fastbert") == kept("int8", adaptation="layerdrop") == [True, False]
    assert kept("layers:by=alternate", adaptation="layerdrop") == [True, True]
    twin = {"row": Row(name="random-bert", kind="random", model="bert", size="tiny")}
    assert kept("int8", **twin, pretraining=None) == [True, False]
    assert kept("int8", **twin, pretraining="checkpoint:x") == [True, True]  # an imported twin is compressed


def test_a_transform_that_the_suite_keeps_nowhere_is_refused(world, text, tmp_path):
    given = imported(tmp_path / "given", text.tokenizer)
    asked = {"tasks": ("sst2",), "adaptations": ("pabee",), "data": world, "out": tmp_path / "out", "dry_run": True}
    asked |= {"transforms": ("layers:by=alternate", "int8"), "suite": "compression"}
    told = r"--transform layers:by=alternate has no effect.* after pabee\. Leave it out"
    for start in (lambda: asking.evaluate(checkpoint=given.folder, **asked), lambda: asking.run_suite(**asked)):
        with pytest.raises(UsageError, match=told):
            start()
    asked["adaptations"] = ("layerdrop",)
    with pytest.raises(UsageError, match="--transform int8 has no effect.* after layerdrop"):
        asking.evaluate(checkpoint=given.folder, **asked)
    asked["adaptations"] = ("layerdrop", "finetune:epochs=1")
    assert asking.evaluate(checkpoint=given.folder, **asked) == OK


def test_table_3_transforms_only_the_teacher_and_distils_only_the_student():
    found, _ = after("int8", (COLA,), ("bert",), seeds=[0])
    teacher = [dataclasses.replace(one, row=dataclasses.replace(one.row, size="mini")) for one in found]
    assert [table3.keeps(one) for one in teacher] == [True, True]
    assert [table3.keeps(one) for one in found] == [True, False]  # the student
    plain: Cell = found[0]
    twin = dataclasses.replace(plain, row=dataclasses.replace(plain.row, kind="random"))
    long = dataclasses.replace(plain, adaptation=table3.BASELINE)
    assert table3.keeps(long) and table3.keeps(dataclasses.replace(long, chosen_by=table3.TWICE.short()))
    assert not table3.keeps(dataclasses.replace(plain, chosen_by=table3.TWICE.short()))
    assert table3.keeps(twin) and not table3.keeps(dataclasses.replace(twin, adaptation=table3.BASELINE))
    assert not table3.keeps(dataclasses.replace(twin, row=dataclasses.replace(twin.row, size="mini")))
    assert not table3.keeps(dataclasses.replace(teacher[0], adaptation=table3.STUDENTS[0]))


def test_table_3_has_all_models_that_are_made_small_and_fine_tunes_them():
    small = {module.name for module in pkgutil.iter_modules(model_compression.__path__)}
    assert small | {"elmo"} == {*table3.PRETRAINED, *table3.OTHER_NETWORKS} < set(suites.load("table3").models)
    found, _ = after("int8", (COLA,), ("albert",), seeds=[0])
    of_the_teachers_size = [dataclasses.replace(one, row=dataclasses.replace(one.row, size="mini")) for one in found]
    assert [table3.keeps(one) for one in of_the_teachers_size] == [True, False]  # they are not compressed again
    assert not any(table3.keeps(one) for one in found)


@pytest.mark.parametrize("model", table3.OTHER_NETWORKS)
def test_other_networks_of_table_3_learn_alone_and_from_logits_with_random_weights(model):
    found, _ = after("int8", (COLA,), (f"random-{model}",), seeds=[0])
    assert [table3.keeps(one) for one in found] == [True, False]
    plain: Cell = found[0]
    taught = dataclasses.replace(plain, adaptation=table3.STUDENTS[1])
    assert "match=logits" in taught.adaptation and table3.keeps(taught)
    assert not table3.keeps(dataclasses.replace(plain, adaptation=table3.STUDENTS[0]))
    assert not table3.keeps(dataclasses.replace(plain, row=dataclasses.replace(plain.row, kind="pretrained")))
    assert not table3.keeps(dataclasses.replace(plain, row=dataclasses.replace(plain.row, size="mini")))


def test_shapes_of_table_3_are_sizes_of_its_model():
    from ptmbench import models

    sizes = models.load(table3.MODEL).SIZES
    assert isinstance(sizes[table3.TEACHER], Size) and isinstance(sizes[table3.STUDENT], Size)


def test_the_plan_of_table_3_has_only_what_its_cells_need(planned):
    asked = {"suite": "table3", "models": None, "tasks": ["sst2"], "budget": Budget(), "recipe": {}}
    plan = planned(**asked, transforms=["int8"], adaptations=["finetune", table3.BASELINE])
    made = {(one.model, one.size, one.budget.flops) for one in plan.pretrainings}
    once, twice = table3.BUDGET.flops, table3.TWICE.flops
    small = {(model, "mini", twice if model == "mobilebert" else once) for model in (*table3.PRETRAINED, "ib_bert")}
    assert made == {("bert", "mini", once), ("bert", "tiny", once), ("bert", "tiny", twice)} | small
    rows = {(cell.row.name, cell.row.size, cell.treatment, cell.chosen_by) for cell in plan.cells if cell.row.model}
    first, second = table3.BUDGET.short(), table3.TWICE.short()
    assert rows == {
        ("bert", "mini", "finetune", ""), ("bert", "mini", "finetune>int8", ""),
        ("bert", "tiny", "finetune", first), ("bert", "tiny", table3.BASELINE, first),
        ("bert", "tiny", table3.BASELINE, second), ("random-bert", "tiny", "finetune", ""),
        *((model, "mini", "finetune", "") for model in table3.PRETRAINED),
        *((f"random-{model}", "tiny", "finetune", "") for model in table3.OTHER_NETWORKS),
    }  # fmt: skip
    adapted = [one for one in plan.artefacts if one.kind in ("adapted", "transformed")]
    needed = {key for cell in plan.artefacts for key in cell.needs}
    assert adapted and all(one.key in needed for one in adapted)
