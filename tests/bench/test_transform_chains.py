"""Chains of transforms: parsed, planned, applied one after another, and resumed after a kill."""

import dataclasses
import re
import signal
import subprocess
import sys
import time
import zlib

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench.__main__ import main
from ptmbench.bench.adapt import predictor, transforms
from ptmbench.bench.adapt.built import traced
from ptmbench.bench.commands import registry
from ptmbench.bench.engine import checkpoint, packing
from ptmbench.bench.engine.checkpoint import digest
from ptmbench.bench.errors import OK, NotApplicable, UsageError
from ptmbench.bench.perf import engines
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.artefacts import VERSION, AdaptedModel, Given, TransformedModel
from ptmbench.bench.runs.exports import network
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.work import Worker
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from tests.bench.cells import make
from tests.bench.processes import PATIENCE, ROOT, wait_for
from tests.bench.test_condition_cells import kept
from tests.bench.test_transform_cells import after, by_treatment, changes_of

CHAIN = "prune:sparsity=0.8+int8"


# Names ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "titles"),
    [
        (CHAIN, ["prune:sparsity=0.8", "int8"]),
        ("prune+int8:activations=0+embeddings=0", ["prune", "int8:activations=0+embeddings=0"]),
        ("prune:pattern=2:4+epochs=2+prune:sparsity=.75", ["prune:epochs=2+pattern=2:4", "prune:sparsity=0.75"]),
        ("prune:learning_rate=1e+2+int8", ["prune:learning_rate=100.0", "int8"]),
    ],
)
def test_a_chain_is_named_by_its_transforms(asked, titles):
    chain = transforms.choose(asked)
    assert [one.title for one in chain] == titles
    links = [one.recorded() for one in chain]
    assert transforms.choose(transforms.title(links)) == chain
    entry = transforms.joined(links)
    assert entry["name"] == "+".join(titles) and transforms.separated(entry) == links
    assert tuple(map(transforms.read, links)) == chain


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("int8+prune:sparsity=0.8", "after int8, so it must be the last. Use prune:sparsity=0.8+int8."),
        ("prune+int8+prune:sparsity=0.8", "Use prune+prune:sparsity=0.8+int8."),
        ("int8+int8:activations=0", "int8 and int8:activations=0 must each be the last transform of a chain."),
        ("prune:sparsity=0.8+squeeze", "There is no transform 'squeeze'. Choices: adabert, dynabert, ffn, "),
        ("prune+", "There is no transform 'prune+'"),
    ],
)
def test_invalid_chains_are_rejected_with_a_valid_order_or_the_choices(asked, told):
    with pytest.raises(UsageError, match=re.escape(told)):
        transforms.choose(asked)


def test_transform_names_in_a_chain_ignore_case():
    assert registry.resolve("transforms", "Prune:sparsity=0.8+INT8") == CHAIN


# Plans ---------------------------------------------------------------------------------------------------------------


def test_chains_share_the_models_of_their_common_transforms():
    found, models = after(f"prune:sparsity=0.8,{CHAIN}", names=("bert",), seeds=[0])
    plain, pruned, both = found
    assert [one.transform for one in found] == ["", "prune:sparsity=0.8", CHAIN] and len(models) == 3
    assert both.treatment == f"finetune>{CHAIN}" and both.folder == "bert-tiny.cola.finetune-prune-sparsity-0-8-int8.s0"
    last = models[both.predictor]
    assert isinstance(last, TransformedModel) and last.cell.predictor == pruned.predictor
    assert pruned.predictor in last.needs
    assert last.relation(pruned.predictor) == "The model after prune:sparsity=0.8"
    assert models[models[pruned.predictor].cell.predictor].cell.key == plain.key
    whole = Plan((Given(key="t", path="x"), *models.values(), *found))
    assert Plan.from_json(whole.to_json()) == whole
    job = Job(data="", source={}, command="ptmbench run demo", keep=False, length=32)
    assert f" --transform {CHAIN} " in job.command_of(both)
    first, second = both.transforms
    for other in (({**first, "version": 9}, second), (first, {**second, "version": 9}), (second, first), (second,)):
        assert dataclasses.replace(both, transforms=other).key != both.key


