"""Equal tuning: the draws, the rungs, the trials and their records, the result, and a run that takes it."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.recipe import Recipe, recipe_of
from ptmbench.bench.errors import CELLS_FAILED, OK, UsageError
from ptmbench.bench.runs import execute, pretrain
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.tuning import halving, space, tables, trials, tune, tuned
from ptmbench.bench.runs.tuning.halving import Rung
from ptmbench.bench.runs.tuning.tuned import Tuned
from ptmbench.bench.runs.work import Worker
from ptmbench.leaderboard import record
from ptmbench.leaderboard.record import RecordError
from ptmbench.models.text import holdout
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import microworld
from tests.bench import asking
from tests.bench.processes import ROOT, made_text, wait_for

OWN = Recipe(batch=8, length=32, learning_rate=1e-3)


# The draws -----------------------------------------------------------------------------------------------------------


def test_every_model_tries_the_same_factors():
    drawn = space.draws(27, 0, OWN)
    one, other = ([draw.changes(own) for draw in drawn] for own in (OWN, Recipe(batch=8, learning_rate=4e-4)))
    for mine, theirs in zip(one, other, strict=True):
        assert theirs["learning_rate"] == pytest.approx(0.4 * mine["learning_rate"], rel=0.01)
        assert (mine["batch"], mine["warmup"]) == (theirs["batch"], theirs["warmup"])


def test_draws_stay_in_the_space_and_cover_it():
    drawn = space.draws(60, 0, OWN)
    rates = np.log2([draw.rate for draw in drawn])
    counts = np.histogram(rates, 6, (-3, 3))[0]
    assert np.abs(rates).max() <= 3 and counts.min() >= 9 and counts.max() <= 11
    assert {draw.batch for draw in drawn} == {0.25, 0.5, 1, 2, 4} and {draw.warmup for draw in drawn} == {
        *space.WARMUPS
    }
    assert drawn[:9] == space.draws(9, 0, OWN) and space.draws(9, 1, OWN) == space.draws(9, 1, OWN)
    assert not {*space.draws(9, 1, OWN)} & {*space.draws(9, 2, OWN), *drawn}
    assert [space._inverse(n, 2) for n in (1, 2, 3, 4)] == [0.5, 0.25, 0.75, 0.125]  # van der Corput's
    assert Fraction(space._inverse(5, 3)).limit_denominator(100) == Fraction(7, 9)


def test_batches_that_cannot_be_are_not_drawn():
    assert {draw.batch for draw in space.draws(60, 0, Recipe(batch=1))} == {1, 2, 4}
    assert {draw.batch for draw in space.draws(60, 0, Recipe(batch=8, accumulate=4))} == {0.5, 1, 2, 4}
    assert {draw.batch for draw in space.draws(60, 0, Recipe(batch=2**15, length=64))} == {0.25, 0.5, 1, 2}
    assert space.about(Recipe(batch=8, accumulate=4))["batch"] == [4, 8, 16, 32]


# The rungs -----------------------------------------------------------------------------------------------------------


def test_rungs_halve():
    assert halving.rungs(10, 3) == (
        Rung(trials=10, share=1 / 9), Rung(trials=4, share=1 / 3), Rung(trials=2, share=1)
    )  # fmt: skip
    assert [rung.trials for rung in halving.rungs(9, 2)] == [9, 5, 3, 2]
    assert [rung.trials for rung in halving.rungs(6, 3)] == [6, 2]
    assert halving.rungs(2, 3) == (Rung(trials=2, share=1),)


def test_the_best_go_on_and_the_default_always():
    losses = {0: 9.0, 1: 3.0, 2: math.inf, 3: 1.0, 4: 3.0, 5: 2.0}
    assert halving.going_on(losses, 4) == (0, 1, 3, 5), "of equal losses the earlier number"
    assert halving.going_on(losses, 2) == (0, 3)
    assert halving.winner({0: 1.0, 3: 1.0}) == 0 and halving.winner({0: 1.0, 3: 0.9}) == 3
    assert halving.winner({0: math.inf, 3: math.inf}) == 0 and halving.winner({0: math.inf, 3: 5.0}) == 3


def test_budgets_are_shared_out():
    assert halving.part(Budget(tokens=1000), 1 / 3) == Budget(tokens=333)
    assert halving.part(Budget(flops=1e12), 1 / 3) == Budget(flops=333333000000.0)


# The loss on held-out documents --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return made_text(tmp_path_factory.mktemp("text") / "corpus.txt")


@pytest.mark.slow
def test_the_held_out_loss_is_that_of_one_large_batch(text, tmp_path):
    """Of rows and masks that do not depend on the batch of the training."""
    from ptmbench.bench.engine import held_out, networks

    cut = Tokenizer.load(corpora.tokenizer((text,), "wordpiece", 300))
    kept, held = corpora.parts((str(text),), cut, 2000)
    about = {}
    for batch in (2, 4):
        about[batch] = pretrain.pretrain(
            "electra", "tiny", corpus=kept, held_out=held, tokenizer=cut, budget=Budget(steps=1),
            out=tmp_path / str(batch), recipe=recipe_of({"batch": batch, "length": 32, "dropout": 0.1}),
        ).about  # fmt: skip
    one, other = (about[batch]["held_out"] for batch in (2, 4))
    assert one["rows"] == other["rows"] == held.tokens // (8 * 32) * 8 and one["loss"] != other["loss"]
    assert one["flops"] == other["flops"] == pytest.approx(one["rows"] * about[2]["flops"] / 2 / 3)
    assert about[2]["corpus_sha256"] == kept.fingerprint and one["corpus_sha256"] == held.fingerprint

    found = checkpoint.read(tmp_path / "2")
    size = networks.sized(models.load("electra"), "tiny", 32)
    network = networks.build("electra", size, cut, seed=5)
    networks.assign(network.loss.variables, found.arrays())
    again = held_out.measured(network, held, 32)
    assert again["loss"] == pytest.approx(one["loss"], rel=1e-5), "without dropout, whatever the recipe says"
    make = network.batches(held, held_out.ROWS, 32)
    rows = [make(step, held_out.SEED) for step in range(one["rows"] // held_out.ROWS)]
    whole = {name: np.concatenate([batch[name] for batch in rows]) for name in rows[0]}
    scalars = network.loss(whole, seed=(0, 0))
    for name in ("loss", "mlm_loss", "rtd_loss", "rtd_accuracy"):
        assert again[name] == pytest.approx(float(scalars[name]), rel=1e-4), name


def test_documents_that_are_held_out_are_never_trained_on(text):
    cut = Tokenizer.load(corpora.tokenizer((text,), "wordpiece", 300))
    whole = corpora.load((str(text),), cut)
    kept, held = corpora.parts((str(text),), cut, 2000)
    assert held.tokens > 1000 and kept.tokens == whole.tokens - held.tokens
    assert corpora.parts((str(text),), cut, 0)[1] is None
    assert holdout.split(whole, 2000)[1].fingerprint == held.fingerprint


# A whole tuning ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def here():
    """Work is done in this process."""

    def work(what, whole, job, out, workers):
        done = execute.settled(out, whole)
        for one in whole.artefacts:
            if one.key not in done:
                Worker(out, whole, job).do(one.key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tune, "work", work)
        patch.setattr(execute, "work", work)
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("microworld") / "data"
    microworld.make(folder)
    return folder


SMALL = {"suite": "demo", "models": ("word2vec",), "vocabulary": 300, "recipe": {"batch": 4, "length": 32}}
SMALL |= {"budget": Budget(tokens=18_000), "trials": 4, "share": 1.0, "held_out": 2000}


def tuning(out, world, **changes):
    assert asking.tune(**(SMALL | {"data": world, "out": out} | changes)) == OK
    return Tuned.read(out).body


def unmeasured(body):
    """What two tunings have alike: not the time that they took, nor the seal over that."""
    return {name: value for name, value in body.items() if name != "seconds"}


@pytest.fixture(scope="module")
def once(here, world, tmp_path_factory):
    out = tmp_path_factory.mktemp("tuning") / "tuned"
    tuning(out, world)
    return out


@pytest.fixture
def ended(once, tmp_path):
    """A folder with a tuning that has ended."""
    return shutil.copytree(once, tmp_path / "tuned")


def test_a_tuning_leaves_sealed_trials_and_a_result(ended, world, tmp_path, capsys):
    body = Tuned.read(ended).body
    (one,) = body["models"]
    assert (one["model"], one["size"], one["trials"], body["untuned"]) == ("word2vec", "tiny", 4, [])
    assert [[trial["number"] for trial in rung["trials"]] for rung in one["rungs"]][0] == [0, 1, 2, 3]
    first, last = one["rungs"]
    best = min(first["trials"][1:], key=lambda trial: trial["loss"])
    assert [trial["number"] for trial in last["trials"]] == [0, best["number"]]
    assert first["budget"] == {"tokens": 6000} and last["budget"] == {"tokens": 18_000}
    assert one["loss"]["tuned"] == min(trial["loss"] for trial in last["trials"]) <= one["loss"]["own"]
    files = {path.name: trials.read(path) for path in (ended / "trials").iterdir()}
    assert len(files) == 6 and sum(map(trials.flops_of, files.values())) == pytest.approx(one["flops"])
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
def test_a_planted_learning_rate_is_found(here, world, tmp_path):
    """The model's rate, 64 times too small, is a setting here; draws reach eight times as much."""
    rate = 1e-2 / 64
    recipe = SMALL["recipe"] | {"learning_rate": rate}
    body = tuning(tmp_path, world, recipe=recipe, trials=10, budget=Budget(tokens=120_000))
    (one,) = body["models"]
    assert one["own"]["learning_rate"] == rate and one["winner"] != 0
    assert one["changes"]["learning_rate"] > 2 * rate and one["loss"]["tuned"] < one["loss"]["own"] - 0.05


