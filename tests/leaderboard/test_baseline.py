"""The baseline: what was accepted is what is compared with, to the byte."""

import json
from pathlib import Path

import pytest

from leaderboard import board, index
from leaderboard.baseline import BaselineError, accept, verify
from leaderboard.gate import gate
from leaderboard.record import FOLDER, write
from tests.leaderboard.gates import cells, scorer, side
from tests.leaderboard.made import blank


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
    text = (tmp_path / "baseline" / "baseline.json").read_text()
    assert str(tmp_path) not in text and "author" not in text


def test_records_alone_can_be_accepted(tmp_path):
    run = side(tmp_path / "run", cells())
    for one in run.joinpath(FOLDER).glob("*.json"):
        kept = run / json.loads(one.read_text())["predictions"]["file"]
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("a sentence of the data")
    made = accept(run, tmp_path / "baseline", "To be published.", predictions=False)
    assert verify(tmp_path / "baseline") == made and len(made.files) == 5
    assert {path.name for path in (tmp_path / "baseline").iterdir()} == {FOLDER, "baseline.json"}
    assert gate(tmp_path / "baseline", run, lambda found, roots: None).status() == 0  # the same predictions, by hash


def test_a_board_may_leave_its_index_in_a_baseline(tmp_path, monkeypatch):
    made = accept(side(tmp_path / "run", cells(predictions=False)), tmp_path / "baseline", "Fine.")
    monkeypatch.setattr(index, "LEAST", 1)
    board.build([tmp_path / "baseline"], tmp_path / "page")
    assert (tmp_path / "baseline" / FOLDER / index.NAME).exists() and verify(tmp_path / "baseline") == made


def test_a_baseline_is_replaced_where_it_stands_and_behind_a_link(tmp_path, monkeypatch):
    run = side(tmp_path / "run", cells(predictions=False))
    made = accept(run, tmp_path / "baseline", "First.")
    (tmp_path / "link").symlink_to("baseline")
    monkeypatch.chdir(tmp_path / "baseline")
    for place in (Path("."), tmp_path / "link"):
        again = accept(run, place, "Again.")
        assert again.replaces == made.digest == again.digest and verify(tmp_path / "baseline") == again
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("how", ["changed", "added", "removed", "digest", "torn", "schema", "list"])
def test_a_tampered_baseline_is_noticed(tmp_path, how):
    run = side(tmp_path / "run", cells(predictions=False))
    baseline = tmp_path / "baseline"
    accept(run, baseline, "Fine.")
    file, manifest = next((baseline / FOLDER).glob("*.json")), baseline / "baseline.json"
    body = json.loads(manifest.read_text())
    if how == "changed":  # with a seal of its own that is right
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


def test_what_cannot_be_accepted(tmp_path):
    run = side(tmp_path / "run", cells())
    with pytest.raises(BaselineError, match="not beside the records.*--without-predictions"):
        accept(run, tmp_path / "baseline", "Predictions are gone.")
    kept = run / json.loads(next((run / FOLDER).glob("*.json")).read_text())["predictions"]["file"]
    kept.parent.mkdir()
    kept.write_text("others")
    with pytest.raises(BaselineError, match="predictions file of its record"):
        accept(run, tmp_path / "baseline", "Predictions of something else.")
    assert not (tmp_path / "baseline").exists() and not list(tmp_path.glob(".baseline*"))
    good = side(tmp_path / "good", cells(predictions=False))
    with pytest.raises(BaselineError, match="needs a reason"):
        accept(good, tmp_path / "baseline", " \n")
    with pytest.raises(BaselineError, match="not empty and no baseline"):
        accept(good, tmp_path / "run", "Wrong folder.")
    with pytest.raises(BaselineError, match="no record with a score"):
        accept(side(tmp_path / "none", [blank("x", "y")]), tmp_path / "baseline", "Nothing.")
    file = next((good / FOLDER).glob("*.json"))
    file.write_text(file.read_text()[:200])
    with pytest.raises(BaselineError, match="is damaged, so nothing was accepted"):
        accept(good, tmp_path / "baseline", "Torn.")