def test_chains_with_a_common_beginning_have_separate_folders():
    long = "prune:epochs=1+sparsity=0.75+embeddings=1+head=1"
    found, _ = after(f"{long},{long}+int8,{long}+int8:activations=0", names=("bert",), seeds=[0])
    assert len({one.folder for one in found}) == 4


def test_the_key_of_a_single_transform_is_the_same_as_before_chains():
    _, one = after("int8", names=("bert",), seeds=[0])[0]
    newer = {"adaptation_version", "auxiliary", "neighbours", "adapted", "condition", "condition_settings"}
    newer |= {"condition_version", "transforms", "teacher", "auxiliary_teachers", "predictor", "chosen_by"}
    newer |= {"tuning", "plugins"}
    matters = {name: value for name, value in dataclasses.asdict(one).items() if name not in newer}
    if one.adaptation_version != 1:
        matters["adaptation_version"] = one.adaptation_version
    (link,) = one.transforms
    matters |= {"transform": "int8", "transform_settings": link["settings"], "transform_version": link["version"]}
    assert one.key == digest({"cell": matters, "version": VERSION})


def test_a_chain_needs_its_intermediate_models_but_not_their_cells():
    found, models = after(CHAIN, names=("bert",), seeds=[0])
    assert [one.transform for one in found] == ["", CHAIN]
    assert [type(one) for one in models.values()] == [AdaptedModel, TransformedModel, TransformedModel]


def test_a_failed_intermediate_transform_is_recorded_in_the_cell(tmp_path):
    (plain, one), models = after(CHAIN, names=("random-bert",), seeds=[0])
    last = models[one.predictor]
    pruned = models[last.cell.predictor]
    job = Job(data="", source={}, command="", keep=False, length=32)
    worker = Worker(tmp_path, Plan((Given(key="t", path="x"), *models.values(), plain, one)), job)
    worker.give_up(pruned, {"code": "diverged", "text": "The loss is not finite."}, "diverged")
    worker.do(last.key)
    worker.do(one.key)
    found = record.read(one.place(tmp_path))
    told = "Its transform failed: The model after prune:sparsity=0.8 failed: The loss is not finite."
    assert (found.status, found.reason["text"]) == ("diverged", told)
    assert found.adaptation["transform"]["label"] == "pruned 80 %, then int8"


# Cells ---------------------------------------------------------------------------------------------------------------


def chained(asked, cell, given):
    """Returns a (cell, context) pair of ``cell`` after each transform of the chain."""
    links, found = changes_of(asked)["transforms"], []
    for count in range(1, len(links) + 1):
        one = dataclasses.replace(cell, predictor="x", transforms=links[:count])
        home = given.out / f"home-{one.key[:12]}"
        cost = cells.adapt(one, dataclasses.replace(given, out=home))
        (folder,) = (home / "adapted").iterdir()
        given = dataclasses.replace(given, predictor=checkpoint.read(folder), spent=cost)
        found.append((one, given))
    return found