def test_trials_that_diverge_are_results(here, world, tmp_path, capsys):
    body = tuning(tmp_path, world, recipe=SMALL["recipe"] | {"learning_rate": 1e38})
    (one,) = body["models"]
    assert one["loss"]["own"] is None and one["rungs"][0]["trials"][0]["status"] == "diverged"
    assert "diverged" in capsys.readouterr().out
    diverged = [found for path in (tmp_path / "trials").iterdir() if (found := trials.read(path))["loss"] is None]
    assert diverged and all(found["steps"] >= 1 and found["flops"] > 0 and found["reason"] for found in diverged)


@pytest.mark.slow
def test_a_model_that_cannot_be_tuned_is_named_with_its_reason(here, world, tmp_path, capsys):
    asked = SMALL | {"data": world, "out": tmp_path, "models": ("word2vec", "ernie_thu")}
    assert asking.tune(**asked) == CELLS_FAILED
    assert "ernie_thu tiny could not be tuned: because" in capsys.readouterr().err
    body = Tuned.read(tmp_path).body
    assert [one["model"] for one in body["models"]] == ["word2vec"] and body["untuned"][0]["model"] == "ernie_thu"
    with pytest.raises(UsageError, match=r"has no recipe for ernie_thu tiny: because.*Leave it out with --models"):
        Tuned.read(tmp_path).of("ernie_thu", "tiny", Budget(tokens=18_000), "")


