"""Checkpoints: written completely or not at all, sealed, and never confused with other folders."""

import json
import os

import numpy as np
import pytest

from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.checkpoint import CheckpointError

ARRAYS = {
    "encoder/a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([1, 2], np.int64),
    "steps": np.array(7),
}


def write(folder, **about):
    return checkpoint.write(
        folder, about=about or {"kind": "pretrained"}, arrays={"weights": ARRAYS}, texts={"tokenizer.json": "{}"}
    )


def test_arrays_texts_and_metadata_survive_a_round_trip(tmp_path):
    write(tmp_path / "c", step=3)
    found = checkpoint.read(tmp_path / "c")
    assert found.about == {"step": 3}
    assert found.path("tokenizer.json").read_text() == "{}"
    arrays = found.arrays()
    assert arrays.keys() == ARRAYS.keys()
    assert all(
        (arrays[k] == v).all() and arrays[k].dtype == v.dtype and arrays[k].shape == v.shape for k, v in ARRAYS.items()
    )


def test_replacing_a_checkpoint_leaves_only_the_new_one(tmp_path):
    write(tmp_path / "c", step=1)
    write(tmp_path / "c", step=2)
    assert checkpoint.read(tmp_path / "c").about["step"] == 2
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_flipped_bit_is_detected_in_every_file(tmp_path):
    for name in ("weights.safetensors", "tokenizer.json", "manifest.json"):
        folder = tmp_path / name
        write(folder)
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
            found = checkpoint.read(folder)
            found.arrays()
            found.path("tokenizer.json")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 1}', "null"])
def test_invalid_manifests_are_rejected(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(CheckpointError, match="manifest.json"):
        checkpoint.read(tmp_path)


def test_a_checkpoint_of_an_unknown_format_is_rejected(tmp_path):
    write(tmp_path / "c")
    path = tmp_path / "c" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        checkpoint.read(tmp_path / "c")


def test_a_checkpoint_of_an_earlier_version_is_rejected(tmp_path):
    write(tmp_path / "c")
    path = tmp_path / "c" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": checkpoint.FORMAT - 1}))
    with pytest.raises(CheckpointError, match="made by an earlier version of ptmbench.* Make it again"):
        checkpoint.read(tmp_path / "c")


def test_file_names_cannot_leave_the_folder(tmp_path):
    write(tmp_path / "c")
    (tmp_path / "secret").write_text("x")
    with pytest.raises(CheckpointError, match="holds no"):
        checkpoint.read(tmp_path / "c").path("../secret")
    manifest = {"format": checkpoint.FORMAT, "about": {}, "files": {"../secret": "0" * 64}}
    (tmp_path / "c" / "manifest.json").write_text(json.dumps(manifest | {"seal": checkpoint._seal(manifest)}))
    with pytest.raises(CheckpointError):
        checkpoint.read(tmp_path / "c")


def test_a_folder_with_other_files_is_not_overwritten(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("important")
    with pytest.raises(CheckpointError, match="not overwritten"):
        write(tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter1.tex").read_text() == "important"


def test_the_newest_intact_state_is_found_and_a_damaged_one_reported(tmp_path):
    for step in (10, 20):
        write(tmp_path / f"step-{step:09d}", step=step)
    weights = tmp_path / "step-000000020" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    messages = []
    found, arrays = checkpoint.newest_intact(tmp_path, messages.append)
    assert found.about["step"] == 10
    assert (arrays["weights"]["b"] == ARRAYS["b"]).all()
    assert len(messages) == 1 and "step-000000020" in messages[0]


def test_states_are_ordered_by_number_beyond_nine_digits(tmp_path):
    for step in (999_999_998, 999_999_999, 1_000_000_000):
        checkpoint.write_state(tmp_path, step, about={"step": step}, arrays={"weights": ARRAYS})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-1000000000", "step-999999999"]
    found, _ = checkpoint.newest_intact(tmp_path, print)
    assert found.about["step"] == 1_000_000_000


def test_a_full_disk_leaves_no_partial_checkpoint(tmp_path, monkeypatch):
    def fail_to_write(path, content):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(checkpoint, "_write_synced", fail_to_write)
    with pytest.raises(OSError):
        write(tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_the_error_for_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def fail_to_sync(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_to_sync)
    with pytest.raises(OSError, match=r"No space left on device: '.*record\.json"):
        checkpoint.write_text(tmp_path / "record.json", "{}")


def test_the_names_of_files_are_synced_before_the_folder_is_renamed(tmp_path, monkeypatch):
    """After a power cut, no folder may exist without its files, because earlier states are deleted by then."""
    events, sync, rename = [], checkpoint._sync, os.rename
    monkeypatch.setattr(
        checkpoint, "_sync", lambda folder: (events.append((folder, len(list(folder.iterdir())))), sync(folder))
    )
    monkeypatch.setattr(os, "rename", lambda old, new: (events.append("rename"), rename(old, new)))
    write(tmp_path / "c")
    (inside, files), renamed, (outside, _) = events
    assert inside.parent == tmp_path and files == 3 and renamed == "rename" and outside == tmp_path