def test_quantisation_keeps_the_zeros_of_a_pruned_model(context, capsys):
    cell = make("sst2", "bert", "finetune")
    given = kept(cell, context)
    plain = cells.run(dataclasses.replace(cell, predictor="x"), given)
    asked = "prune:frequency=1+epochs=1+sparsity=0.75+head=1+embeddings=1+int8"
    (one, pruned), (both, ready) = chained(asked, cell, given)
    alone = chained("int8", cell, given)[0][1]
    before, found = cells.run(one, pruned), cells.run(both, ready)
    assert found.status == "ok", found.reason

    # Codes of kernels and tables are zero wherever the pruned weights are. The file does not store these zeros.
    weights, stored = packing.unpacked(pruned.predictor.arrays()), ready.predictor.arrays()
    codes = packing.unpacked(stored)
    zeroed = [name.removesuffix("#mask") for name in pruned.predictor.arrays() if name.endswith("#mask")]
    assert any(name.endswith("table") for name in zeroed) and any(name.startswith("adapted/") for name in zeroed)
    for name in zeroed:
        assert np.all(codes[name][weights[name] == 0] == 0) and np.mean(codes[name] == 0) >= 0.7
        values = stored.get(f"{name}#codes#values", stored.get(f"{name}#values"))
        assert values.dtype == (np.float32 if name.startswith("adapted/") else np.int8) and np.all(values != 0)
    sizes = [each.predictor.path("weights.safetensors").stat().st_size for each in (pruned, alone, ready)]
    assert sizes[2] < 0.7 * min(sizes[:2]) and found.cost["disk_bytes"] == sizes[2]

    # `perf engines` applies int8 in the same way.
    engines.save_int8(network.of(pruned.predictor.folder), context.out / "engines")
    ours = checkpoint.read(context.out / "engines")
    assert ours.weights_sha256 == ready.predictor.weights_sha256
    assert ours.about["transform"] == ready.predictor.about["transform"]

    # Sizes are measured from the stored weights, for the plain model too.
    names = [name for name in codes if not name.endswith("kernel_scale")]
    tables = {name.partition("#codes")[0] for name in stored if "#codes" in name}
    bits = [8 if name in tables or codes[name].dtype == np.int8 else 32 for name in names]
    count = sum(codes[name].size for name in names)
    assert found.cost["zero_weights"] == pytest.approx(sum(np.sum(codes[name] == 0) for name in names) / count)
    by_hand = sum(size * codes[name].size for name, size in zip(names, bits, strict=True)) / count
    assert found.cost["bits_per_weight"] == pytest.approx(by_hand) and 8 < by_hand < 16
    assert plain.cost["bits_per_weight"] == before.cost["bits_per_weight"] == 32
    assert plain.cost["zero_weights"] < 0.05 < 0.5 < before.cost["zero_weights"] <= found.cost["zero_weights"]
    assert plain.cost["disk_bytes"] == given.predictor.path("weights.safetensors").stat().st_size
    for one_cost, files in ((found.cost, ready), (before.cost, pruned)):
        content = files.predictor.path("weights.safetensors").read_bytes()
        assert one_cost["disk_bytes"] == len(content) > one_cost["disk_bytes_compressed"] > len(content) / 2
        assert one_cost["disk_bytes_compressed"] == len(zlib.compress(content))

    # The record describes the whole chain: its cost, and the adapted model that it started from.
    again = record.read(record.write(context.out, found)).adaptation["transform"]
    assert again["of"] == before.adaptation["transform"]["of"]
    assert again["of"]["weights_sha256"] == given.predictor.weights_sha256
    assert [link["name"] for link in again["before"]] == [one.transform] and again["name"] == both.transform
    for name in ("steps", "tokens", "flops"):
        assert found.cost[name] == plain.cost[name] + again["cost"][name] == before.cost[name]
    assert again["cost"]["seconds"]["total"] > before.adaptation["transform"]["cost"]["seconds"]["total"]
    assert found.curve == before.curve and found.cost["parameters_transformed"] == before.cost["parameters_transformed"]
    assert sum(np.sum(weights[name] == 0) for name in zeroed) / before.cost["parameters_transformed"] == pytest.approx(
        0.75, abs=1e-3
    )

    # The model is restored from its checkpoint, also by `predict`.
    report = tasks.load("sst2").examples(context.data, "dev")[:16]
    answers = predictor.load(ready.predictor).answer(report).probabilities
    traced.cache_clear()
    restored = predictor.load(ready.predictor)
    assert [link.title for link in restored.chain] == transforms.split(both.transform)
    assert restored.answer(report).probabilities == answers
    assert main(["predict", str(ready.predictor.folder), "--data", str(context.data), "--split", "dev", "--out",
                 str(context.out / "p")]) == OK  # fmt: skip


