"""Records: reading gives what was written, writing is atomic and happens once, and damage is reported."""

import errno
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ptmbench.leaderboard.records import record as records
from ptmbench.leaderboard.records.record import RecordError, RecordExists, read, slug, write
from ptmbench.leaderboard.records.store import load
from tests.leaderboard.made import blank, record


def test_write_and_read_round_trip(tmp_path):
    written = record(scores={"headline": {"value": 0.1 + 0.2, "low": np.float32(0.25), "high": None}}, seed=np.int64(3))
    path = write(tmp_path, written)
    back = read(path)
    assert path.parent == tmp_path / "records"
    assert path.name == f"cola.bert.finetune.s3.{written.key[:12]}.json"
    assert back.scores["headline"] == {"value": 0.1 + 0.2, "low": 0.25, "high": None}
    for name in ("key", "row", "task", "pretraining", "adaptation", "cost", "curve", "versions", "command", "finished"):
        assert getattr(back, name) == getattr(written, name), name
    assert re.fullmatch("[0-9a-f]{64}", back.seal)


def test_non_finite_numbers_round_trip(tmp_path):
    scores = {"headline": {"value": math.nan, "low": -math.inf, "high": math.inf}}
    made = record(name="nan", scores=scores, curve=({"step": 1, "loss": np.float64("nan")},), cost={"flops": math.inf})
    path = write(tmp_path, made)
    assert json.loads(path.read_text(), parse_constant=pytest.fail)["scores"]["headline"]["value"] == "nan"
    back = read(path)
    assert (
        math.isnan(back.headline["value"]) and back.headline["low"] == -math.inf and back.headline["high"] == math.inf
    )
    assert math.isnan(back.curve[0]["loss"]) and back.cost["flops"] == math.inf
    assert back.row["name"] == "nan"  # the name "nan" is not read as a number


def test_records_are_written_only_once(tmp_path):
    path = write(tmp_path, record())
    before = path.read_bytes()
    with pytest.raises(RecordExists, match="written once"):
        write(tmp_path, record())
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_records_are_written_only_once_without_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = write(tmp_path, record())
    assert read(path).row["name"] == "bert"
    with pytest.raises(RecordExists):
        write(tmp_path, record())


@pytest.mark.parametrize("call", ["fsync", "link"])
def test_a_kill_before_the_file_is_named_leaves_no_record(tmp_path, call):
    """SIGKILL between writing the content and naming the file leaves no record. The next attempt succeeds."""
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom tests.leaderboard.made import record\n"
        f"os.{call} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from ptmbench.leaderboard.records.record import write\nwrite(Path(sys.argv[1]), record())\n"
    )
    root = Path(__file__).resolve().parents[2]
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, env=os.environ | {"PYTHONPATH": "."})
    assert killed.returncode == -9
    assert not list(tmp_path.glob("records/*.json"))
    assert load([tmp_path]).records == () == load([tmp_path]).damaged
    write(tmp_path, record())
    assert len(load([tmp_path]).records) == 1


def test_a_full_disk_names_the_record_and_leaves_no_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as caught:
        write(tmp_path, record())
    assert Path(caught.value.filename).name == record().file_name and not list((tmp_path / "records").iterdir())


def test_flipped_bits_and_truncation_are_detected(tmp_path):
    path = write(tmp_path, record())
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content) - 1, 150):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(RecordError, match=re.escape(path.name)):
            read(path)
    for length in (0, 1, len(content) // 2, len(content) - 3):
        path.write_bytes(content[:length])
        with pytest.raises(RecordError, match="cut short|not whole"):
            read(path)


def _reseal(path, **changes):
    body = json.loads(path.read_text()) | changes
    body["seal"] = records.seal(body)
    path.write_text(json.dumps(body))


def test_error_of_a_newer_schema_says_what_to_do(tmp_path):
    path = write(tmp_path, record())
    _reseal(path, schema=2)
    with pytest.raises(RecordError, match=r"schema 2.*Update ptmbench"):
        read(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"scores": {}}, "needs a score under 'headline'"),
        ({"status": "great"}, "status must be ok or failed or not_applicable or diverged, found 'great'"),
        ({"status": "failed"}, "needs a reason"),
        ({"seed": True}, "seed must be int"),
        ({"row": None}, "row must be dict"),
        ({"key": "../../etc"}, "hexadecimal"),
        ({"scores": {"headline": 3}}, "scores.headline.value must be number"),
        ({"scores": {"headline": {"value": "high"}}}, "scores.headline.value must be number, found 'high'"),
        ({"task": record().task | {"examples": [1]}}, "task.examples must be int or null, found [1]"),
        ({"pretraining": {"tokenizer": "bpe"}}, "pretraining.tokenizer must be dict or null, found 'bpe'"),
        ({"pretraining": {"corpus_sha256": [1]}}, "pretraining.corpus_sha256 must be str or null, found [1]"),
        ({"row": record().row | {"card": {"extensions": 5}}}, "row.card.extensions must be list or null, found 5"),
        (
            {"row": record().row | {"card": {"extensions": ["x", {}]}}},
            "row.card.extensions must be str or null, found {}",
        ),
        ({"task": record().task | {"chance": 10**400}}, "task.chance is larger than the largest number"),
        ({"predictions": {"file": "../x", "sha256": ""}}, "outside the run folder"),
        ({"extra": 1}, "unknown field 'extra'"),
    ],
)
def test_records_with_invalid_fields_are_rejected(tmp_path, changes, sentence):
    path = write(tmp_path, record())
    _reseal(path, **changes)
    with pytest.raises(RecordError, match=re.escape(sentence)):
        read(path)


def test_values_that_are_not_json_are_named(tmp_path):
    with pytest.raises(RecordError, match=r"cost\.model: object is not a JSON type"):
        write(tmp_path, record(cost={"model": object()}))
    assert not (tmp_path / "records").exists()


def test_hostile_names_stay_in_the_folder(tmp_path):
    hostile = record(name="../../../etc/passwd", task="..", adaptation={"name": "a/b\0c"})
    path = write(tmp_path, hostile)
    assert path.parent == tmp_path / "records"
    assert path.name.startswith("unnamed.etc-passwd.a-b-c.s0.")
    assert (
        slug("Größe «Welt»\u202e\x1b[31m") == "groe-welt-31m"
        and len(slug("x" * 500)) <= 48
        and slug("模型") == "unnamed"
    )


def test_store_lists_damaged_records(tmp_path):
    good = write(tmp_path / "a", record())
    write(tmp_path / "b", record())  # a copy of the same record in another run counts once
    write(tmp_path / "b", blank("error", "It broke.", "failed", seed=1))
    (good.parent / "zz.json").write_text("{")
    (good.parent / "list.json").write_text("[]")
    (good.parent / "deep.json").write_text("[" * 100_000)
    store = load([tmp_path / "a", tmp_path / "b"])
    assert [one.seed for one in store.records] == [0, 1]
    assert [one.file for one in store.damaged] == ["records/deep.json", "records/list.json", "records/zz.json"]
    assert load([tmp_path / "b", tmp_path / "a"]) == store
    assert len(load([tmp_path]).records) == 2  # a folder of runs
    with pytest.raises(RecordError, match="no folder"):
        load([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordError, match="no run wrote there"):
        load([tmp_path / "empty"])
