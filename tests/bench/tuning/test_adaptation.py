"""Tuning adaptations: trials of models and their random twins, the result, and what cannot be tuned."""

import json

import pytest

from ptmbench import tasks
from ptmbench.bench.adapt import settings
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs import examples
from ptmbench.bench.runs.artefacts import Cell, Row
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.tuning import records, search, tables, tuned_settings
from ptmbench.tasks.forms import Form
from tests.bench import asking
from tests.bench.tuning.asked import SMALL_ADAPTATION, adapting, unmeasured


@pytest.mark.slow
def test_a_tuning_writes_sealed_trials_and_a_result(here, world, tmp_path, capsys):
    adapted = tmp_path / "tuned"
    body = adapting(adapted, world)
    capsys.readouterr()
    found = {(one["row"], one["task"]): one for one in body["adaptations"]}
    assert set(found) == {(row, task) for row in ("word2vec", "random-word2vec") for task in ("sst2", "cola")}
    assert not body["untuned"]
    for one in found.values():
        first, last = one["rungs"]
        assert one["trials"] == 4 and [line["number"] for line in first["trials"]] == [0, 1, 2, 3]
        best = min(first["trials"][1:], key=lambda line: (line["loss"], line["number"]))
        assert [line["number"] for line in last["trials"]] == [0, best["number"]]
        assert (first["budget"], last["budget"]) == ({"seeds": 1}, {"seeds": 2})
        assert one["loss"]["tuned"] == min(line["loss"] for line in last["trials"]) <= one["loss"]["own"]
    twin, model = found["random-word2vec", "sst2"], found["word2vec", "sst2"]
    assert twin["tried"] == model["tried"] and twin["own"] == model["own"], "the same trials for both"
    assert twin["pretraining"] == "" != model["pretraining"]

    files = [records.read(path) for path in (adapted / "trials").iterdir()]
    assert len(files) == 4 * (4 + 2), "the second seed of two trials, and none twice"
    assert {one["seed"] for one in files} == {1000, 1001}
    assert {one["held_out"]["examples"] for one in files} == {12}, "a fifth of 60"
    assert sum(map(records.flops_of, files)) == pytest.approx(body["flops"])
    assert all(one["steps"] > 0 and one["loss"] == -one["score"] for one in files)
    assert not list(adapted.glob("unfinished/*"))

    lines = tables.adaptation_frame(adapted)
    assert list(lines.columns) == [*tables.ADAPTED] and len(lines) == 4 * 6
    mine = lines[(lines.row == "word2vec") & (lines.task == "sst2") & lines.winner & (lines.rung == 2)]
    assert mine.score.item() == pytest.approx(-model["loss"]["tuned"])
    assert adapting(adapted, world) == body
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].split("\t")[:5] == ["word2vec", "tiny", "sst2", "finetune", "4"]
    assert unmeasured(adapting(tmp_path / "other", world)) == unmeasured(body), "another folder, the same result"


@pytest.mark.slow
def test_diverged_trials_are_recorded(here, world, tmp_path):
    """Their cost up to the divergence counts."""
    options = {"models": ("bert",), "tasks": ("sst2",), "baselines": False, "settings": {"learning_rate": 1e30}}
    body = adapting(tmp_path, world, **options)
    (one,) = body["adaptations"]
    assert one["loss"]["own"] is None and one["winner"] in (0, 1, 2, 3)
    diverged = [found for path in (tmp_path / "trials").iterdir() if (found := records.read(path))["status"] != "ok"]
    assert diverged and all(found["steps"] >= 1 and found["flops"] > 0 and found["reason"] for found in diverged)
    assert tables.adaptation_frame(tmp_path).score.isna().any()


@pytest.mark.slow
def test_adaptations_that_do_not_apply_are_left_untuned(here, world, tmp_path, capsys):
    """Generation has no frozen features. A run leaves such a cell untuned too."""
    options = {"adaptations": ("features",), "tasks": ("sst2", "aeslc"), "baselines": False, "trials": 2, "seeds": 1}
    body = adapting(tmp_path, world, **options)
    assert [one["task"] for one in body["adaptations"]] == ["sst2"]
    assert [(one["task"], one["status"]) for one in body["untuned"]] == [("aeslc", "not_applicable")]
    assert "word2vec tiny aeslc features was not tuned, because" in capsys.readouterr().err


