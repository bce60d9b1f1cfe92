"""Tuning pre-trainings: trials and their records, the result, and what cannot be tuned."""

import math

import pytest

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import CELLS_FAILED, UsageError
from ptmbench.bench.options import TuneOptions, WorkerOptions
from ptmbench.bench.runs import estimate
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.tuning import records, search, tables, tuned
from ptmbench.bench.runs.tuning.tuned import Tuned
from ptmbench.leaderboard.records.record import RecordError
from tests.bench import asking
from tests.bench.tuning.asked import SMALL, tuning, unmeasured


def test_a_tuning_writes_sealed_trials_and_a_result(ended, world, tmp_path, capsys):
    body = Tuned.read(ended).body
    (one,) = body["models"]
    assert (one["model"], one["size"], one["trials"], body["untuned"]) == ("word2vec", "tiny", 4, [])
    assert [[trial["number"] for trial in rung["trials"]] for rung in one["rungs"]][0] == [0, 1, 2, 3]
    first, last = one["rungs"]
    best = min(first["trials"][1:], key=lambda trial: trial["loss"])
    assert [trial["number"] for trial in last["trials"]] == [0, best["number"]]
    assert first["budget"] == {"tokens": 6000} and last["budget"] == {"tokens": 18_000}
    assert one["loss"]["tuned"] == min(trial["loss"] for trial in last["trials"]) <= one["loss"]["own"]
    files = {path.name: records.read(path) for path in (ended / "trials").iterdir()}
    assert len(files) == 6 and sum(map(records.flops_of, files.values())) == pytest.approx(one["flops"])
    assert body["flops"] == one["flops"] and body["needed_flops"] == 0
    for found in files.values():
        recipe, held = found["recipe"], found["held_out"]
        assert found["tokens"] == found["steps"] * recipe["batch"] * 32
        assert found["loss"] == held["loss"] and held["rows"] * 32 <= 2000
    assert not list((ended / "unfinished").iterdir()), "the weights of trials go"

    lines = tables.frame(ended)
    assert list(lines.columns) == [*tables.COLUMNS] and len(lines) == 6
    assert lines[lines.winner & (lines.rung == 2)].loss.item() == one["loss"]["tuned"]
    before = {path: path.stat().st_mtime_ns for path in (ended / "trials").iterdir()}
    again = tuning(ended, world)
    assert again == body and before == {path: path.stat().st_mtime_ns for path in (ended / "trials").iterdir()}
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].split("\t")[:3] == ["word2vec", "tiny", "4"] and printed[-1].startswith("total\t")
    assert unmeasured(tuning(tmp_path / "other", world)) == unmeasured(body), "another folder, the same result"


@pytest.mark.slow
def test_probes_rank_trials_by_scores_on_training_examples(here, world, tmp_path, capsys):
    body = tuning(tmp_path, world, probe=("sst2", "cola"), seeds=2, settings={"epochs": 1, "train_limit": 40})
    (one,) = body["models"]
    assert body["probe"] == ["sst2", "cola"]
    files = [records.read(path) for path in (tmp_path / "trials").iterdir()]
    assert len(files) == 6 and sum(map(records.flops_of, files)) == pytest.approx(one["flops"])
    for found in files:
        probes = found["probes"]
        assert [(probe["task"], probe["seed"]) for probe in probes] == [
            ("sst2", 1000), ("sst2", 1001), ("cola", 1000), ("cola", 1001)
        ]  # fmt: skip
        assert found["loss"] == pytest.approx(-sum(probe["score"] for probe in probes) / 4) != found["held_out"]["loss"]
        assert all(probe["examples"] > 0 and probe["metric"] for probe in probes)
    last = {trial["number"]: trial["loss"] for trial in one["rungs"][-1]["trials"]}
    assert last[one["winner"]] == min(last.values()), "a higher score is a lower loss"
    lines = tables.frame(tmp_path)
    assert lines.loss.isna().all() and lines[lines.winner & (lines.rung == 2)].score.item() == -one["loss"]["tuned"]
    assert "score with own recipe" in capsys.readouterr().out and not list((tmp_path / "unfinished").iterdir())
    _, tuning_of = Tuned.read(tmp_path).of("word2vec", "tiny", Budget(tokens=18_000), "")
    assert tuning_of == {"trials": 4, "flops": one["flops"], "probe": ["sst2", "cola"]}


