"""Cells of transformed models: planned, transformed, recorded and shown. Cells without a transform stay unchanged."""

import dataclasses
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench import baselines
from ptmbench.bench.__main__ import main
from ptmbench.bench.adapt import predictor, transforms
from ptmbench.bench.adapt.built import traced
from ptmbench.bench.engine import checkpoint, packing
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.errors import OK
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs import suites
from ptmbench.bench.runs.artefacts import AdaptedModel, Given, Row, TransformedModel
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.run import AdaptedModels
from ptmbench.bench.runs.suites import demo
from ptmbench.bench.runs.work import Worker
from ptmbench.leaderboard.records import record
from tests.bench.cells import make
from tests.bench.processes import PATIENCE, ROOT, wait_for
from tests.bench.test_condition_cells import kept
from tests.bench.test_plan import COLA, WIKI, first_key
from tests.bench.test_plan import cells as planned


def after(asked="int8", found=(COLA,), names=("bert", "majority"), **changes):
    """Returns cells with the transforms ``asked``, and the planned models by key."""
    models = AdaptedModels()
    rows = [Row.parse(name, None if name in baselines.names() else "tiny") for name in names]
    made = planned(rows, found, transforms=asked.split(","), adapted=models, **changes)
    return made, {one.key: one for one in models.models}


# Plans ---------------------------------------------------------------------------------------------------------------


def test_transformed_models_are_planned_and_plain_cells_keep_their_keys():
    rows = [Row.parse("bert", "tiny"), Row.parse("majority", None)]
    plain = planned(rows, seeds=range(2))
    found, models = after("int8,prune:sparsity=0.8", seeds=range(2))
    assert [one.key for one in found if not one.transform] == [one.key for one in plain]
    assert [(one.row.name, one.seed, one.transform) for one in found] == [
        ("bert", 0, ""), ("bert", 0, "int8"), ("bert", 0, "prune:sparsity=0.8"),
        ("bert", 1, ""), ("bert", 1, "int8"), ("bert", 1, "prune:sparsity=0.8"), ("majority", 0, ""),
    ]  # fmt: skip
    assert len({one.key for one in found}) == len(found) and len(models) == 6
    first = found[0]
    assert first.key == first_key(first)
    for one in found[1:3]:
        changed, adapted = models[one.predictor], models[first.predictor]
        assert isinstance(changed, TransformedModel) and type(adapted) is AdaptedModel
        assert adapted.cell.key == first.key and changed.cell.key == one.key and changed.key != adapted.key
        assert adapted.key in changed.needs and changed.relation(adapted.key) == "The adapted model"
        assert one.relation(changed.key) == "Its transform" and one.treatment == f"finetune>{one.transform}"
        assert dataclasses.replace(one, predictor="").key == one.key
        (link,) = one.transforms
        for other in ((), ({**link, "version": 9},), ({**link, "settings": {"sparsity": 0.3}},)):
            assert dataclasses.replace(one, transforms=other).key != one.key
    whole = Plan((Given(key="t", path="x"), *models.values(), *found))
    assert Plan.from_json(whole.to_json()) == whole
    order = [one.key for one in whole.artefacts]
    assert all(order.index(need) < order.index(one.key) for one in whole.artefacts for need in one.needs)


def test_conditions_also_apply_to_transformed_models():
    found, models = after("int8", names=("bert",), seeds=[0], conditions=("misspellings",))
    assert [(one.transform, one.condition) for one in found] == [
        ("", ""), ("", "misspellings"), ("int8", ""), ("int8", "misspellings")
    ]  # fmt: skip
    assert len(models) == 2 and len({one.predictor for one in found[2:]}) == 1
    assert found[3].title == "bert-tiny cola@misspellings finetune>int8 seed 0"


