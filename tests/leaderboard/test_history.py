"""The history of cells from the git commits of a baseline, in the `history` command and on the board."""

import os
import re
import shutil
import subprocess

import pytest

from ptmbench.bench.__main__ import main
from ptmbench.leaderboard import board, past
from ptmbench.leaderboard.page import history as history_page
from ptmbench.leaderboard.records import history as histories
from ptmbench.leaderboard.records.baseline import accept
from ptmbench.leaderboard.records.history import HistoryError, history
from ptmbench.leaderboard.records.pack import PACK
from ptmbench.leaderboard.records.record import write
from tests.leaderboard.gates import unpacked
from tests.leaderboard.made import record

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
CELL = "bert-mini-finetune-cola"


def git(folder, *arguments):
    dates = {"GIT_AUTHOR_DATE": "2026-01-02T03:04:05+00:00", "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+00:00"}
    config = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *config, *arguments], cwd=folder, env=os.environ | dates, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def accepted(baseline, reason, *records, add=False, message=None):
    """Accepts ``records`` as the baseline, and commits it if there is a ``message``."""
    run = baseline.parent / f"run {len(list(baseline.parent.iterdir()))}"
    for one in records:
        write(run, one)
    accept(run, baseline, reason, add=add)
    if message:
        git(baseline, "add", ".")
        git(baseline, "commit", "-qm", message)


@pytest.fixture
def baseline(tmp_path):
    """A baseline in three commits: two seeds of a cell, a third seed, and a corrected one. A second cell never
    changes."""
    folder = tmp_path / "repository" / "baseline"
    folder.parent.mkdir()
    git(folder.parent, "init", "-q")
    first = [record(value=50.0 + seed, seed=seed) for seed in (0, 1)]
    accepted(folder, "First scores", *first, record(task="sst2", value=80.0), message="One")
    accepted(folder, "A third seed", record(value=55.0, seed=2), add=True, message="Two")
    newer = record(value=60.0, seed=0, finished="2026-11-22T03:00:00Z", key="f" * 64)
    kept = [record(value=51.0, seed=1), record(value=55.0, seed=2), record(task="sst2", value=80.0)]
    accepted(folder, "A corrected seed", newer, *kept, message="Three")
    return folder


def test_each_commit_that_changed_a_cell_has_score_change_and_reason(baseline):
    table = past.cells(baseline, f"#cell-{CELL}").lines
    assert [line[3] for line in table[1:]] == ["50.5", "52.0", "55.3"]
    assert [line[5:] for line in table[1:]] == [
        ("2 seeds", "2 seeds added", "First scores"),
        ("3 seeds", "1 seed added", "A third seed"),
        ("3 seeds", "1 seed measured again", "A corrected seed"),
    ]
    assert {line[2] for line in table[1:]} == {"2026-01-02"} and all(" to " in line[4] for line in table[1:])
    commits = git(baseline, "log", "--reverse", "--format=%H").split()
    assert [line[1] for line in table[1:]] == [commit[:10] for commit in commits]
    assert [line[2:4] for line in past.commits(baseline).lines[1:]] == [("3", "2"), ("4", "1"), ("4", "1")]


def test_loose_records_of_earlier_versions_count_as_unchanged(baseline):
    unpacked(baseline)
    git(baseline, "add", "-A", ".")
    git(baseline, "commit", "-qm", "Loose")
    assert len(history(baseline).versions) == 4 and len(past.cells(baseline, CELL).lines) == 4
    assert history(baseline).versions[-1].reason == "A corrected seed"


def test_uncommitted_changes_come_last(baseline):
    accepted(baseline, "Not yet", record(value=70.0, seed=3), add=True)
    last = past.cells(baseline, CELL).lines[-1]
    assert last[1:3] == ("not committed", "") and last[6:] == ("1 seed added", "Not yet")


def test_scores_of_other_task_versions_are_left_out_of_the_history(baseline):
    newer = [record(value=90.0 + seed, seed=seed, task_={"version": 2}) for seed in (0, 1)]
    accepted(baseline, "CoLA in version 2", *newer, message="Four")
    table = past.cells(baseline, CELL).lines
    assert [line[3] for line in table[1:]] == ["90.5"]


def test_a_removed_cell_that_is_added_again_has_a_line_without_record(baseline):
    accepted(baseline, "CoLA alone", *(record(value=50.0 + seed, seed=seed) for seed in (0, 1)), message="Four")
    accepted(baseline, "SST-2 again", record(task="sst2", value=81.0), add=True, message="Five")
    table = past.cells(baseline, "sst2").lines
    assert [line[3] for line in table[1:]] == ["80.0", "no record", "81.0"]
    assert [line[6] for line in table[1:]] == ["1 seed added", "1 seed removed", "1 seed added"]


