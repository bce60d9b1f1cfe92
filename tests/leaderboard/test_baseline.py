"""Tests that the gate compares with exactly the records that were accepted as the baseline."""

import gzip
import hashlib
import json
import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ptmbench.leaderboard import board
from ptmbench.leaderboard.gate.gate import gate
from ptmbench.leaderboard.records import index, pack
from ptmbench.leaderboard.records.baseline import BaselineError, accept, recover, verify
from ptmbench.leaderboard.records.pack import PACK
from ptmbench.leaderboard.records.record import FOLDER, write
from ptmbench.leaderboard.records.store import load
from tests.leaderboard.gates import cells, scorer, side, unpacked
from tests.leaderboard.made import blank, record


def test_baseline_is_content_addressed(tmp_path):
    run = side(tmp_path / "run", cells(predictions=False))
    made = accept(run, tmp_path / "baseline", "First\x1b[31m scores.")
    assert verify(tmp_path / "baseline") == made and made.replaces is None and "\x1b" not in made.reason
    assert accept(run, tmp_path / "copy", "Other words.").digest == made.digest
    other = side(tmp_path / "other", cells(salt=4, predictions=False))
    again = accept(other, tmp_path / "baseline", "Better.")
    assert again.digest != made.digest and again.replaces == made.digest
    found = gate(tmp_path / "baseline", other, scorer)
    assert found.baseline["reason"] == "Better." and found.status() == 0
    assert verify(run) is None
    text = gzip.decompress((tmp_path / "baseline" / PACK).read_bytes()).decode()
    assert str(tmp_path) not in text and "author" not in text


def test_records_can_be_accepted_without_predictions(tmp_path):
    run = side(tmp_path / "run", cells())
    for one in run.joinpath(FOLDER).glob("*.json"):
        kept = run / json.loads(one.read_text())["predictions"]["file"]
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("a sentence of the data")
    made = accept(run, tmp_path / "baseline", "To be published.", predictions=False)
    assert verify(tmp_path / "baseline") == made and len(made.files) == 5
    assert {path.name for path in (tmp_path / "baseline").iterdir()} == {PACK}
    assert gate(tmp_path / "baseline", run, lambda found, roots: None).status() == 0  # the same predictions, by hash


def test_index_of_a_board_does_not_invalidate_a_loose_baseline(tmp_path, monkeypatch):
    made = accept(side(tmp_path / "run", cells(predictions=False)), tmp_path / "baseline", "Fine.")
    unpacked(tmp_path / "baseline")
    monkeypatch.setattr(index, "LEAST", 1)
    board.build([tmp_path / "baseline"], tmp_path / "page")
    assert (tmp_path / "baseline" / FOLDER / index.NAME).exists() and verify(tmp_path / "baseline") == made


def test_baseline_is_replaced_in_the_working_directory_and_behind_a_symlink(tmp_path, monkeypatch):
    run = side(tmp_path / "run", cells(predictions=False))
    made = accept(run, tmp_path / "baseline", "First.")
    (tmp_path / "link").symlink_to("baseline")
    monkeypatch.chdir(tmp_path / "baseline")
    for place in (Path("."), tmp_path / "link"):
        again = accept(run, place, "Again.")
        assert again.replaces == made.digest == again.digest and verify(tmp_path / "baseline") == again
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("how", ["changed", "added", "removed", "digest", "torn", "schema", "list"])
def test_a_tampered_loose_baseline_is_detected(tmp_path, how):
    run = side(tmp_path / "run", cells(predictions=False))
    baseline = tmp_path / "baseline"
    made = accept(run, baseline, "Fine.")
    assert verify(unpacked(baseline)) == made
    file, manifest = next((baseline / FOLDER).glob("*.json")), baseline / "baseline.json"
    body = json.loads(manifest.read_text())
    if how == "changed":  # to a record with a valid seal
        file.unlink()
        write(baseline, next(cells(level=0.1, predictions=False)))
    elif how == "added":
        write(baseline, next(cells(task="cola", predictions=False)))
    elif how == "removed":
        file.unlink()
    elif how == "digest":
        manifest.write_text(json.dumps(body | {"digest": "0" * 64}))
    elif how == "torn":
        manifest.write_text(manifest.read_text()[:-30])
    elif how == "schema":
        manifest.write_text(json.dumps(body | {"schema": 2}))
    else:
        manifest.write_text("[1, 2]")
    with pytest.raises(BaselineError, match="baseline"):
        gate(baseline, run, scorer)