@pytest.mark.slow
def test_a_probe_without_a_score_marks_its_trial_as_diverged(here, world, tmp_path, monkeypatch):
    cost = {"flops": 1.0, "flops_evaluate": 1.0, "seconds": {"total": 1.0}}
    monkeypatch.setattr("ptmbench.bench.runs.cell.score_on_held_out", lambda *_: (math.nan, 1, cost))
    (one,) = tuning(tmp_path, world, probe=("sst2",), seeds=1, trials=2)["models"]
    assert one["loss"] == {"own": None, "tuned": None}
    found = records.read(next((tmp_path / "trials").iterdir()))
    assert (found["status"], found["reason"]) == ("diverged", "The score of a probe is not a number.")


def test_plans_with_probes_are_restored_from_json(world, tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(search, "work", lambda what, whole, *_: found.append(whole))
    for probe in (None, ("sst2",), ("cola",)):
        with pytest.raises(RuntimeError, match="Not all trials of word2vec tiny could be trained"):
            asking.tune(**(SMALL | {"data": world, "out": tmp_path, "probe": probe}))
        assert Plan.from_json(found[-1].to_json()) == found[-1]
    keys = [{one.key for one in whole.ends} for whole in found]
    assert len(keys[0] | keys[1] | keys[2]) == 12, "other probes are other trials"
    assert {cell.pretraining for one in found[1].ends for cell in one.probes} == {
        one.pretraining.key for one in found[1].ends
    }


@pytest.mark.slow
def test_tuning_raises_a_learning_rate_that_is_far_too_small(here, world, tmp_path):
    """The recipe sets a rate that is 64 times too small. Trials reach up to eight times that rate."""
    rate = 1e-2 / 64
    recipe = SMALL["recipe"] | {"learning_rate": rate}
    body = tuning(tmp_path, world, recipe=recipe, trials=10, budget=Budget(tokens=120_000))
    (one,) = body["models"]
    assert one["own"]["learning_rate"] == rate and one["winner"] != 0
    assert one["changes"]["learning_rate"] > 2 * rate and one["loss"]["tuned"] < one["loss"]["own"] - 0.05


def test_diverged_trials_are_recorded(here, world, tmp_path, capsys):
    body = tuning(tmp_path, world, recipe=SMALL["recipe"] | {"learning_rate": 1e38})
    (one,) = body["models"]
    assert one["loss"]["own"] is None and one["rungs"][0]["trials"][0]["status"] == "diverged"
    assert "diverged" in capsys.readouterr().out
    diverged = [found for path in (tmp_path / "trials").iterdir() if (found := records.read(path))["loss"] is None]
    assert diverged and all(found["steps"] >= 1 and found["flops"] > 0 and found["reason"] for found in diverged)


@pytest.mark.slow
def test_a_model_that_cannot_be_tuned_is_named_with_its_reason(here, world, tmp_path, capsys):
    options = SMALL | {"data": world, "out": tmp_path, "models": ("word2vec", "ernie_thu")}
    assert asking.tune(**options) == CELLS_FAILED
    assert "ernie_thu tiny could not be tuned: because" in capsys.readouterr().err
    body = Tuned.read(tmp_path).body
    assert [one["model"] for one in body["models"]] == ["word2vec"] and body["untuned"][0]["model"] == "ernie_thu"
    with pytest.raises(UsageError, match=r"has no recipe for ernie_thu tiny: because.*Leave it out with --models"):
        Tuned.read(tmp_path).of("ernie_thu", "tiny", Budget(tokens=18_000), "")


def test_damaged_trials_are_repeated_and_damaged_results_rejected(ended, world, capsys):
    body = Tuned.read(ended).body
    path = next(iter((ended / "trials").iterdir()))
    text = path.read_text()
    path.write_text(text.replace('"steps": ', '"steps": 1'))
    assert unmeasured(tuning(ended, world)) == unmeasured(body)
    said = capsys.readouterr().err
    assert f"{path} does not match its seal" in said and "This trial is trained anew." in said
    path.write_text(text[:100])
    tuning(ended, world)
    assert f"{path} is damaged: it is not sealed JSON." in capsys.readouterr().err
    found = ended / tuned.FILE
    found.write_text(found.read_text().replace('"trials": 4', '"trials": 400'))
    with pytest.raises(RecordError, match=r"does not match its seal.*Run the command again that made it"):
        Tuned.read(ended)
    found.write_text(path.read_text())
    with pytest.raises(RecordError, match="is a file of kind trial, schema 1, not tuned"):
        Tuned.read(found)


def test_plans_with_trials_are_restored_from_json(world, tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(search, "work", lambda what, whole, *_: found.append(whole))
    with pytest.raises(RuntimeError, match="Not all trials of word2vec tiny could be trained"):
        asking.tune(**(SMALL | {"data": world, "out": tmp_path}))
    (whole,) = found
    assert Plan.from_json(whole.to_json()) == whole and len(whole.ends) == len(whole.groups()) == 4
    assert [one.kind for one in whole.artefacts] == ["tokenizer", *["trial"] * 4]
    assert len({one.pretraining.held_out for one in whole.ends}) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget": Budget(steps=100)}, "--steps 100. Trials have other batches, .* Give --flops"),
        ({"budget": Budget(tokens=4000)}, r"pays for 5 steps with a batch of 8, and at least 10 are needed"),
        ({"models": ("majority",)}, "majority is not pre-trained, so there is nothing to tune"),
        ({"models": ("random-bert",)}, "random-bert is not pre-trained"),
        ({"suite": "glue", "data": None}, "'glue' needs text: give its data folder with --data, or files with"),
        ({"trials": 1}, "trials is a whole number from 2"),
        ({"share": 1.5}, "share is a number above 0 and at most 1, not 1.5"),
        ({"tuned": "x"}, "A tuning of pre-trainings begins with the models' own recipes"),
        ({"tasks": ("sst2",)}, "tasks is for the tuning of adaptations"),
        ({"seeds": 3}, "seeds is for the tuning of adaptations, and for probes"),
        ({"tasks": ("sst2",)}, "Name these with adaptations, or give probe"),
        ({"probe": ("sst2",), "adaptations": ("finetune",)}, "probe is for the tuning of pre-trainings"),
        ({"probe": ("blimp",)}, "BLiMP cannot compare pre-trainings, because it has no training examples"),
        ({"probe": ("bits_per_byte",)}, "cannot compare pre-trainings, because it"),
    ],
)
def test_invalid_tunings_are_rejected(world, tmp_path, changes, said):
    with pytest.raises(UsageError, match=said):
        asking.tune(**(SMALL | {"data": world, "out": tmp_path / "out", "dry_run": True} | changes))
    assert not (tmp_path / "out").exists()


