"""Extra encoders in plans, schedules, estimates, `evaluate` and records, and a whole cell."""

import dataclasses
import gzip
import json
import struct
from types import SimpleNamespace

import pytest

from ptmbench import models
from ptmbench.bench.adapt import heads, neighbours
from ptmbench.bench.adapt.settings import SettingError
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK, NotApplicable, UsageError
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs import plan, predict, run
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.artefacts import Given
from ptmbench.bench.runs.estimate import cell_cost as estimated
from ptmbench.bench.runs.executors import ray as on_ray
from ptmbench.bench.runs.results import failure_of
from ptmbench.bench.runs.schedule import Schedule
from ptmbench.bench.runs.work import Worker
from ptmbench.leaderboard.records import record
from ptmbench.models import UnknownModel
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks.forms import Form
from tests.bench.asking import evaluate, run_suite
from tests.bench.test_plan import first_key
from tests.bench.test_stacked import CHARACTERS, SHAPE, WIDE, WORDS, planted


@pytest.fixture
def plan_run(world, tmp_path, monkeypatch):
    """A function that calls `run_suite` without executing anything and returns the plan and the job."""

    def plans(*adaptations, **options):
        found = {}
        monkeypatch.setattr(run, "execute", lambda whole, job, *_: found.update(whole=whole, job=job) or OK)
        defaults = {
            "models": ("flair",),
            "tasks": ("conll2003",),
            "tokenizer": "character",
            "seeds": 1,
            "vocabulary": 400,
        }
        defaults |= {"budget": Budget(steps=3), "out": tmp_path, "data": world, "adaptations": adaptations}
        assert run_suite(suite="demo", **(defaults | options)) == OK
        return SimpleNamespace(**found)

    return plans


def find_cell(whole, row, adaptation):
    (found,) = (cell for cell in whole.cells if cell.row.name == row and cell.adaptation == adaptation)
    return found


def test_a_run_pretrains_extra_encoders(plan_run, tmp_path):
    found = plan_run("features", "stacked", "stacked:encoders=", "stacked:encoders=glove+word2vec+tokenizer=wordpiece")
    trained = {(p.model, p.tokenizer): p for p in found.whole.pretrainings}
    assert list(trained) == [
        ("flair", "character"), ("glove", "word"), ("glove", "wordpiece"), ("word2vec", "wordpiece")
    ]  # fmt: skip
    flair, glove = trained["flair", "character"], trained["glove", "word"]
    assert dataclasses.replace(glove, model="flair", tokenizer="character") == flair  # same corpus, size and budget
    tokenizers = {one.tokenizer: one for one in found.whole.artefacts if one.kind == "tokenizer"}
    assert sorted(tokenizers) == ["character", "word", "wordpiece"] and tokenizers["word"].key == glove.tokenizer_key
    assert Worker(tmp_path, found.whole, found.job).do(tokenizers["word"].key) == ""
    assert Tokenizer.load(tokenizers["word"].place(tmp_path)).kind == "word"

    cell, twin = find_cell(found.whole, "flair", "stacked"), find_cell(found.whole, "random-flair", "stacked")
    assert cell.neighbours == twin.neighbours == {"glove": glove.key}
    tokenizer_key = tokenizers["character"].key
    assert cell.needs == (tokenizer_key, flair.key, glove.key) and twin.needs == (tokenizer_key, glove.key)
    assert (
        find_cell(found.whole, "flair", "features").needs == find_cell(found.whole, "flair", "stacked:encoders=").needs
    )
    assert find_cell(found.whole, "majority", "baseline").needs == ()
    keys = [cell.key for cell in found.whole.cells]
    assert len(set(keys)) == len(keys) and plan.Plan.from_json(found.whole.to_json()).cells == found.whole.cells
    other = dataclasses.replace(cell, neighbours={"glove": "another"})
    assert other.key != cell.key
    plain = find_cell(found.whole, "flair", "features")
    assert plain.key == first_key(plain)