def test_the_recorded_command_repeats_the_cell():
    found, _ = after("prune:sparsity=0.8", conditions=("misspellings",))
    job = Job(data="", source={}, command="ptmbench run demo", keep=False, length=32)
    told = job.command_of(found[3])
    ending = "--adaptation finetune --transform prune:sparsity=0.8 --condition misspellings --seed 0"
    assert told.endswith(f"--tasks cola {ending}")


def test_the_transforms_of_a_suite_are_a_tuple_of_texts():
    assert demo.SUITE.transforms == ()
    (told,) = suites._mistakes(dataclasses.replace(demo.SUITE, transforms="int8"))
    assert told == "SUITE.transforms is a tuple of texts, not 'int8'."


def test_transforms_of_untrained_adaptations_are_not_applicable(context):
    found, models = after("int8", (WIKI,), ("bert",), seeds=[0])
    assert not models and [one.treatment for one in found] == ["likelihood", "likelihood>int8"]
    result = cells.run(dataclasses.replace(make("wikitext2", "elmo", "likelihood"), **changes_of("int8")), context)
    assert (result.status, result.reason["code"]) == ("not_applicable", "trains-nothing")
    assert result.reason["text"] == "because the adaptation likelihood trains nothing to transform."
    record.write(context.out, result)


def test_cells_of_a_failed_transform_record_the_reason(tmp_path):
    (plain, one, *_), models = after(names=("random-bert",), seeds=[0])
    changed = models[one.predictor]
    job = Job(data="", source={}, command="", keep=False, length=32)
    worker = Worker(tmp_path, Plan((Given(key="t", path="x"), *models.values(), plain, one)), job)
    worker.give_up(changed, {"code": "diverged", "text": "The loss is not finite."}, "diverged")
    worker.do(one.key)
    found = record.read(one.place(tmp_path))
    assert (found.status, found.reason["text"]) == ("diverged", "Its transform failed: The loss is not finite.")
    assert found.adaptation["name"] == "finetune>int8" and found.adaptation["transform"]["label"] == "int8"


@pytest.mark.parametrize("asked", ["ffn", "heads", "int8", "layers", "prune"])
def test_transforms_are_listed_and_shown(capsys, asked):
    assert main(["ls", "transforms"]) == OK
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == list(transforms.names()) and "int8" in transforms.names()
    assert all(line.endswith(".") for line in listed)
    assert main(["info", asked.upper()]) == OK
    assert capsys.readouterr().out.startswith(f"{asked} (transform)\n")


# Cells ---------------------------------------------------------------------------------------------------------------


def changes_of(asked):
    """Returns the fields of a cell with the transforms ``asked``."""
    return {"transforms": tuple(one.recorded() for one in transforms.choose(asked))}


def transformed(asked, cell, given):
    """Applies the transforms. Returns the cell with them, and its context with the transformed model and the cost."""
    cell = dataclasses.replace(cell, predictor="x", **changes_of(asked))
    home = given.out / f"home-{record.slug(asked)}"
    cost = cells.adapt(cell, dataclasses.replace(given, out=home))
    (folder,) = (home / "adapted").iterdir()
    return cell, dataclasses.replace(given, predictor=checkpoint.read(folder), spent=cost)


def check_transform_resumed(asked, cell, given, kill, monkeypatch):
    """Checks that an interrupted transform resumes to the same weights, curve and cost.

    Transforms the model of ``given`` without interruption, and again stopped before step ``kill`` and resumed with new
    networks. Returns the cell and the context of the uninterrupted transform.
    """
    straight = transformed(asked, cell, dataclasses.replace(given, out=given.out / "straight"))
    taken, step = [], TrainStep.__call__

    def killing(self, *arguments):
        taken.append("step")
        if len(taken) == kill:
            raise KeyboardInterrupt
        return step(self, *arguments)

    monkeypatch.setattr(TrainStep, "__call__", killing)
    folder = given.out / "killed"
    stoppable = dataclasses.replace(given, out=folder, unfinished=folder / "unfinished", save_every=0.0)
    with pytest.raises(KeyboardInterrupt):
        transformed(asked, cell, stoppable)
    assert list(stoppable.unfinished.rglob("learnt.safetensors"))
    traced.cache_clear()
    _, resumed = transformed(asked, cell, stoppable)
    monkeypatch.setattr(TrainStep, "__call__", step)
    spent, again = straight[1].spent, resumed.spent
    assert len(taken) == 1 + spent["transform"]["steps"]  # the steps before the last one were saved
    assert resumed.predictor.weights_sha256 == straight[1].predictor.weights_sha256
    assert resumed.predictor.about["curve"] == straight[1].predictor.about["curve"]
    measured = ("steps", "tokens", "flops", "flops_evaluate")
    assert {name: again["transform"][name] for name in measured} == {
        name: spent["transform"][name] for name in measured
    }
    return straight