@pytest.mark.parametrize(
    "asked",
    [
        "layers:by=bottom",
        pytest.param("subnetwork:depth=0.5", marks=pytest.mark.slow),
        pytest.param("theseus:epochs=1", marks=pytest.mark.slow),
    ],
)
def test_layers_of_a_pruned_model_can_be_removed_or_replaced(context, asked):
    cell = make("sst2", "bert", "finetune")
    given = kept(cell, dataclasses.replace(context, shape=Size(layers=2, width=16, heads=2, inner=16, length=96)))
    (_, pruned), (one, after) = chained(f"prune:frequency=1+epochs=1+sparsity=0.75+{asked}", cell, given)
    found = cells.run(one, after)
    assert found.status == "ok", found.reason
    stored, changed = after.predictor.arrays(), after.predictor.about["transform"]["changed"]
    before, now = packing.unpacked(pruned.predictor.arrays()), packing.unpacked(stored)
    assert not any("/layer_1/" in name for name in now) and set(changed) <= now.keys()
    assert found.cost["parameters_transformed"] == sum(now[name].size for name in changed)
    assert found.cost["parameters_nonzero"] <= found.cost["parameters"]
    if asked == "layers:by=bottom":  # the remaining layer keeps its zeros, and they are not stored
        kernels = [name for name in changed if "/layer_0/" in name]
        assert kernels and all(f"{name}#mask" in stored for name in kernels)
        for name in kernels:
            assert np.array_equal(now[name], before[name.replace("layer_0", "layer_1")])
        assert found.cost["parameters_nonzero"] < found.cost["parameters"]


@pytest.fixture(scope="module")
def pruned_model(world, tokenizer, tmp_path_factory):
    """A cell, and the context with its model after `prune`."""
    shape, out = Size(layers=2, width=32, heads=4, inner=24, length=96), tmp_path_factory.mktemp("pruned")
    given = Context(data=world, out=out, shape=shape, tokenizer=tokenizer, source={"name": "microworld"})
    cell = make("sst2", "bert", "finetune", batch=16)
    return chained("prune:schedule=constant+epochs=1+head=1", cell, kept(cell, given))[0]


def further(asked, pruned_model, out):
    """Returns the context after a further transform of the pruned model."""
    (cell, given), links = pruned_model, changes_of(asked)["transforms"]
    cell = dataclasses.replace(cell, transforms=(*cell.transforms, *links))
    given = dataclasses.replace(given, out=out)
    cost = cells.adapt(cell, given)
    (folder,) = (out / "adapted").iterdir()
    return cell, dataclasses.replace(given, predictor=checkpoint.read(folder), spent=cost)


@pytest.mark.parametrize(
    "asked",
    [
        "heads:epochs=1+by=random",
        *(
            pytest.param(asked, marks=pytest.mark.slow)
            for asked in (
                "theseus:epochs=1",
                "gates:epochs=1",
                "dynabert:width_epochs=1+depth_epochs=0+by=random+widths=0.5/1",
                "nasbert:search_epochs=1+tuning_epochs=1+shares=0.5/1",
                "prune:sparsity=0.2+epochs=1+frequency=1+head=1",
                "qat:epochs=1+calibration=1",
                "qbert:epochs=1+calibration=1+by=random",
            )
        ),
    ],
)
def test_transforms_that_train_keep_the_zeros_of_an_earlier_prune(pruned_model, tmp_path, asked):
    cell, ready = further(asked, pruned_model, tmp_path)
    before = packing.unpacked(pruned_model[1].predictor.arrays())
    after = packing.unpacked(ready.predictor.arrays())
    shares = [np.mean(after[name] == 0) for name in after if "/layer_0/" in name and name.endswith("kernel")]
    assert len(shares) == 4 and min(shares) > 0.4  # removed neurons take an uneven share of the zeros with them
    own = [name for name, array in before.items() if name.startswith("adapted/") and array.ndim == 2]
    assert own and all(np.mean(after[name] == 0) >= 0.5 for name in own)
    if asked.startswith(("prune", "q")):
        names = [name for name in before if "/layer_1/" in name and name.endswith("kernel")]
        assert all(np.all(after[name][before[name] == 0] == 0) for name in names)


