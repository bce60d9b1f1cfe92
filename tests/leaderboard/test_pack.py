"""A pack contains the same records as the loose files, byte for byte, and damage is always detected."""

import gzip
import json

import pytest

import ptmbench
from ptmbench.bench.__main__ import main
from ptmbench.leaderboard import board
from ptmbench.leaderboard.gate.gate import gate
from ptmbench.leaderboard.records import pack
from ptmbench.leaderboard.records.baseline import BaselineError, accept, verify
from ptmbench.leaderboard.records.pack import PACK
from ptmbench.leaderboard.records.record import FOLDER, RecordError
from ptmbench.leaderboard.records.store import load
from tests.leaderboard.gates import cells, scorer, side
from tests.leaderboard.made import blank, record, world

NAN = float("nan")


def every_kind():
    yield from world(1)
    yield record(name="nan", seed=7, scores={"headline": {"value": NAN, "low": float("-inf"), "high": None}})
    yield record(name="\u202e<é\u2028", row={"label": 'a " b\\'}, cost={"flops": float("inf")}, seed=8)
    yield blank("diverged", 'line\n}\n "key": 1,', "diverged", name="x", task='t\n "row": {}', seed=9)


@pytest.fixture
def both(tmp_path):
    """Two folders with the same records, loose and packed."""
    loose = side(tmp_path / "loose", every_kind())
    accept(loose, tmp_path / "packed", "Fine.", predictions=False)
    return loose, tmp_path / "packed"


def test_a_pack_is_the_concatenation_of_the_loose_files(both):
    loose, packed = both
    texts = [path.read_text() for path in sorted((loose / FOLDER).glob("*.json"))]
    plain = gzip.decompress((packed / PACK).read_bytes()).decode()
    assert plain.endswith("".join(texts)) and json.loads(plain.removesuffix("".join(texts)))["reason"] == "Fine."


def test_every_function_that_reads_a_folder_reads_a_pack(both, tmp_path, capsys):
    loose, packed = both
    assert repr(load([loose])) == repr(load([packed])) == repr(load([packed / PACK])) == repr(load([loose, packed]))
    pages = [board.build([one], tmp_path / one.name / "site").read_bytes() for one in both]
    note = b" packed is not in a git repository, so it has no history. Commit the folder after `accept`."
    assert note in pages[1] and pages[0] == pages[1].replace(note, b"")
    for format in board.FORMATS:
        assert board.text([loose], format) == board.text([packed], format)
    frames = [ptmbench.results(one) for one in both]
    assert frames[0].equals(frames[1]) and len(frames[0])
    printed = []
    for one in both:
        assert main(["board", str(one)]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_the_gate_accepts_a_pack_on_either_side(tmp_path):
    run = side(tmp_path / "run", cells(range(2), predictions=False))
    accept(run, tmp_path / "packed", "Fine.")
    sides = (run, tmp_path / "packed")
    found = [gate(base, head, scorer) for base in sides for head in sides]
    assert len({(one.verdict, one.reason, repr(one.cells)) for one in found}) == 1
    runs = tmp_path / "several"
    runs.mkdir()
    (tmp_path / "packed").rename(runs / "packed")
    side(runs / "loose", cells(range(2), task="cola", predictions=False))
    assert len(load([runs]).records) == 4


def test_the_same_records_are_packed_to_the_same_bytes(tmp_path):
    """The order of writing and the layout of the loose files do not matter."""
    ours = list(every_kind())
    one, other = side(tmp_path / "one", ours), side(tmp_path / "other", reversed(ours))
    for path in (other / FOLDER).glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()), indent=3))
    made = [accept(run, tmp_path / run.name / "baseline", "Fine.", predictions=False) for run in (one, other)]
    files = [(tmp_path / name / "baseline" / PACK).read_bytes() for name in ("one", "other")]
    assert made[0] == made[1] and files[0] == files[1] and files[0][4:10] == b"\0\0\0\0\x02\xff"  # no time, no system


def test_every_changed_byte_is_detected_and_intact_records_are_read(both):
    """Changes every 151st byte and the last one. The error names the file, and mostly the records. Undamaged records
    are still read."""
    _, packed = both
    file = packed / PACK
    content, whole = file.read_bytes(), {one.seal: repr(one) for one in load([packed]).records}
    intact_counts = []
    for place in (*range(0, len(content), 151), len(content) - 1):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        with pytest.raises(BaselineError, match="records"):
            verify(packed)
        found = load([packed])
        assert found.damaged and all(PACK in f"{one.file}{one.reason}" for one in found.damaged)
        assert all(whole[one.seal] == repr(one) for one in found.records)
        assert len(found.damaged) == 1 or len(found.records) + len(found.damaged) > len(whole)
        intact_counts.append(len(found.records))
    assert max(intact_counts) == len(whole) and len(set(intact_counts)) > 2


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_pack_names_the_lost_records(both, share):
    _, packed = both
    content, names = (packed / PACK).read_bytes(), sorted(pack.read(packed / PACK).records)
    (packed / PACK).write_bytes(content[: int(share * len(content))])
    found = load([packed])
    assert len(found.records) < len(names)
    if share >= 0.5:
        lost = [name for one in found.damaged if (name := one.file.partition("/")[2])]
        assert lost and lost == names[-len(lost) :] and all("ptmbench accept" in one.reason for one in found.damaged)
    else:
        assert len(found.damaged) == 1 and "manifest cannot be read" in found.damaged[0].reason


def test_a_decompression_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(pack, "_LARGEST", 2**20)
    side(tmp_path)
    (tmp_path / PACK).write_bytes(pack._HEAD + gzip.compress(b" " * 2**24, mtime=0)[10:])
    found = load([tmp_path])
    assert not found.records and PACK in found.damaged[0].reason


def test_a_folder_without_records_is_an_error(tmp_path):
    with pytest.raises(RecordError, match=f"holds no '{FOLDER}' folder and no {PACK}"):
        load([tmp_path])