def pruned_share(cost):
    """Returns the share of zeros among the pruned weights, none of which belong to the head."""
    return (cost["parameters"] - cost["parameters_nonzero"]) / cost["parameters_transformed"]


WAYS = [  # one for each architecture, with an adaptation that trains the kernels of the encoder
    ("sst2", "bert", "finetune"),
    ("sst2", "lm_lstm", "ulmfit"),
    ("stsb", "electra", "finetune"),
    ("copa", "gpt", "finetune"),
    ("multi30k-en-mw", "t5", "finetune"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "model", "adaptation"), WAYS)
def test_every_architecture_can_be_pruned_and_quantised(context, task, model, adaptation):
    cell = make(task, model, adaptation)
    given = kept(cell, context)
    plain = cells.run(dataclasses.replace(cell, predictor="x"), given)
    stored = given.predictor.arrays()
    exact = predictor.load(given.predictor)
    for asked in ("prune:frequency=1+epochs=1+sparsity=0.75", "int8", "int8:activations=0+embeddings=0"):
        one, ready = transformed(asked, cell, given)
        found = cells.run(one, ready)
        assert found.status == "ok", found.reason
        again = record.read(record.write(context.out, found))
        about = again.adaptation["transform"]
        assert again.adaptation["name"] == one.treatment and about["name"] == one.transform
        file = ready.predictor.path("weights.safetensors")
        assert found.cost["disk_bytes"] == file.stat().st_size < about["of"]["disk_bytes"]
        assert about["of"]["weights_sha256"] == given.predictor.weights_sha256
        for name in ("steps", "tokens", "flops"):  # the record has the sum and the transform's own cost
            assert found.cost[name] == plain.cost[name] + about["cost"][name]
        assert 0 < about["cost"]["seconds"]["total"] < found.cost["seconds"]["total"]
        assert (about["cost"]["flops"] > 0) == asked.startswith("prune")
        assert found.cost["parameters"] == plain.cost["parameters"] > found.cost["parameters_nonzero"]
        arrays = ready.predictor.arrays()
        if asked.startswith("prune"):
            pruned = [name.removesuffix("#mask") for name in arrays if name.endswith("#mask")]
            whole = packing.unpacked(arrays)
            assert pruned and all(name.endswith("kernel") for name in pruned) and whole.keys() == stored.keys()
            for name in pruned:
                assert np.mean(whole[name] == 0) == pytest.approx(0.75, abs=1 / whole[name].size)
            assert pruned_share(found.cost) == pytest.approx(0.75, abs=1e-3) and found.cost["bits_per_weight"] == 32
            assert found.curve[: len(plain.curve)] == plain.curve and len(found.curve) > len(plain.curve)
            left = {name for name in stored if "adapted/" in name or name.endswith("table")}
            assert not left & set(pruned)
        else:
            codes = [name for name, array in arrays.items() if array.dtype == np.int8]
            assert 8 < found.cost["bits_per_weight"] < 32 and any(name.endswith("kernel") for name in codes)
            assert any(name.endswith("#codes") for name in codes) == (asked == "int8")
            assert found.curve == plain.curve
            # The quantised model predicts nearly as before.
            report = tasks.load(task).examples(context.data, tasks.load(task).report)[:8]
            ours, theirs = predictor.load(ready.predictor), exact
            if ours.answer(report).probabilities is not None:
                left, right = (one.answer(report).probabilities for one in (ours, theirs))
                apart = [abs(a[key] - b[key]) for a, b in zip(left, right, strict=True) for key in b]
                assert max(apart) < 0.05