@pytest.mark.parametrize("how", ["changed", "added", "removed", "loose", "digest", "torn", "schema", "list", "end"])
def test_a_tampered_packed_baseline_is_detected(tmp_path, how):
    run = side(tmp_path / "run", cells(predictions=False))
    file = tmp_path / "baseline" / PACK
    accept(run, file.parent, "Fine.")
    found = pack.read(file)
    records, manifest = dict(found.records), dict(found.manifest)
    name = next(iter(records))
    other = write(tmp_path / "other", next(cells(level=0.1, predictions=False))).read_bytes()
    if how == "changed":
        records[name] = other
    elif how == "added":
        records["x.json"] = other
    elif how == "removed":
        del records[name]
    elif how == "loose":
        write(file.parent, next(cells(task="cola", predictions=False)))
    elif how == "digest":
        manifest["digest"] = "0" * 64
    elif how == "schema":
        manifest["schema"] = 2
    elif how == "list":
        manifest["files"] = [1, 2]
    content = pack.packed(manifest, records)
    file.write_bytes(content[:-9] if how == "torn" else content[:-5] + b"12345" if how == "end" else content)
    with pytest.raises(BaselineError, match="baseline"):
        gate(file.parent, run, scorer)


def test_accept_rejects_invalid_runs_reasons_and_folders(tmp_path):
    run = side(tmp_path / "run", cells())
    with pytest.raises(BaselineError, match="missing next to the records.*--without-predictions"):
        accept(run, tmp_path / "baseline", "Predictions are gone.")
    first = min((run / FOLDER).glob("*.json"))
    kept = run / json.loads(first.read_text())["predictions"]["file"]
    kept.parent.mkdir()
    kept.write_text("others")
    with pytest.raises(BaselineError, match="predictions file of its record"):
        accept(run, tmp_path / "baseline", "Predictions of something else.")
    assert not (tmp_path / "baseline").exists() and not list(tmp_path.glob(".baseline*"))
    good = side(tmp_path / "good", cells(predictions=False))
    with pytest.raises(BaselineError, match="needs a reason"):
        accept(good, tmp_path / "baseline", " \n")
    with pytest.raises(BaselineError, match="not empty, and is not a baseline"):
        accept(good, tmp_path / "run", "Wrong folder.")
    with pytest.raises(BaselineError, match="no record with a score"):
        accept(side(tmp_path / "none", [blank("x", "y")]), tmp_path / "baseline", "Nothing.")
    file = next((good / FOLDER).glob("*.json"))
    file.write_text(file.read_text()[:200])
    with pytest.raises(BaselineError, match="is damaged, so nothing was accepted"):
        accept(good, tmp_path / "baseline", "Torn.")


