"""Cells of every form, from data to record, with small networks and few examples."""

import dataclasses
import gzip
import json
import re
import shutil

import pytest

from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.built import adapted, traced
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs import pretrain
from ptmbench.leaderboard.records import record
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.tasks import load
from tests.bench.cells import SHAPE, check_resumed, make

FORMS = [  # a task of each form, with a model that supports it
    ("sst2", "bert", "finetune"),
    ("sst2", "bert", "features"),
    ("rte", "elmo", "features"),
    ("sst2", "lm_lstm", "ulmfit"),
    ("stsb", "electra", "finetune"),
    ("conll2003", "elmo", "finetune"),
    ("conll2003", "word2vec", "features"),
    ("squad11", "bert", "finetune"),
    ("copa", "gpt", "finetune"),
    ("multi30k-en-mw", "t5", "finetune"),
    ("aeslc", "gpt", "finetune"),
    ("wikitext2", "elmo", "likelihood"),
]


def test_a_model_without_a_channel_that_the_task_needs_is_not_applicable(context, monkeypatch):
    task_with_regions = dataclasses.replace(load("sst2"), needs=("regions", "boxes"))
    monkeypatch.setattr(cells.tasks, "load", lambda name: task_with_regions)
    found = cells.run(make("sst2", "bert", "finetune"), context)
    assert (found.status, found.reason["code"]) == ("not_applicable", "no-channel")
    assert found.reason["text"] == "because this model does not read image regions or the boxes of image regions."


@pytest.mark.parametrize("task, model, adaptation", FORMS)
def test_every_form_runs_from_data_to_a_sealed_record(context, task, model, adaptation):
    result = cells.run(make(task, model, adaptation), dataclasses.replace(context, keep=True))
    assert result.status == "ok", result.reason
    found = record.read(record.write(context.out, result))
    assert found.task["source"] == "microworld, first 48" and found.task["examples"] > 0
    assert found.row["tokenizer"] == context.tokenizer.about and found.adaptation["version"] == 1
    value = found.headline
    assert value["low"] <= value["value"] <= value["high"]
    assert found.cost["parameters"] > 0 and found.cost["seconds"]["total"] > 0
    assert found.cost["threads"] >= 1 and set(found.cost["energy"]) <= {"joules", "source", "reason"}
    assert found.cost["flops_evaluate"] > 0 or model == "word2vec"
    assert 4 * found.cost["parameters"] < found.cost["disk_bytes"] < 5 * found.cost["parameters"]  # with headers
    evaluated = found.cost["latency_seconds"] * found.task["examples"]
    assert 0 < evaluated == pytest.approx(found.cost["seconds"]["evaluate"], abs=1e-3)
    seconds = found.cost["seconds"]
    assert sum(seconds.values()) == pytest.approx(2 * seconds["total"], abs=0.02) and seconds["evaluate"] > 0
    if adaptation != "likelihood":
        assert found.cost["steps"] > 0 and found.curve
        (kept,) = (context.out / "adapted").iterdir()
        stored = {name: array.size for name, array in checkpoint.read(kept).arrays().items()}
        head = sum(size for name, size in stored.items() if name.startswith("adapted/"))
        assert sum(stored.values()) == found.cost["parameters"] + head
        assert found.cost["disk_bytes"] == (kept / "weights.safetensors").stat().st_size
        assert found.cost["flops"] > 0 or model == "word2vec"  # a lookup multiplies nothing
    assert (context.out / found.predictions["file"]).stat().st_size > 0
    assert ("signatures" in found.task) == task.startswith("multi30k")  # sacrebleu's signature


def test_tagging_supports_a_crf_and_document_context(context):
    plain = make("conll2003", "bert", "finetune")
    cell = make("conll2003", "bert", "finetune", crf=1, context=1)
    assert cell.settings == plain.settings | {"crf": 1, "context": 1} and cell.key != plain.key
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    assert result.cost["tokens"] > cells.run(plain, context).cost["tokens"]


@pytest.mark.parametrize(
    "task, model, adaptation, code",
    [
        ("multi30k-en-mw", "bert", "finetune", "no-decoder"),
        ("multi30k-en-mw", "t5", "features", "no-head"),
        ("wikitext2", "bert", "likelihood", "not-a-language-model"),
        ("qqp", "bert", "finetune", "missing-data"),
    ],
)
def test_impossible_cells_are_not_applicable_with_a_reason(context, task, model, adaptation, code):
    result = cells.run(make(task, model, adaptation), context)
    assert (result.status, result.reason["code"]) == ("not_applicable", code), result.reason
    assert result.reason["text"].startswith("because ")
    record.write(context.out, result)