@pytest.mark.slow
def test_int8_equals_the_quantisation_of_keras(context):
    """Codes, scales and predictions equal the results of `quantize` on the trained network, bit for bit."""
    from ptmbench.bench.adapt.transforms.int8 import Settings
    from ptmbench.bench.adapt.transforms.int8.network import quantise

    cell = make("sst2", "bert", "finetune", seed=1)
    given = kept(cell, context)
    report = tasks.load("sst2").examples(context.data, "dev")[:16]
    for asked, settings in (("int8", Settings()), ("int8:activations=0", Settings(activations=0))):
        _, ready = transformed(f"{asked}{'+' if ':' in asked else ':'}embeddings=0", cell, given)
        found = predictor.load(ready.predictor)
        traced.cache_clear()  # a separate network, quantised with its own weights
        ours = predictor.load(given.predictor)
        network = ours.network
        quantise(network, settings)
        arrays = network.arrays()
        for name, array in ready.predictor.arrays().items():
            assert arrays[name].dtype == array.dtype and arrays[name].tobytes() == array.tobytes(), name
        assert found.answer(report).probabilities == ours.answer(report).probabilities
        traced.cache_clear()


@pytest.mark.parametrize(
    ("model", "adaptation", "asked", "code", "told"),
    [
        ("bert", "features", "prune", "nothing-learns", "because the adaptation features does not train the kernels"),
        ("bert", "adapters", "prune", "nothing-learns", "because the adaptation adapters does not train the kernels"),
        ("word2vec", "features", "prune", "no-kernels", "because this model has no kernels that could be p"),
        ("word2vec", "features", "int8:embeddings=0", "no-kernels", "because this model has no kernels that"),
        ("bert", "finetune", "prune:frequency=1000", "few-steps", "because masks are updated every 1000 steps, but p"),
        ("bert", "finetune", "prune:pattern=5x1+frequency=1", "pattern", "because encoder/stack/layer_0/"),
    ],
)
def test_models_without_weights_to_transform_give_the_reason(context, model, adaptation, asked, code, told):
    cell = make("sst2", model, adaptation)
    given = kept(cell, context)
    with pytest.raises(cells.NotApplicable) as raised:
        transformed(asked, cell, given)
    assert raised.value.code == code and str(raised.value).startswith(told)


def test_a_model_that_reads_only_the_embedding_has_no_blocks_to_transform(context):
    cell = make("sst2", "bert", "finetune", layers="embedding")
    given = kept(cell, context)
    told = "because the adaptation finetune with layers=embedding reads only the embedding, so the blocks of the"
    for asked in ("heads", "ffn", "layers", "gates", "theseus", "dynabert", "nasbert", "subnetwork", "adabert", "qat",
                  "qbert", "prune"):  # fmt: skip
        with pytest.raises(cells.NotApplicable) as raised:
            transformed(asked, cell, given)
        assert raised.value.code == "embedding-only" and str(raised.value).startswith(told)
    _, ready = transformed("prune:embeddings=1+schedule=constant+epochs=1", cell, given)
    arrays = packing.unpacked(ready.predictor.arrays())
    assert np.mean(arrays["encoder/embeddings/tokens/table"] == 0) == 0.5