def test_extra_encoders_are_pretrained_once_and_only_for_tagging_tasks(plan_run):
    both = plan_run("stacked", models=("word2vec", "glove"), tokenizer="word").whole
    assert [p.model for p in both.pretrainings] == ["word2vec", "glove"]
    none = plan_run("stacked", tasks=("cola",)).whole
    assert [p.model for p in none.pretrainings] == ["flair"] and not any(cell.neighbours for cell in none.cells)


def test_cells_wait_for_all_their_dependencies(plan_run):
    whole = plan_run("stacked").whole
    flair, glove = whole.pretrainings
    made = {one.key for one in whole.artefacts if one.kind == "tokenizer"}
    schedule = Schedule(whole.artefacts, made)
    assert {schedule.take(0).model, schedule.take(1).model} == {"flair", "glove"}
    schedule.done(0)  # Flair
    waiting = [schedule.take(worker) for worker in range(2, 9)]
    assert {cell.row.kind for cell in waiting if cell} == {"baseline"}
    schedule.done(1)
    assert schedule.take(1).row.model == "flair"
    assert Schedule(whole.artefacts, {*made, flair.key}).take(0) == glove


def test_a_failed_pretraining_of_an_extra_encoder_is_reported(plan_run, tmp_path):
    found = plan_run("stacked")
    cell, (_, glove) = find_cell(found.whole, "random-flair", "stacked"), found.whole.pretrainings
    failure_of(tmp_path, glove).parent.mkdir(exist_ok=True)
    message = {"status": "failed", "code": "error", "text": "It broke."}
    failure_of(tmp_path, glove).write_text(json.dumps(message))
    assert "The pre-training of glove failed: It broke." in Worker(tmp_path, found.whole, found.job).do(cell.key)


def test_invalid_settings_are_errors(plan_run, world):
    with pytest.raises(SettingError, match="each once"):
        plan_run("stacked:encoders=glove+glove")
    with pytest.raises(SettingError, match="a sentence is read alone"):
        plan_run("stacked:context=1")
    with pytest.raises(SettingError, match="wordpiece, bpe"):
        plan_run("stacked:tokenizer=letters")
    with pytest.raises(UnknownModel, match="glove"):
        plan_run("stacked:encoders=glov")
    with pytest.raises(UnknownModel, match="random-glove"):
        plan_run("stacked:encoders=random-glove")
    with pytest.raises(UnknownModel, match="GloVe has no size 'huge'"):
        neighbours.kind_of("glove", "huge", "")
    with pytest.raises(NotApplicable, match="for tagging tasks"):
        heads.of(Form.CLASSIFICATION, "stacked")
    whole = plan_run("stacked", tasks=("cola",)).whole
    assert (
        estimated(find_cell(whole, "flair", "stacked"), world, {}, None)[2]
        == "the adaptation stacked is for tagging tasks."
    )


def test_a_model_that_is_its_own_extra_encoder_is_not_applicable(plan_run, world, tmp_path):
    cell = find_cell(plan_run("stacked", models=("glove",)).whole, "glove", "stacked")
    assert estimated(cell, world, {}, None)[2] == "the extra encoder glove is the model itself."
    found = cells.run(cell, Context(data=world, out=tmp_path, shape=WIDE, tokenizer=WORDS))
    assert found.status == "not_applicable"
    assert found.reason["text"] == "because the extra encoder glove is the model itself."