def test_the_seed_determines_all_results_and_the_traced_step_is_shared(context):
    def scores(seed):
        result = cells.run(make("sst2", "bert", "finetune", seed, epochs=2), context)
        return result.curve, dict(result.scores), result.predictions["sha256"]

    first = scores(0)
    hits = traced.cache_info().hits
    other = scores(1)
    again = scores(0)
    assert first == again and first[0] != other[0]
    assert traced.cache_info().hits == hits + 2


@pytest.mark.parametrize(
    ("cell", "kill"),
    [
        (make("sst2", "bert", "finetune", batch=16), 2),
        (make("conll2003", "elmo", "features", batch=16), 2),
        pytest.param(make("sst2", "lm_lstm", "ulmfit", batch=8), 7, marks=pytest.mark.slow),
        pytest.param(make("multi30k-en-mw", "t5", "unsupervised", batch=16, constrained=4), 2, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "adaptation", None),
)
def test_a_killed_cell_resumes_and_ends_with_the_same_record(context, cell, kill, monkeypatch):
    check_resumed(cell, context, kill, monkeypatch)


def test_frozen_features_do_not_change_the_encoder(context, tokenizer):
    cells.run(make("sst2", "bert", "features"), context)
    settings = adaptation_settings.defaults(load("sst2").form, "features")
    network = adapted("bert", SHAPE, tokenizer, load("sst2").form, "features", 4, adaptation_settings.baked(settings))
    from ptmbench.bench.adapt.built import random_weights

    before = random_weights("bert", SHAPE, tokenizer, 0)
    assert all((before[v.path] == v.numpy()).all() for v in network.network.encoder.variables)


def test_a_pretrained_checkpoint_is_read_and_its_cost_is_recorded(context, world, tokenizer, tmp_path, monkeypatch):
    from ptmbench.models.masked_language_modeling import bert

    monkeypatch.setitem(bert.SIZES, "tiny", SHAPE)
    corpus = corpora.load((str(world / "corpus"),), tokenizer)
    recipe = recipe_of({"batch": 4, "length": 32})
    options = {
        "corpus": corpus,
        "tokenizer": tokenizer,
        "budget": Budget(tokens=512),
        "recipe": recipe,
        "about": {"corpus": "mw"},
    }
    pretrained = pretrain.pretrain("bert", "tiny", out=tmp_path / "checkpoint", **options)
    assert pretrained.about["steps"] == 4 and pretrained.about["tokens"] == 512 and pretrained.about["flops"] > 0
    assert (
        pretrained.about["peak_memory_bytes"] > 0
        and "joules" in pretrained.about["energy"]
        and pretrained.about["device"]
    )
    assert {"build", "trace", "compile", "train", "wait"} <= set(pretrained.about["spent"])
    assert not (tmp_path / "checkpoint.training").exists()
    with_weights = dataclasses.replace(context, weights=checkpoint.read(tmp_path / "checkpoint"), keep=True)
    result = cells.run(make("rte", "bert", "finetune", kind="pretrained"), with_weights)
    assert result.status == "ok", result.reason
    assert result.pretraining["steps"] == 4 and result.pretraining["weights_sha256"] == pretrained.weights_sha256
    (folder,) = (context.out / "adapted").iterdir()

    from ptmbench.bench.options import PredictOptions
    from ptmbench.bench.runs.predict import predict

    out = tmp_path / "predictions"
    predict(PredictOptions(checkpoints=[folder], split="dev", data=world, out=out))
    lines = [json.loads(line) for line in (out / "rte.dev.jsonl").read_text().splitlines()]
    assert len(lines) == 300 and {line["prediction"] for line in lines} <= set(load("rte").labels)


def test_a_model_trained_on_few_examples_gives_the_same_predictions_later(context, world, tmp_path):
    """The scale of a regression is that of its training examples, which a limit draws from the seed."""
    cell = make("stsb", "bert", "finetune", train_limit=12)
    result = cells.run(cell, dataclasses.replace(context, keep=True))
    assert result.status == "ok", result.reason
    (folder,) = (context.out / "adapted").iterdir()

    from ptmbench.bench.options import PredictOptions
    from ptmbench.bench.runs.predict import predict

    predict(PredictOptions(checkpoints=[folder], split="dev", data=world, out=tmp_path / "predictions"))
    lines = [json.loads(line) for line in (tmp_path / "predictions/stsb.dev.jsonl").read_text().splitlines()]
    with gzip.open(context.out / result.predictions["file"], "rt") as file:
        before = [json.loads(line)["prediction"] for line in file]
    assert [line["prediction"] for line in lines[: len(before)]] == pytest.approx(before, abs=1e-5)
    # Only the requested split is read: the training set may be missing.
    (tmp_path / "other/glue/STS-B").mkdir(parents=True)
    shutil.copy(world / "glue/STS-B/dev.tsv", tmp_path / "other/glue/STS-B/dev.tsv")
    predict(PredictOptions(checkpoints=[folder], split="dev", data=tmp_path / "other", out=tmp_path / "again"))
    again = (tmp_path / "again/stsb.dev.jsonl").read_text()
    assert again == (tmp_path / "predictions/stsb.dev.jsonl").read_text()
    # A checkpoint without the state of its codec comes from an earlier version.
    found = checkpoint.read(folder)
    texts = {"tokenizer.json": found.path("tokenizer.json").read_text()}
    old = checkpoint.write(tmp_path / "old", about=found.about, arrays={"weights": found.arrays()}, texts=texts)
    with pytest.raises(checkpoint.CheckpointError, match=r"lacks codec\.json, .* Run the cell again with --keep\."):
        predict(PredictOptions(checkpoints=[old.folder], split="dev", data=world, out=tmp_path / "none"))


def test_a_diverging_pre_training_reports_its_step(context, tokenizer, world, tmp_path):
    corpus = corpora.load((str(world / "corpus"),), tokenizer)
    with pytest.raises(pretrain.Diverged, match="step 2 "):
        pretrain.pretrain(
            "word2vec",
            "tiny",
            corpus=dataclasses.replace(corpus, ids=corpus.ids),
            tokenizer=tokenizer,
            budget=Budget(steps=3),
            out=tmp_path / "diverged",
            recipe=recipe_of({"batch": 4, "length": 32, "learning_rate": 1e30}),
        )
    assert not (tmp_path / "diverged").exists()


def test_missing_weights_and_weights_of_another_shape_are_rejected(tokenizer):
    network = networks.build("bert", SHAPE, tokenizer, 0)
    arrays = networks.weights(network.loss.variables)
    name = next(iter(arrays))
    with pytest.raises(checkpoint.CheckpointError, match="is missing"):
        networks.assign(network.loss.variables, {k: v for k, v in arrays.items() if k != name})
    with pytest.raises(checkpoint.CheckpointError, match="has shape"):
        networks.assign(network.loss.variables, arrays | {name: arrays[name][:1]})


def test_cells_with_a_corpus_unfit_for_the_objective_are_not_applicable(context, tokenizer, world, tmp_path):
    """CoVe learns from pairs. With running text its cells are not applicable, and their records say what is needed."""
    with pytest.raises(CorpusUnfit) as caught:
        pretrain.pretrain(
            "cove",
            "tiny",
            corpus=corpora.load((str(world / "corpus"),), tokenizer),
            tokenizer=tokenizer,
            budget=Budget(steps=1),
            out=tmp_path / "cove",
        )
    status, reason = cells.failure(caught.value)
    result = cells.unrun_record(make("sst2", "cove", "features"), context, status, reason)
    record.write(tmp_path, result)
    assert result.status == "not_applicable" and result.reason["code"] == "unfit-corpus"
    assert re.match("because this model learns from texts beside their translations, and document 1 of", reason["text"])
    assert not (tmp_path / "cove").exists()


@pytest.mark.slow
def test_cove_learns_from_translation_pairs_and_runs_on_tasks(context, world, tokenizer, tmp_path, monkeypatch):
    """From the microworld's pairs, through a checkpoint, to a tagger with frozen vectors and to translations."""
    from ptmbench.models.other_objectives import cove

    monkeypatch.setitem(cove.SIZES, "tiny", SHAPE)
    pretrained = pretrain.pretrain(
        "cove",
        "tiny",
        corpus=corpora.load((str(world / "pairs"),), tokenizer),
        tokenizer=tokenizer,
        budget=Budget(steps=100),
        out=tmp_path / "cove",
        recipe=recipe_of({"batch": 16, "length": 48}),
    )
    losses = [point["loss"] for point in pretrained.about["curve"]]
    assert losses[-1] < 0.9 * losses[0]
    with_weights = dataclasses.replace(context, weights=checkpoint.read(tmp_path / "cove"))
    for task, adaptation in (("conll2003", "features"), ("multi30k-en-mw", "finetune")):
        result = cells.run(make(task, "cove", adaptation, kind="pretrained"), with_weights)
        assert result.status == "ok", result.reason
        assert result.pretraining["weights_sha256"] == pretrained.weights_sha256