@pytest.mark.parametrize(
    ("model", "adaptation"), [("bert", "features"), ("bert", "adapters"), ("word2vec", "features")]
)
def test_int8_works_with_adaptations_that_freeze_the_encoder(context, model, adaptation):
    cell = make("sst2", model, adaptation)
    given = kept(cell, context)
    one, ready = transformed("int8", cell, given)
    found = cells.run(one, ready)
    assert found.status == "ok", found.reason
    assert found.cost["disk_bytes"] < 0.8 * found.adaptation["transform"]["of"]["disk_bytes"]


def test_embeddings_head_and_patterns_are_pruned_on_request(context):
    cell = make("sst2", "bert", "finetune")
    given = kept(cell, context)
    _, ready = transformed("prune:schedule=constant+embeddings=1+head=1", cell, given)
    arrays = ready.predictor.arrays()
    pruned = {name.removesuffix("#mask") for name in arrays if name.endswith("#mask")}
    assert any(name.endswith("table") for name in pruned) and any(name.startswith("adapted/") for name in pruned)
    _, ready = transformed("prune:pattern=2:4", cell, given)
    arrays = ready.predictor.arrays()
    kernel = packing.unpacked(arrays)["encoder/stack/layer_0/attention/projection/kernel"]
    groups = kernel.T.reshape(-1, 4)
    assert np.all(np.sum(groups == 0, axis=1) == 2)


@pytest.mark.parametrize("adaptation", ["fastbert", "pabee"])
def test_the_head_of_an_early_exit_is_its_classifiers(context, adaptation):
    """The classifiers of all lower layers are one array. The branches of `fastbert` are not part of the head."""
    cell = make("sst2", "bert", adaptation, epochs=2)
    given = kept(cell, dataclasses.replace(context, shape=dataclasses.replace(context.shape, layers=3)))
    _, ready = transformed("prune:schedule=constant+head=1+epochs=2", cell, given)
    network = predictor.load(ready.predictor).network
    kernels = (network.head.teacher.kernel, network.head.students.kernel)
    names = {name for name, variable in network.named_variables() if any(variable is one for one in kernels)}
    assert {name for name in ready.predictor.about["transform"]["changed"] if name.startswith("adapted/")} == names
    assert all(np.mean(one.numpy() == 0) == 0.5 for one in kernels)
    with pytest.raises(cells.NotApplicable, match="cannot be divided by the pattern 2:4"):
        transformed("prune:pattern=2:4+head=1+epochs=2", cell, given)


def test_the_unpruned_control_trains_for_the_same_number_of_steps(context):
    cell = make("sst2", "bert", "finetune")
    given = kept(cell, context)
    found = []
    for asked in ("prune:sparsity=0+frequency=1", "prune:sparsity=0.5+frequency=1"):
        one, ready = transformed(asked, cell, given)
        found.append(cells.run(one, ready))
        assert found[-1].status == "ok", found[-1].reason
    twin, pruned = (one.cost for one in found)
    assert (pruned_share(twin), pruned_share(pruned)) == (0, 0.5) and twin["steps"] == pruned["steps"]
    assert twin["parameters_nonzero"] == twin["parameters"]


def test_a_saved_transformed_model_predicts_the_same(context, capsys):
    cell = make("sst2", "bert", "finetune")
    one, ready = transformed("prune:frequency=1", cell, kept(cell, context))
    out = context.out / "kept"
    found = cells.run(one, dataclasses.replace(ready, keep=True, out=out))
    (folder,) = (out / "adapted").iterdir()
    assert folder.name == "random-bert-tiny.sst2.finetune-prune-frequency-1.s0"
    again = checkpoint.read(folder)
    assert again.weights_sha256 == ready.predictor.weights_sha256 and again.about["transform"]["name"] == one.transform
    arguments = ["predict", str(folder), "--data", str(context.data), "--split", "dev", "--out", str(out / "p")]
    assert main(arguments) == OK
    lines = (out / "p" / "sst2.dev.jsonl").read_text().splitlines()
    answers = [json.loads(line)["prediction"] for line in lines][: found.task["examples"]]
    examples = tasks.load("sst2").examples(context.data, "dev")[: found.task["examples"]]
    assert answers == predictor.load(ready.predictor).answer(examples).predictions