def test_drill_down_shows_cells_that_several_commits_changed(baseline, tmp_path):
    source = board.build([baseline], tmp_path / "site").read_text()
    assert source.count("<tr class=past>") == 1 and "&lt;tr" not in source
    part = source[source.index("<tr class=past>") :].partition("</details>")[0]
    assert (
        source.index(f"<tr id=cell-{CELL}")
        < source.index("<tr class=past>")
        < source.index(f"<tr id=cell-{CELL[:-4]}sst2")
    )
    assert "3 commits changed this cell" in part and part.count("<li>") == 3 and "A corrected seed" in part
    assert re.search(r"<li>2026-01-02 [0-9a-f]{10}: <b>50.5</b> \(.* to .*\), 2 seeds; 2 seeds added", part)
    assert part.count("h0") == 3  # the dots of the chart
    assert board.build([baseline], tmp_path / "again").read_text() == source


def test_the_page_lists_the_newest_commits_of_a_long_history(baseline, tmp_path):
    for seed in range(3, 3 + history_page.SHOWN):
        accepted(baseline, f"Seed {seed}", record(value=55.0, seed=seed), add=True, message="Another")
    source = board.build([baseline], tmp_path / "site").read_text()
    part = source[source.index("<tr class=past>") :].partition("</details>")[0]
    count = 3 + history_page.SHOWN
    assert f"History: {count} commits changed this cell, the newest {history_page.SHOWN}</summary>" in part
    assert part.count("<li>") == part.count("h0") == history_page.SHOWN
    assert f"Seed {count - 1}" in part and "First scores" not in part
    assert f"The page lists the newest {history_page.SHOWN} of each cell" in source
    assert len(past.cells(baseline, CELL).lines) == 1 + count  # the command lists all commits


def test_history_of_two_commits_has_no_chart(baseline, tmp_path):
    newer = record(task="sst2", value=81.0, finished="2026-11-22T03:00:00Z", key="e" * 64)
    accepted(baseline, "SST-2 again", newer, add=True, message="Four")
    source = board.build([baseline], tmp_path / "site").read_text()
    parts = [part.partition("</details>")[0] for part in source.split("<tr class=past>")[1:]]
    assert [(part.count("<li>"), "<svg" in part) for part in parts] == [(3, True), (2, False)]


def test_reasons_are_escaped_on_the_page(baseline, tmp_path):
    accepted(baseline, "<script>x()</script>\x1b[31m", record(value=70.0, seed=3), add=True, message="Four")
    source = board.build([baseline], tmp_path / "site").read_text()
    assert "&lt;script&gt;x()" in source and "<script>x()" not in source and "\x1b" not in source


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("outside", "is not in a git repository, so it has no history"),
        ("not committed", "is in no commit, so it has no history yet"),
        ("without commits", "is in no commit, so it has no history yet"),
        ("a run", "is not a baseline, so it has no history"),
        ("no git", "needs git, which is not installed"),
        ("broken", "git cannot read the history of"),
    ],
)
def test_reason_for_a_missing_history_is_reported(case, words, baseline, tmp_path, monkeypatch, capsys):
    folder = baseline
    if case in ("outside", "not committed", "without commits"):
        folder = (tmp_path if case != "not committed" else baseline.parent) / "other"
        shutil.copytree(baseline, folder)
    if case == "without commits":
        git(tmp_path, "init", "-q")
    if case == "a run":
        folder = tmp_path / "run"
        write(folder, record())
    if case == "no git":
        monkeypatch.setenv("PATH", str(tmp_path))
    if case == "broken":
        commit = git(baseline, "rev-parse", "HEAD")
        (baseline.parent / ".git" / "objects" / commit[:2] / commit[2:]).unlink()
    with pytest.raises(HistoryError, match=words):
        history(folder)
    assert main(["history", str(folder)]) == 4 and words in capsys.readouterr().err
    page = " ".join(board.build([folder], tmp_path / "site").read_text().split())
    assert (words in page) is (case != "a run") and "<tr class=past>" not in page


def test_a_damaged_commit_is_reported_and_the_others_are_shown(baseline):
    good = (baseline / PACK).read_bytes()
    (baseline / PACK).write_bytes(good[:40])
    git(baseline, "commit", "-qam", "Damaged")
    (baseline / PACK).write_bytes(good)
    git(baseline, "commit", "-qam", "Mended")
    table = past.cells(baseline, CELL)
    assert len(table.lines) == 4
    assert [note for note in table.notes if "at commit" in note and "its manifest cannot be read" in note]


def test_a_shallow_clone_says_that_commits_are_missing(baseline, tmp_path):
    git(tmp_path, "clone", "-q", "--depth", "1", baseline.parent.as_uri(), "clone")
    found = history(tmp_path / "clone" / "baseline")
    assert len(found.versions) == 1 and "`git fetch --unshallow`" in found.notes[0]


def test_the_number_of_commits_read_is_limited_with_a_note(baseline, monkeypatch):
    monkeypatch.setattr(histories, "MOST", 2)
    found = history(baseline)
    assert [one.subject for one in found.versions] == ["Two", "Three"] and "more than 2 commits" in found.notes[0]


def test_the_command_prints_commits_or_cells(baseline, capsys):
    assert main(["history", str(baseline)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "commit\tdate\trecords\tcells changed\treason"
    assert main(["history", str(baseline), "CoLA"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["history", str(baseline), "sst"]) == 0 and main(["history", str(baseline), "mnli"]) == 4
    assert f"No cell of {baseline} is called 'mnli'." in capsys.readouterr().err
