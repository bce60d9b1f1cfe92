"""Loading of many records: shared parts and the index make it faster and do not change its result."""

import json
import os
import time

import pytest

from ptmbench.leaderboard import board
from ptmbench.leaderboard.records import index, store
from ptmbench.leaderboard.records.pieces import Pieces
from ptmbench.leaderboard.records.record import FOLDER, RecordError, read, write
from tests.leaderboard.made import blank, record, world

NAN = float("nan")


def every_kind():
    yield from world(2)
    yield record(name="nan", seed=7, scores={"headline": {"value": NAN, "low": float("-inf"), "high": None}})
    yield record(name="\u202e<é\u2028", row={"label": 'a " b\\'}, cost={"flops": float("inf")}, seed=8)
    yield blank("diverged", 'line\n "key": 1,', "diverged", name="x", task='t\n "row": {}', seed=9)


def test_shared_parts_give_the_same_records_as_full_parsing(tmp_path, monkeypatch):
    paths = [write(tmp_path, one) for one in every_kind()]
    pieces = Pieces()
    quick = [pieces.body(path.read_text()) for path in paths]
    assert all(quick), "a record that write() made was not understood"
    shared = [read(path, pieces) for path in paths]
    monkeypatch.setattr(Pieces, "body", lambda self, text: None)
    assert [repr(one) for one in shared] == [repr(read(path)) for path in paths]


def test_records_in_another_json_layout_are_read(tmp_path):
    path = write(tmp_path, record())
    expected = read(path)
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert Pieces().body(path.read_text()) is None and read(path) == expected


def test_parts_shared_with_another_record_do_not_hide_damage(tmp_path):
    pieces = Pieces()
    first, second = (write(tmp_path, record(seed=seed)) for seed in (0, 1))
    read(first, pieces)
    text = second.read_text()
    for changed in (text.replace('"seed": 1', '"seed": 0'), text.replace('"mini"', '"base"'), text[:-4], text * 2):
        second.write_text(changed)
        with pytest.raises(RecordError):
            read(second, pieces)


@pytest.fixture
def small_index(monkeypatch):
    monkeypatch.setattr(index, "LEAST", 1)


def run(folder, records):
    for one in records:
        write(folder, one)
    return folder


def test_index_gives_the_same_records_without_reading_the_files(tmp_path, small_index, monkeypatch):
    run(tmp_path, every_kind())
    first = store.load([tmp_path], remember=True)
    assert (tmp_path / FOLDER / index.NAME).is_file()
    calls = []
    monkeypatch.setattr(store, "read", lambda *a: calls.append(a) or read(*a))
    assert repr(store.load([tmp_path], remember=True)) == repr(first) == repr(store.load([tmp_path]))
    assert len(calls) == len(first.records)  # only the last load reads the files: it does not use the index
    (page,) = {board.render(s.records) for s in (first, store.load([tmp_path], remember=True))}
    assert page


def test_index_detects_a_changed_or_deleted_file(tmp_path, small_index):
    run(tmp_path, world(1))
    before = store.load([tmp_path], remember=True)
    path = sorted((tmp_path / FOLDER).glob("*.json"))[0]
    found, text = path.stat(), path.read_text()
    time.sleep(0.02)
    path.write_text(text.replace("2026-11-21", "2026-11-22"))  # the size stays the same
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))  # and so does the modification time
    after = store.load([tmp_path], remember=True)
    assert len(after.damaged) == 1 and len(after.records) == len(before.records) - 1
    path.unlink()
    assert len(store.load([tmp_path], remember=True).records) == len(before.records) - 1


@pytest.mark.parametrize("damage", [lambda text: text[:-9], lambda text: text.replace("bert", "bort"), lambda t: "é"])
def test_a_damaged_index_does_not_change_the_result(tmp_path, small_index, damage):
    run(tmp_path, world(1))
    expected = repr(store.load([tmp_path], remember=True))
    path = tmp_path / FOLDER / index.NAME
    path.write_text(damage(path.read_text()))
    assert repr(store.load([tmp_path], remember=True)) == expected == repr(store.load([tmp_path], remember=True))


def test_no_index_is_written_for_few_records(tmp_path):
    store.load([run(tmp_path, world(1))], remember=True)
    assert not (tmp_path / FOLDER / index.NAME).exists()


def test_a_folder_without_write_permission_can_be_loaded(tmp_path, small_index, monkeypatch):
    run(tmp_path, world(1))
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(PermissionError(13, "no")))
    assert store.load([tmp_path], remember=True).records
    assert [path.name for path in (tmp_path / FOLDER).iterdir() if path.name.startswith(".")] == []


@pytest.mark.slow
def test_page_of_twelve_thousand_records_is_small_and_built_in_seconds(tmp_path, monkeypatch):
    """60 models x 40 tasks x 5 seeds. Measures processor time, because the machine may have other load."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    for model in range(60):
        for task in range(40):
            for seed in range(5):
                value = 60 + model / 10 + task / 20 + (seed * 37 % 11) / 5
                write(tmp_path, record(task=f"task{task:02d}", name=f"model{model:02d}", seed=seed, value=value))
    sizes, spent = [], []
    for _ in range(2):
        start = time.process_time()
        sizes.append(board.build([tmp_path], tmp_path / "site").read_bytes())
        spent.append(time.process_time() - start)
    assert sizes[0] == sizes[1] and len(sizes[0]) < 3e6
    assert spent[0] < 12 and spent[1] < 3  # about 5 and 1.1 on a busy core: loading and rendering, without imports