def test_plans_with_trials_are_restored_from_json(world, tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(search, "work", lambda what, whole, *_: found.append(whole))
    with pytest.raises(RuntimeError, match="Not all trials of word2vec-tiny sst2 finetune could be trained"):
        asking.tune(**(SMALL_ADAPTATION | {"data": world, "out": tmp_path}))
    (whole,) = found
    assert Plan.from_json(whole.to_json()) == whole
    kinds = [one.kind for one in whole.artefacts]
    assert kinds.count("adaptation-trial") == 16 and kinds.count("pretraining") == 1


def test_held_out_examples_are_neither_trained_on_nor_reported(world):
    """They are the same for every seed and model. The run itself trains on them."""
    task = tasks.load("sst2")
    data = {"row": Row.parse("word2vec", "tiny"), "task": "sst2", "task_version": 1, "form": Form.CLASSIFICATION}
    data |= {"data_sha256": "", "adaptation": "finetune", "settings": {}, "tokenizer": "", "limit": 200}
    own = settings.defaults(Form.CLASSIFICATION, "finetune")
    parts = [examples.parts_to_tune(Cell(**data, seed=seed), world, task, own, 30) for seed in (1000, 1001)]
    whole = examples.splits(task, world, own, 200, 0)
    ids = [{name: {e.id for e in part} for name, part in one.by_name().items()} for one in (*parts, whole)]
    assert ids[0] == ids[1] and len(ids[0]["report"]) == 30
    assert not ids[0]["report"] & (ids[0]["train"] | ids[0]["selection"])
    kept = {e.id for e in examples.read(task, world, "train")[:200]}
    assert ids[0]["report"] | ids[0]["train"] | ids[0]["selection"] == kept
    reported = {e.inputs for e in whole.report}
    assert not {e.inputs for e in parts[0].report} & reported
    many = examples.parts_to_tune(Cell(**data, seed=0), world, task, own, 1000)
    assert len(many.report) == 40, "a fifth of 200"
    assert ids[0]["report"] != {e.id for e in whole.selection}


@pytest.mark.slow
def test_the_cost_of_trials_is_counted(here, world, tmp_path):
    """It covers training, model selection and the held-out examples, but not the pre-training."""
    options = {"models": ("bert",), "tasks": ("sst2",), "baselines": False, "trials": 2, "seeds": 1}
    body = adapting(tmp_path, world, **options)
    files = [records.read(path) for path in (tmp_path / "trials").iterdir()]
    assert all(one["flops"] > 2 * one["held_out"]["flops"] > 0 for one in files)
    assert body["flops"] == pytest.approx(sum(one["flops"] + one["held_out"]["flops"] for one in files))
    assert body["pretraining_flops"] > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"share": 0.5}, "share is for the tuning of pre-trainings: adaptations are trained whole"),
        ({"models": ("majority",)}, "majority is a baseline, so there is nothing to tune"),
        ({"adaptations": ("prompt",)}, "no adaptation of these tasks trains weights"),
        ({"tasks": ("wikitext2",)}, "no adaptation of these tasks trains weights"),
        ({"adaptations": ("finetuning",)}, "There is no adaptation 'finetuning'"),
        ({"suite": "glue", "data": None}, "'glue' needs data: give its folder with --data"),
    ],
)
def test_invalid_tunings_are_rejected(world, tmp_path, changes, said):
    with pytest.raises(UsageError, match=said):
        asking.tune(**(SMALL_ADAPTATION | {"data": world, "out": tmp_path / "out", "dry_run": True} | changes))
    assert not (tmp_path / "out").exists()


def test_a_dry_run_prints_the_cost(world, tmp_path, capsys):
    asking.tune(**(SMALL_ADAPTATION | {"data": world, "out": tmp_path / "out", "dry_run": True}))
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines[1][:3] == ["word2vec", "tiny", "pre-training"]
    assert [line[:5] for line in lines[2:4]] == [
        ["word2vec", "tiny", "sst2", "finetune", "6"], ["word2vec", "tiny", "cola", "finetune", "6"]
    ]  # fmt: skip
    assert not (tmp_path / "out" / "trials").exists()


def test_a_changed_result_is_rejected(adapted, world, tmp_path):
    path = adapted / tuned_settings.FILE
    body = json.loads(path.read_text())
    body["adaptations"][0]["changes"] = {"learning_rate": 1.0}
    path.write_text(json.dumps(body))
    with pytest.raises(
        ValueError, match=r"tuned-settings.json does not match its seal.*Run the command again that made it"
    ):
        asking.run_suite(suite="demo", data=world, out=tmp_path / "run", tuned=adapted, dry_run=True)