def test_transforms_that_begin_with_new_weights_do_not_apply_to_a_pruned_model(pruned_model, tmp_path):
    for asked in ("adabert", "theseus:start=random"):
        with pytest.raises(NotApplicable, match=f"Prune afterwards: {asked}\\+prune") as raised:
            further(asked, pruned_model, tmp_path)
        assert raised.value.code == "pruned-before"


# Real processes ------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.options import CellOptions, OutputOptions, RunOptions, TrainingOptions, WorkerOptions
from ptmbench.bench.runs.run import run_suite

CHAIN = "prune:sparsity=0.3+frequency=7+epochs=4+prune:sparsity=0.6+frequency=7+epochs=4+int8"
sys.exit(run_suite(RunOptions(
    suite="demo", data=Path(sys.argv[1]), models=("bert",), baselines=False,
    cells=CellOptions(tasks=("sst2",), seeds=1, transforms=(CHAIN,),
                      settings={"length": 32, "batch": 4, "max_steps": 20}),
    training=TrainingOptions(budget=Budget(steps=20), recipe={"batch": 4, "length": 32}, vocabulary=300),
    workers=WorkerOptions(jobs=1, threads=1),
    output=OutputOptions(out=Path(sys.argv[2]), save_every=float(sys.argv[3]), keep=True),
)))
"""


@pytest.mark.slow
def test_a_run_killed_during_a_chain_resumes_to_the_same_weights(world, tmp_path):
    """The run is killed in the second of two trainings. The first is not repeated, and the second resumes."""
    log = tmp_path / "log"

    def begin(out, save_every):
        with open(log, "w") as file:
            arguments = [sys.executable, "-c", SCRIPT, world, out, str(save_every)]
            return subprocess.Popen(arguments, cwd=ROOT, stderr=file)

    assert begin(tmp_path / "straight", 600).wait(timeout=PATIENCE) == OK, log.read_text()
    whole = Plan.from_json((tmp_path / "straight" / "plan.json").read_text())
    first, second, last = sorted(
        (one for one in whole.artefacts if isinstance(one, TransformedModel)), key=lambda one: len(one.cell.transforms)
    )
    out = tmp_path / "killed"
    process = begin(out, 0.05)
    unfinished = second.place(out) / "unfinished"
    wait_for(lambda: len(list(unfinished.glob("*/*/step-*/manifest.json"))) > 1 or process.poll() is not None)
    process.kill()
    assert process.wait() == -signal.SIGKILL, log.read_text()
    time.sleep(1.5)  # its worker sees the pipe close and stops
    assert not second.checkpoint(out).exists()
    sealed = (first.checkpoint(out) / "manifest.json").stat().st_mtime_ns
    assert begin(out, 600).wait(timeout=PATIENCE) == OK, log.read_text()
    assert "goes on at step" in log.read_text()
    assert (first.checkpoint(out) / "manifest.json").stat().st_mtime_ns == sealed
    for made in (first, second, last):
        ours, theirs = (checkpoint.read(made.checkpoint(tmp_path / name)) for name in ("killed", "straight"))
        assert ours.weights_sha256 == theirs.weights_sha256
    one, other = (by_treatment(tmp_path / name) for name in ("killed", "straight"))
    assert one.keys() == other.keys() == {"finetune", f"finetune>{last.cell.transform}"}
    for name, found in one.items():
        for part in ("key", "scores", "curve", "predictions", "task"):
            assert getattr(found, part) == getattr(other[name], part)
        for part in ("steps", "tokens", "flops", "flops_evaluate", "disk_bytes", "zero_weights", "bits_per_weight"):
            assert found.cost.get(part) == other[name].cost.get(part)
    pruned = checkpoint.read(second.checkpoint(out)).about["transform"]["changed"]
    codes = packing.unpacked(checkpoint.read(last.checkpoint(out)).arrays())
    assert pruned and all(np.mean(codes[name] == 0) > 0.599 and codes[name].dtype == np.int8 for name in pruned)