def killed_at(number, action):
    """Runs ``action`` in a separate process that kills itself before the file operation with this number. Returns
    whether it was killed. A file that is not yet synced to the disk is cut in half."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
        return os.WIFSIGNALED(status)
    left = [number]

    def count(event, arguments):
        written = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if written or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link"):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def truncate_before_sync(descriptor, sync=os.fsync):
        left[0] -= 1
        if left[0] == 0:
            if os.path.isfile(f"/proc/self/fd/{descriptor}"):
                os.truncate(f"/proc/self/fd/{descriptor}", os.fstat(descriptor).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        sync(descriptor)

    code = 1
    try:
        os.fsync = truncate_before_sync
        sys.addaudithook(count)
        action()
        code = 0
    finally:
        os._exit(code)


def kill_points(action, prepare):
    """Kills ``action`` at each of its file operations in turn, and yields after each kill."""
    for number in range(1, 1000):
        prepare()
        if not killed_at(number, action):
            return
        yield number


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="cuts files by their descriptors below /proc")
@pytest.mark.parametrize("there", [True, False])
def test_accept_survives_a_kill_at_any_file_operation(tmp_path, there):
    """After SIGKILL before any operation, either the old or the new baseline is complete and ``replaces`` is kept. The
    same command then has the same result as without the kill."""
    first = side(tmp_path / "first", cells(range(1), predictions=False))
    second = side(tmp_path / "second", cells(range(2), salt=4, predictions=False))
    home = tmp_path / "home"
    baseline = home / "baseline"
    old = accept(first, tmp_path / "old", "First.")
    expected = (accept(second, tmp_path / "new", "Second.").digest, old.digest if there else None)

    def prepare():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        if there:
            shutil.copytree(tmp_path / "old", baseline)

    def again():
        return accept(second, baseline, "Second.")

    seen = set()
    for number in kill_points(again, prepare):
        recover(baseline)
        found = verify(baseline)
        if found is None:
            assert not there and not baseline.exists()
        else:
            assert (found.digest, found.replaces) in ((old.digest, None), expected)
        seen.add(found and found.digest)
        if number % 3 == 0:
            killed_at(number // 2, again)  # killed again at another operation
        made = again()
        assert (made.digest, made.replaces) == expected and verify(baseline) == made
        assert [path.name for path in home.iterdir()] == ["baseline"]
        assert {path.name for path in baseline.iterdir()} == {PACK}
    assert seen == {old.digest if there else None, expected[0]} and number > 5


def test_next_reader_completes_an_interrupted_replacement(tmp_path):
    """Between the two renames, no folder has the name of the baseline."""
    run = side(tmp_path / "run", cells(range(2), predictions=False))
    old = accept(run, tmp_path / "baseline", "First.")
    (tmp_path / "baseline").rename(tmp_path / ".baseline.old")
    assert gate(tmp_path / "baseline", run, scorer).baseline["digest"] == old.digest
    new = accept(side(tmp_path / "other", cells(range(2), salt=3, predictions=False)), tmp_path / "new", "Second.")
    (tmp_path / "baseline").rename(tmp_path / ".baseline.old")
    shutil.copytree(tmp_path / "new", tmp_path / ".baseline.new")
    assert gate(tmp_path / "baseline", run, scorer).baseline["digest"] == new.digest
    assert not list(tmp_path.glob(".baseline*"))


def test_deleted_manifest_is_reported_and_accept_replaces_damaged_baselines(tmp_path):
    run = side(tmp_path / "run", cells(range(2), predictions=False))
    baseline = tmp_path / "baseline"
    warnings = []
    for what in ("baseline.json", FOLDER):
        made = accept(run, baseline, "Fine.", warn=warnings.append)
        unpacked(baseline)
        if what == FOLDER:
            next((baseline / FOLDER).glob("*.json")).unlink()
        else:
            (baseline / what).unlink()
        with pytest.raises(BaselineError, match="missing") as caught:
            gate(baseline, run, scorer)
        assert "replace it with `ptmbench accept`" in str(caught.value)
        with pytest.raises(BaselineError, match="missing"):
            gate(run, baseline, scorer)
        again = accept(run, baseline, "Anew.", warn=warnings.append)
        assert again.replaces == made.digest and verify(baseline) == again and "although it is damaged" in warnings[-1]
    (baseline / PACK).write_bytes((baseline / PACK).read_bytes()[:30])
    with pytest.raises(BaselineError, match="digest is lost.*delete .*baseline and run the same command again"):
        accept(run, baseline, "Lost.")
    shutil.rmtree(baseline)
    assert accept(run, baseline, "Lost.").replaces is None


def test_accepting_the_same_run_again_changes_nothing(tmp_path):
    runs = [side(tmp_path / name, cells(range(2), salt=salt, predictions=False)) for salt, name in enumerate("ab")]
    first = accept(runs[0], tmp_path / "baseline", "First.")
    second = accept(runs[1], tmp_path / "baseline", "Second.")
    assert accept(runs[1], tmp_path / "baseline", "Second.") == second and second.replaces == first.digest
    assert verify(tmp_path / "baseline") == second


def test_accepting_the_same_records_again_packs_a_loose_baseline(tmp_path):
    """Only the format changes; the digest and the predecessor stay the same."""
    runs = [side(tmp_path / name, cells(range(2), salt=salt, predictions=False)) for salt, name in enumerate("ab")]
    baseline = tmp_path / "baseline"
    accept(runs[0], baseline, "First.")
    made = accept(runs[1], baseline, "Second.")
    content = (baseline / PACK).read_bytes()
    assert verify(unpacked(baseline)) == made
    assert accept(baseline, baseline, "Second.") == made == verify(baseline)
    assert (baseline / PACK).read_bytes() == content and {path.name for path in baseline.iterdir()} == {PACK}


def kept(folder, *groups):
    """Writes a run with records and their prediction files."""
    side(folder, *groups)
    (folder / "predictions").mkdir()
    for path in (folder / FOLDER).glob("*.json"):
        body = json.loads(path.read_text())
        (folder / body["predictions"]["file"]).write_text(body["key"])
    return folder


def with_known_hashes(*groups):
    """Yields records whose prediction files contain the key of the record, so that the hash is known."""
    for one in (one for group in groups for one in group):
        digest = hashlib.sha256(one.key.encode()).hexdigest()
        yield replace(one, predictions={"file": f"predictions/{one.key}.gz", "sha256": digest})


def test_records_are_added_to_a_baseline(tmp_path):
    baseline = tmp_path / "baseline"
    first = accept(kept(tmp_path / "a", with_known_hashes(cells(range(2)))), baseline, "First.")
    run = kept(tmp_path / "b", with_known_hashes(cells(range(3), task="cola", salt=1)))
    both = accept(run, baseline, "CoLA too.", add=True)
    assert both == verify(baseline) and both.replaces == first.digest
    assert len(load([baseline]).records) == 5 and len(both.files) == 10 and first.files.items() < both.files.items()
    assert accept(run, baseline, "CoLA too.", add=True) == both
    assert (
        accept(run, tmp_path / "new", "Nothing is there yet.", add=True).files.keys()
        == both.files.keys() - first.files.keys()
    )
    (baseline / "predictions" / "x").write_text("")
    with pytest.raises(BaselineError, match="is damaged, so nothing was added to it"):
        accept(run, baseline, "Once more.", add=True)
    assert accept(run, baseline, "Replaced as a whole.").files.keys() == both.files.keys() - first.files.keys()


def test_records_added_by_concurrent_processes_are_all_kept(tmp_path):
    baseline = tmp_path / "baseline"
    tasks = ("sst2", "cola", "mrpc", "rte")
    runs = [side(tmp_path / task, cells(range(3), task=task, predictions=False)) for task in tasks]
    children = []
    for run in runs:
        child = os.fork()
        if not child:
            try:
                accept(run, baseline, f"{run.name}.", add=True)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    assert {record.task["name"] for record in load([baseline]).records} == set(tasks)
    assert len(verify(baseline).files) == 12


def test_accept_warns_of_commands_with_paths_of_this_machine(tmp_path):
    run, warnings = tmp_path / "run", []
    commands = ("ptmbench run glue --data data --out a/b", "ptmbench run glue --data /srv/data --corpus '/srv/a b'")
    for seed, command in enumerate((*commands, "ptmbench evaluate ~/minilm", "ptmbench run glue --flops 1e14")):
        write(run, record(seed=seed, command=command))
    accept(run, tmp_path / "baseline", "Fine.", warn=warnings.append)
    assert len(warnings) == 1 and warnings[0].startswith(
        "The commands of 2 of 4 records name paths of this machine, such as "
    )
    assert "/srv/data" in warnings[0] or "~/minilm" in warnings[0]
    warnings.clear()
    write(tmp_path / "relative", record(command=commands[0]))
    accept(tmp_path / "relative", tmp_path / "other", "Fine.", warn=warnings.append)
    assert not warnings