def test_a_dry_run_counts_extra_encoders_and_the_tagger(plan_run, world):
    """GloVe has no FLOPs of its own. It widens the input of the tagger: once in prediction, three times in training.

    Each column of ELMo costs the same there, and its encoder reads every token.
    """
    adaptation_names = [f"stacked:encoders={names}" for names in ("", "glove", "elmo")]
    found = [find_cell(plan_run(*adaptation_names).whole, "flair", adaptation) for adaptation in adaptation_names]
    (tokens, alone, _), (same, glove, _), (_, elmo, message) = (estimated(cell, world, {}, None) for cell in found)
    assert tokens == same and not message
    shapes = {name: models.load(name).SIZES["tiny"] for name in ("glove", "elmo")}
    columns = tokens * 2 * 2 * 4 * 256 * shapes["glove"].width
    assert columns < glove - alone < 3 * columns
    wider = (glove - alone) * shapes["elmo"].width / shapes["glove"].width
    length = found[2].settings["length"]
    reading = models.load("elmo").describe(shapes["elmo"], Vocabulary(size=1000)).encoder_flops(length) / length
    assert elmo - alone == pytest.approx(wider + tokens * reading) and reading > 0
    # For a checkpoint, its own shape counts.
    assert estimated(found[1], world, {}, None, {"glove": Size(layers=0, width=2, length=64)})[1] < glove


def test_given_artefacts_are_copied_to_other_machines(tmp_path):
    """A worker's folder has the user's files under the paths in the worker's plan."""
    (tmp_path / "word.json").write_text("w")
    (tmp_path / "glove").mkdir()
    (tmp_path / "glove/manifest.json").write_text("m")
    given_artefacts = (Given(key="w", path=str(tmp_path / "word.json")), Given(key="g", path=str(tmp_path / "glove")))
    portable_plan, folder = on_ray.portable(plan.Plan(given_artefacts)), tmp_path / "there"
    for one in given_artefacts:
        on_ray.place(folder, on_ray.result_of(tmp_path, one))
    assert portable_plan.by_key["w"].place(folder).read_text() == "w" and not portable_plan.by_key["w"].path.startswith(
        "/"
    )
    assert (portable_plan.by_key["g"].place(folder) / "manifest.json").read_text() == "m"


# Checkpoints, and a whole cell ---------------------------------------------------------------------------------------


def made(folder, model, shape, tokenizer):
    """Writes a checkpoint of ``model`` in the format of `bench.runs.pretrain`, with weights initialised by seed 7."""
    network = networks.build(model, shape, tokenizer, 7)
    about = dict.fromkeys(("steps", "tokens", "flops", "seconds", "loss"), 1.0) | {
        "kind": "pretrained", "model": model, "size": "tiny", "shape": dataclasses.asdict(shape), "seed": 0,
        "corpus": "planted", "corpus_sha256": "c",
        "tokenizer": {"kind": tokenizer.kind, "size": tokenizer.vocabulary.size, "sha256": tokenizer.fingerprint},
    }  # fmt: skip
    arrays = {"weights": networks.weights(network.loss.variables)}
    return checkpoint.write(folder, about=about, arrays=arrays, texts={"tokenizer.json": tokenizer.to_json()})


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    return made(folder / "flair", "flair", SHAPE, CHARACTERS), made(folder / "glove", "glove", WIDE, WORDS)


def plan_evaluation(
    checkpoints, world, out, monkeypatch, adaptation="stacked", extra_encoders=(1,), tasks=("conll2003",), **chosen
):
    found = {}
    monkeypatch.setattr(run, "execute", lambda whole, job, *_: found.update(whole=whole, job=job) or OK)
    defaults = {
        "checkpoint": checkpoints[0].folder,
        "extra_encoders": [checkpoints[i].folder for i in extra_encoders],
        "out": out,
        "seeds": 1,
    }
    chosen = {"settings": {"length": 40, **chosen}, "adaptations": (adaptation,), "tasks": tasks, "data": world}
    assert evaluate(**defaults, **chosen) == OK
    return SimpleNamespace(**found)


