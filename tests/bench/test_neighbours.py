"""Extra encoders: what plans, schedules, estimates, `evaluate` and records say of them, and a whole cell."""

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
def asked(world, tmp_path, monkeypatch):
    """`run_suite` up to the moment at which work would begin: its plan and its job."""

    def plans(*adaptations, **options):
        found = {}
        monkeypatch.setattr(run, "execute", lambda whole, job, *_: found.update(whole=whole, job=job) or OK)
        usual = {"models": ("flair",), "tasks": ("conll2003",), "tokenizer": "character", "seeds": 1, "vocabulary": 400}
        usual |= {"budget": Budget(steps=3), "out": tmp_path, "data": world, "adaptations": adaptations}
        assert run_suite(suite="demo", **(usual | options)) == OK
        return SimpleNamespace(**found)

    return plans


def named(whole, row, adaptation):
    (found,) = (cell for cell in whole.cells if cell.row.name == row and cell.adaptation == adaptation)
    return found


def test_a_run_pretrains_extra_encoders(asked, tmp_path):
    found = asked("features", "stacked", "stacked:encoders=", "stacked:encoders=glove+word2vec+tokenizer=wordpiece")
    trained = {(p.model, p.tokenizer): p for p in found.whole.pretrainings}
    assert list(trained) == [
        ("flair", "character"), ("glove", "word"), ("glove", "wordpiece"), ("word2vec", "wordpiece")
    ]  # fmt: skip
    flair, glove = trained["flair", "character"], trained["glove", "word"]
    assert dataclasses.replace(glove, model="flair", tokenizer="character") == flair  # same corpus, size and budget
    cuts = {one.tokenizer: one for one in found.whole.artefacts if one.kind == "tokenizer"}
    assert sorted(cuts) == ["character", "word", "wordpiece"] and cuts["word"].key == glove.tokenizer_key
    assert Worker(tmp_path, found.whole, found.job).do(cuts["word"].key) == ""
    assert Tokenizer.load(cuts["word"].place(tmp_path)).kind == "word"

    cell, twin = named(found.whole, "flair", "stacked"), named(found.whole, "random-flair", "stacked")
    assert cell.neighbours == twin.neighbours == {"glove": glove.key}
    cut = cuts["character"].key
    assert cell.needs == (cut, flair.key, glove.key) and twin.needs == (cut, glove.key)
    assert named(found.whole, "flair", "features").needs == named(found.whole, "flair", "stacked:encoders=").needs
    assert named(found.whole, "majority", "baseline").needs == ()
    every = [cell.key for cell in found.whole.cells]
    assert len(set(every)) == len(every) and plan.Plan.from_json(found.whole.to_json()).cells == found.whole.cells
    other = dataclasses.replace(cell, neighbours={"glove": "another"})
    assert other.key != cell.key
    plain = named(found.whole, "flair", "features")
    assert plain.key == first_key(plain)


def test_a_row_of_the_run_is_not_pretrained_twice_and_other_forms_pretrain_nothing(asked):
    both = asked("stacked", models=("word2vec", "glove"), tokenizer="word").whole
    assert [p.model for p in both.pretrainings] == ["word2vec", "glove"]
    none = asked("stacked", tasks=("cola",)).whole
    assert [p.model for p in none.pretrainings] == ["flair"] and not any(cell.neighbours for cell in none.cells)


def test_cells_wait_for_all_that_they_read(asked):
    whole = asked("stacked").whole
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


def test_a_failed_pretraining_of_an_extra_encoder_is_told(asked, tmp_path):
    found = asked("stacked")
    cell, (_, glove) = named(found.whole, "random-flair", "stacked"), found.whole.pretrainings
    failure_of(tmp_path, glove).parent.mkdir(exist_ok=True)
    note = {"status": "failed", "code": "error", "text": "It broke."}
    failure_of(tmp_path, glove).write_text(json.dumps(note))
    assert "The pre-training of glove failed: It broke." in Worker(tmp_path, found.whole, found.job).do(cell.key)