def test_conditions_are_evaluated_with_the_transformed_model(context):
    cell = make("sst2", "bert", "finetune")
    one, ready = transformed("int8", cell, kept(cell, context))
    noisy = {"share": 1.0, "kinds": "insert+delete+swap+mistype"}
    under = {"condition": "misspellings:share=1.0", "condition_settings": noisy, "condition_version": 1}
    found = cells.run(dataclasses.replace(one, **under), ready)
    assert found.status == "ok", found.reason
    assert found.task["name"] == "sst2@misspellings:share=1.0" and found.adaptation["name"] == "finetune>int8"


# Real processes ------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.options import CellOptions, OutputOptions, RunOptions, TrainingOptions, WorkerOptions
from ptmbench.bench.runs.run import run_suite

sys.exit(run_suite(RunOptions(
    suite="demo", data=Path(sys.argv[1]), models=("bert",), baselines=False,
    cells=CellOptions(tasks=("sst2",), seeds=1, transforms=("prune:frequency=7+epochs=4",),
                      settings={"length": 32, "batch": 4, "max_steps": 20}),
    training=TrainingOptions(budget=Budget(steps=20), recipe={"batch": 4, "length": 32}, vocabulary=300),
    workers=WorkerOptions(jobs=1, threads=1),
    output=OutputOptions(out=Path(sys.argv[2]), save_every=float(sys.argv[3]), keep=True),
)))
"""


@pytest.mark.slow
def test_a_run_killed_during_pruning_resumes_to_the_same_weights(world, tmp_path):
    log = tmp_path / "log"

    def begin(out, save_every):
        with open(log, "w") as file:
            arguments = [sys.executable, "-c", SCRIPT, world, out, str(save_every)]
            return subprocess.Popen(arguments, cwd=ROOT, stderr=file)

    assert begin(tmp_path / "straight", 600).wait(timeout=PATIENCE) == OK, log.read_text()
    whole = Plan.from_json((tmp_path / "straight" / "plan.json").read_text())
    (pruned,) = (one for one in whole.artefacts if isinstance(one, TransformedModel))
    out = tmp_path / "killed"
    process = begin(out, 0.05)
    unfinished = pruned.place(out) / "unfinished"
    wait_for(lambda: len(list(unfinished.glob("*/*/step-*/manifest.json"))) > 1 or process.poll() is not None)
    process.kill()
    assert process.wait() == -signal.SIGKILL, log.read_text()
    time.sleep(1.5)  # its worker sees the pipe close and stops
    states = sorted(unfinished.glob("*/*/step-*/manifest.json"))
    assert states and not pruned.checkpoint(out).exists()
    assert begin(out, 600).wait(timeout=PATIENCE) == OK, log.read_text()
    assert "goes on at step" in log.read_text()
    ours, theirs = (checkpoint.read(pruned.checkpoint(tmp_path / name)) for name in ("killed", "straight"))
    assert ours.weights_sha256 == theirs.weights_sha256
    one, other = (by_treatment(tmp_path / name) for name in ("killed", "straight"))
    assert one.keys() == other.keys() == {"finetune", "finetune>prune:frequency=7+epochs=4"}
    for name, found in one.items():
        for part in ("key", "scores", "curve", "predictions", "task"):
            assert getattr(found, part) == getattr(other[name], part)
        for part in ("steps", "tokens", "flops", "flops_evaluate", "disk_bytes", "zero_weights"):
            assert found.cost.get(part) == other[name].cost.get(part)
    assert pruned_share(one["finetune>prune:frequency=7+epochs=4"].cost) == pytest.approx(0.5, abs=1e-6)


def by_treatment(out):
    return {one.adaptation["name"]: one for one in map(record.read, (out / "records").glob("*.json"))}