def test_damaged_files_are_told(ended, world, capsys):
    body = Tuned.read(ended).body
    path = next(iter((ended / "trials").iterdir()))
    text = path.read_text()
    path.write_text(text.replace('"steps": ', '"steps": 1'))
    assert unmeasured(tuning(ended, world)) == unmeasured(body)
    said = capsys.readouterr().err
    assert f"{path} does not match its seal" in said and "This trial is trained anew." in said
    path.write_text(text[:100])
    tuning(ended, world)
    assert f"{path} is damaged: it is no sealed JSON." in capsys.readouterr().err
    found = ended / tuned.FILE
    found.write_text(found.read_text().replace('"trials": 4', '"trials": 400'))
    with pytest.raises(RecordError, match=r"does not match its seal.*Give the command that made it once more"):
        Tuned.read(ended)
    found.write_text(path.read_text())
    with pytest.raises(RecordError, match="is a file of kind trial, schema 1, not tuned"):
        Tuned.read(found)


def test_plans_with_trials_go_through_json(world, tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(tune, "work", lambda what, whole, *_: found.append(whole))
    with pytest.raises(RuntimeError, match="Not all trials of word2vec tiny could be trained"):
        asking.tune(**(SMALL | {"data": world, "out": tmp_path}))
    (whole,) = found
    assert Plan.from_json(whole.to_json()) == whole and len(whole.ends) == len(whole.groups()) == 4
    assert [one.kind for one in whole.artefacts] == ["tokenizer", *["trial"] * 4]
    assert len({one.pretraining.held_out for one in whole.ends}) == 1


# A run with the result -----------------------------------------------------------------------------------------------


RUN = {"suite": "demo", "models": ("word2vec",), "baselines": False, "tasks": ("sst2",), "seeds": 1, "limit": 40}
RUN |= {name: SMALL[name] for name in ("vocabulary", "recipe", "budget")}


def test_a_run_trains_with_what_was_found(ended, world, tmp_path):
    (one,) = Tuned.read(ended).body["models"]
    assert one["changes"], "the own recipe won: this test would show nothing"
    out = tmp_path / "run"
    for more in ({}, {"tuned": ended}):
        assert asking.run_suite(**RUN, **more, data=world, out=out) == OK
    plain, better = sorted(
        (record.read(path) for path in (out / "records").iterdir()), key=lambda one: "tuning" in one.pretraining
    )
    assert plain.key != better.key and "--tuned" in better.command and "--tuned" not in plain.command
    assert better.pretraining["tuning"] == {"trials": 4, "flops": one["flops"]}
    recipes = {
        about.get("tuning", {}).get("trials"): about["recipe"]
        for about in (checkpoint.read(path).about for path in (out / "pretrained").iterdir() if path.is_dir())
    }
    assert recipes[4] == recipes[None] | one["own"] | one["changes"] != recipes[None]
    page = (out / "board" / "index.html").read_text()
    assert "tuned with 4 trials" in page and "untuned" in page


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget": Budget(tokens=19_000)}, r"with --tokens 18000, by trials of up to --tokens 18000; this run has"),
        ({"budget": Budget(steps=10)}, r"this run has --steps 10. Give a budget between"),
        ({"vocabulary": 320}, r"with another tokenizer: --tokenizer wordpiece --vocabulary 300"),
        ({"models": ("glove",)}, r"has no recipe for glove tiny. Leave it out with --models, or give `ptmbench tune d"),
        ({"models": ("word2vec",), "sizes": ("mini",)}, r"has no recipe for word2vec mini"),
        ({"recipe": {"batch": 8, "length": 32}}, r"tuned with batch at 4, and this run has 8"),
        ({"recipe": {"batch": 4, "length": 32, "clip": 2}}, r"tuned with clip at its default, and this run has 2"),
    ],
)
def test_a_run_that_does_not_fit_is_told(ended, world, tmp_path, changes, said):
    with pytest.raises(UsageError, match=said):
        asking.run_suite(**(RUN | {"data": world, "out": tmp_path / "run", "tuned": ended, "dry_run": True} | changes))