def test_what_does_not_fit_is_told(asked, world):
    with pytest.raises(SettingError, match="each once"):
        asked("stacked:encoders=glove+glove")
    with pytest.raises(SettingError, match="a sentence is read alone"):
        asked("stacked:context=1")
    with pytest.raises(SettingError, match="wordpiece, bpe"):
        asked("stacked:tokenizer=letters")
    with pytest.raises(UnknownModel, match="glove"):
        asked("stacked:encoders=glov")
    with pytest.raises(UnknownModel, match="random-glove"):
        asked("stacked:encoders=random-glove")
    with pytest.raises(UnknownModel, match="glove has no size 'huge'"):
        neighbours.kind_of("glove", "huge", "")
    with pytest.raises(NotApplicable, match="for tagging tasks"):
        heads.of(Form.CLASSIFICATION, "stacked")
    whole = asked("stacked", tasks=("cola",)).whole
    assert (
        estimated(named(whole, "flair", "stacked"), world, {}, None)[2]
        == "the adaptation stacked is for tagging tasks."
    )


def test_a_model_that_is_its_own_extra_encoder_is_not_applicable(asked, world, tmp_path):
    cell = named(asked("stacked", models=("glove",)).whole, "glove", "stacked")
    assert estimated(cell, world, {}, None)[2] == "the extra encoder glove is the model itself."
    found = cells.run(cell, Context(data=world, out=tmp_path, shape=WIDE, tokenizer=WORDS))
    assert found.status == "not_applicable"
    assert found.reason["text"] == "because the extra encoder glove is the model itself."


def test_a_dry_run_counts_extra_encoders_and_the_tagger(asked, world):
    """GloVe has no FLOPs: what it adds are its columns in the tagger, once for answers and three times to learn. ELMo's
    columns count as much each, and it reads every token."""
    asks = [f"stacked:encoders={names}" for names in ("", "glove", "elmo")]
    found = [named(asked(*asks).whole, "flair", adaptation) for adaptation in asks]
    (tokens, alone, _), (same, glove, _), (_, elmo, note) = (estimated(cell, world, {}, None) for cell in found)
    assert tokens == same and not note
    shapes = {name: models.load(name).SIZES["tiny"] for name in ("glove", "elmo")}
    columns = tokens * 2 * 2 * 4 * 256 * shapes["glove"].width
    assert columns < glove - alone < 3 * columns
    wider = (glove - alone) * shapes["elmo"].width / shapes["glove"].width
    length = found[2].settings["length"]
    reading = models.load("elmo").describe(shapes["elmo"], Vocabulary(size=1000)).encoder_flops(length) / length
    assert elmo - alone == pytest.approx(wider + tokens * reading) and reading > 0
    # Of a checkpoint its own shape counts.
    assert estimated(found[1], world, {}, None, {"glove": Size(layers=0, width=2, length=64)})[1] < glove


def test_what_travels_to_other_machines(tmp_path):
    """What a user gave lies in the folder of a worker under the path that the worker's plan says."""
    (tmp_path / "word.json").write_text("w")
    (tmp_path / "glove").mkdir()
    (tmp_path / "glove/manifest.json").write_text("m")
    gave = (Given(key="w", path=str(tmp_path / "word.json")), Given(key="g", path=str(tmp_path / "glove")))
    there, folder = on_ray.portable(plan.Plan(gave)), tmp_path / "there"
    for one in gave:
        on_ray.place(folder, on_ray.result_of(tmp_path, one))
    assert there.by_key["w"].place(folder).read_text() == "w" and not there.by_key["w"].path.startswith("/")
    assert (there.by_key["g"].place(folder) / "manifest.json").read_text() == "m"


# Checkpoints, and a whole cell ---------------------------------------------------------------------------------------