def test_a_dry_run_prints_the_cost(world, tmp_path, capsys):
    asking.tune(**(SMALL | {"data": world, "out": tmp_path / "out", "models": ("bert", "gpt"), "dry_run": True}))
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[:5] for line in lines[1:3]] == [
        ["bert", "tiny", "1", "4", "--tokens 6000"], ["bert", "tiny", "2", "2", "--tokens 18000"]
    ]  # fmt: skip
    assert sum(float(line[5]) for line in lines[1:-1]) == pytest.approx(float(lines[-1][5]), rel=0.05)
    assert not (tmp_path / "out" / "trials").exists()


def test_the_remaining_time_is_printed_before_the_first_trial(world, tmp_path, capsys, monkeypatch):
    """Empty trial files stand for the records of an earlier tuning."""

    def made(rungs):
        def stop(searches, ladder, *_):
            for rung in ladder[:rungs]:
                for trial in (trial for number in range(rung.trials) for trial in searches[0].trials(number, rung)):
                    trial.place(tmp_path / "out").parent.mkdir(exist_ok=True, parents=True)
                    trial.place(tmp_path / "out").touch()
            raise InterruptedError

        return stop

    monkeypatch.setattr(estimate, "flops_per_second", lambda: 1e7)
    estimates = []
    for rungs in (0, 1, 2, 2):
        monkeypatch.setattr(search, "climb", made(rungs))
        with pytest.raises(InterruptedError):
            asking.tune(**(SMALL | {"data": world, "out": tmp_path / "out"}))
        estimates.append([line for line in capsys.readouterr().err.splitlines() if line.startswith("Estimated work")])
    (whole,), (again,), (left,), nothing = estimates
    assert "of one core" in whole and "The longest part is rung 2 of " in whole
    assert again == whole and "longest" not in left and left != whole and nothing == []


def test_trials_have_the_runtime_and_the_devices_of_their_tuning():
    options = TuneOptions(suite="demo", workers=WorkerOptions(strategy="mirrored", runtime="pjrt"))
    job = search.job_of(options, None, 16)
    assert (job.strategy, job.runtime) == ("mirrored", "pjrt")