def test_a_run_on_another_corpus_is_told(ended, world, tmp_path, text):
    with pytest.raises(UsageError, match="was tuned on another corpus, microworld.txt.*or tune on this one"):
        asking.run_suite(**RUN, data=world, out=tmp_path / "run", tuned=ended, corpus=(text,), dry_run=True)
    with pytest.raises(UsageError, match="holds no tuned.json: no tuning has ended there"):
        asking.run_suite(**RUN, data=world, out=tmp_path / "run", tuned=tmp_path, dry_run=True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget": Budget(steps=100)}, "--steps 100, and with another batch a step costs more or less. Give --flops"),
        ({"budget": Budget(tokens=4000)}, r"pays for 5 steps with a batch of 8, and at least 10 are needed"),
        ({"models": ("majority",)}, "majority is not pre-trained, so there is nothing to tune"),
        ({"models": ("random-bert",)}, "random-bert is not pre-trained"),
        ({"suite": "glue", "data": None}, "'glue' needs text: give its data folder with --data, or files with"),
        ({"trials": 1}, "trials is a whole number from 2"),
        ({"share": 1.5}, "share is a number above 0 and at most 1, not 1.5"),
        ({"tuned": "x"}, "A tuning begins with the models' own recipes"),
    ],
)
def test_a_tuning_that_cannot_be_is_told(world, tmp_path, changes, said):
    with pytest.raises(UsageError, match=said):
        asking.tune(**(SMALL | {"data": world, "out": tmp_path / "out", "dry_run": True} | changes))
    assert not (tmp_path / "out").exists()