def made(folder, model, shape, tokenizer):
    """A checkpoint of ``model`` as `bench.runs.pretrain` leaves them, with the weights of seed 7."""
    network = networks.build(model, shape, tokenizer, 7)
    about = dict.fromkeys(("steps", "tokens", "flops", "seconds", "loss"), 1.0) | {
        "kind": "pretrained", "model": model, "size": "tiny", "shape": dataclasses.asdict(shape), "seed": 0,
        "corpus": "planted", "corpus_sha256": "c",
        "tokenizer": {"kind": tokenizer.kind, "size": tokenizer.vocabulary.size, "sha256": tokenizer.fingerprint},
    }  # fmt: skip
    arrays = {"weights": networks.weights(network.loss.variables)}
    return checkpoint.write(folder, about=about, arrays=arrays, texts={"tokenizer.json": tokenizer.to_json()})


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    return made(folder / "flair", "flair", SHAPE, CHARACTERS), made(folder / "glove", "glove", WIDE, WORDS)


def evaluated(
    saved, world, out, monkeypatch, adaptation="stacked", extra_encoders=(1,), tasks=("conll2003",), **chosen
):
    found = {}
    monkeypatch.setattr(run, "execute", lambda whole, job, *_: found.update(whole=whole, job=job) or OK)
    usual = {
        "checkpoint": saved[0].folder,
        "extra_encoders": [saved[i].folder for i in extra_encoders],
        "out": out,
        "seeds": 1,
    }
    chosen = {"settings": {"length": 40, **chosen}, "adaptations": (adaptation,), "tasks": tasks, "data": world}
    assert evaluate(**usual, **chosen) == OK
    return SimpleNamespace(**found)


def test_evaluate_takes_a_second_checkpoint(saved, world, tmp_path, monkeypatch):
    def planned(*given, **more):
        return evaluated(saved, world, tmp_path, monkeypatch, *given, **more)

    found = planned()
    (cell,) = found.whole.cells
    assert cell.neighbours == {"glove": f"checkpoint:{saved[1].weights_sha256}.{WORDS.fingerprint}"}
    assert found.whole.by_key[cell.neighbours["glove"]].path == str(saved[1].folder) and not found.whole.pretrainings
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
def test_a_cell_leads_from_two_checkpoints_to_a_record_and_to_predictions(saved, tmp_path, monkeypatch):
    data = tmp_path / "data"
    (data / "conll2003").mkdir(parents=True)
    for name in ("eng.train", "eng.testa", "eng.testb"):
        sentences = ("\n".join(f"{w} X X {t}" for w, t in zip(e.inputs, e.gold, strict=True)) for e in planted(12))
        (data / "conll2003" / name).write_text("-DOCSTART- -X- -X- O\n\n" + "\n\n".join(sentences) + "\n")
    small = {"hidden": 4, "epochs": 2, "batch": 6}
    found = evaluated(saved, data, tmp_path, monkeypatch, **small)
    (cell,) = found.whole.cells
    job = dataclasses.replace(found.job, keep=True)
    assert "not applicable" not in Worker(tmp_path, found.whole, job).do(cell.key)
    (path,) = (tmp_path / "records").glob("*.json")
    result = record.read(path)
    assert result.status == "ok", result.reason
    assert result.cost["steps"] == 4 and result.pretraining["weights_sha256"] == saved[0].weights_sha256
    encoder = result.adaptation["neighbours"]["glove"]
    assert encoder["weights_sha256"] == saved[1].weights_sha256 and encoder["tokenizer"]["kind"] == "word"
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

    # The tagger over one model alone is another cell, and says nothing of others.
    alone = evaluated(saved, data, tmp_path, monkeypatch, "stacked:encoders=", extra_encoders=(), **small)
    (cell,) = alone.whole.cells
    Worker(tmp_path / "alone", alone.whole, alone.job).do(cell.key)
    (path,) = (tmp_path / "alone/records").glob("*.json")
    one = record.read(path)
    assert one.status == "ok" and "neighbours" not in one.adaptation and one.cost["flops"] < result.cost["flops"]
    assert one.cost["parameters"] == counts[0][0]