def test_evaluate_accepts_checkpoints_of_extra_encoders(checkpoints, world, tmp_path, monkeypatch):
    def planned(*given, **more):
        return plan_evaluation(checkpoints, world, tmp_path, monkeypatch, *given, **more)

    found = planned()
    (cell,) = found.whole.cells
    assert cell.neighbours == {"glove": f"checkpoint:{checkpoints[1].weights_sha256}.{WORDS.fingerprint}"}
    assert (
        found.whole.by_key[cell.neighbours["glove"]].path == str(checkpoints[1].folder) and not found.whole.pretrainings
    )
    with pytest.raises(UsageError, match=r"extra encoder glove.*--extra-encoder"):
        planned(extra_encoders=())
    with pytest.raises(UsageError, match=r"extra encoder word2vec.*glove is glove"):
        planned("stacked:encoders=word2vec")
    with pytest.raises(UsageError, match=r"No cell uses the extra encoder glove.*stacked:encoders=glove"):
        planned("features")
    with pytest.raises(UsageError, match=r"No cell uses the extra encoder glove.*and a tagging task"):
        planned(tasks=("cola",))
    with pytest.raises(UsageError, match="reads word tokens, but a cell asks for tokenizer=bpe"):
        planned("stacked:tokenizer=bpe")
    with pytest.raises(UsageError, match="reads at most 64 tokens"):
        planned(length=65)


@pytest.mark.slow
def test_a_cell_with_two_checkpoints_produces_a_record_and_predictions(checkpoints, tmp_path, monkeypatch):
    data = tmp_path / "data"
    (data / "conll2003").mkdir(parents=True)
    for name in ("eng.train", "eng.testa", "eng.testb"):
        sentences = ("\n".join(f"{w} X X {t}" for w, t in zip(e.inputs, e.gold, strict=True)) for e in planted(12))
        (data / "conll2003" / name).write_text("-DOCSTART- -X- -X- O\n\n" + "\n\n".join(sentences) + "\n")
    small = {"hidden": 4, "epochs": 2, "batch": 6}
    found = plan_evaluation(checkpoints, data, tmp_path, monkeypatch, **small)
    (cell,) = found.whole.cells
    job = dataclasses.replace(found.job, keep=True)
    assert "not applicable" not in Worker(tmp_path, found.whole, job).do(cell.key)
    (path,) = (tmp_path / "records").glob("*.json")
    result = record.read(path)
    assert result.status == "ok", result.reason
    assert result.cost["steps"] == 4 and result.pretraining["weights_sha256"] == checkpoints[0].weights_sha256
    encoder = result.adaptation["neighbours"]["glove"]
    assert encoder["weights_sha256"] == checkpoints[1].weights_sha256 and encoder["tokenizer"]["kind"] == "word"
    counts = (
        models.load("flair").describe(SHAPE, CHARACTERS.vocabulary).parameters(),
        models.load("glove").describe(WIDE, WORDS.vocabulary).parameters(),
    )
    assert result.cost["parameters"] == counts[0][0] + counts[1][0]
    assert result.cost["parameters_embedding"] == counts[0][1] + counts[1][1]

    (folder,) = (tmp_path / "adapted").iterdir()
    arrays, file = checkpoint.read(folder).arrays(), folder / "weights.safetensors"
    tagger = sum(array.size for name, array in arrays.items() if name.startswith("adapted/"))
    assert tagger > 0 and sum(array.size for array in arrays.values()) == result.cost["parameters"] + tagger
    (header,) = struct.unpack("<Q", file.read_bytes()[:8])
    assert result.cost["disk_bytes"] == file.stat().st_size == 8 + header + 4 * (result.cost["parameters"] + tagger)
    lines = gzip.decompress((tmp_path / result.predictions["file"]).read_bytes()).splitlines()
    answers = predict._predictions(checkpoint.read(folder), planted(12))
    assert [json.loads(line)["prediction"] for line in lines] == answers

    # The tagger over one model alone is another cell, and its record names no extra encoders.
    alone = plan_evaluation(checkpoints, data, tmp_path, monkeypatch, "stacked:encoders=", extra_encoders=(), **small)
    (cell,) = alone.whole.cells
    Worker(tmp_path / "alone", alone.whole, alone.job).do(cell.key)
    (path,) = (tmp_path / "alone/records").glob("*.json")
    one = record.read(path)
    assert one.status == "ok" and "neighbours" not in one.adaptation and one.cost["flops"] < result.cost["flops"]
    assert one.cost["parameters"] == counts[0][0]