def test_one_pretraining_is_not_tuned(text, tmp_path):
    with pytest.raises(UsageError, match="Leave tuned out, and give the recipe"):
        asking.pretrain(model="word2vec", out=tmp_path, corpus=(text,), budget=Budget(steps=1), tuned=tmp_path)


def test_the_cost_is_told_before(world, tmp_path, capsys):
    asking.tune(**(SMALL | {"data": world, "out": tmp_path / "out", "models": ("bert", "gpt"), "dry_run": True}))
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[:5] for line in lines[1:3]] == [
        ["bert", "tiny", "1", "4", "--tokens 6000"], ["bert", "tiny", "2", "2", "--tokens 18000"]
    ]  # fmt: skip
    assert sum(float(line[5]) for line in lines[1:-1]) == pytest.approx(float(lines[-1][5]), rel=0.05)
    assert not (tmp_path / "out" / "trials").exists()


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_result(world, tmp_path):
    """SIGKILL falls while trials train; the command, given again, goes on with what is left."""
    arguments = ["tune", "demo", "--data", str(world), "--models", "word2vec,glove", "--vocabulary", "300"]
    arguments += ["--recipe", "batch=4", "--tokens", "60000", "--trials", "4", "--share", "1", "--held-out", "2000"]
    arguments += ["--jobs", "1", "--threads", "1", "--save-every", "0.05"]

    def start(out):
        return subprocess.Popen(
            [sys.executable, "-m", "ptmbench", *arguments, "--out", str(out)],
            cwd=ROOT,
            env=os.environ | {"PTMBENCH_CACHE": str(tmp_path / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    straight = start(tmp_path / "straight")
    said, _ = straight.communicate(timeout=600)
    assert straight.returncode == 0, said
    out = tmp_path / "killed"
    for records in (1, 6):
        process = start(out)
        wait_for(lambda n=records: len(list(out.glob("trials/*.json"))) >= n, 300)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert not (out / tuned.FILE).exists()
    before = {path: path.read_bytes() for path in out.glob("trials/*.json")}
    again = start(out)
    said, _ = again.communicate(timeout=600)
    assert again.returncode == 0, said
    assert all(path.read_bytes() == content for path, content in before.items())
    assert unmeasured(json.loads((out / tuned.FILE).read_text())) | {"seal": ""} == unmeasured(
        json.loads((tmp_path / "straight" / tuned.FILE).read_text())
    ) | {"seal": ""}
