"""The published results are complete, contain no data of the tasks, and match their pages."""

from pathlib import Path

import pytest

from ptmbench import leaderboard
from ptmbench.leaderboard import board
from ptmbench.leaderboard.records import courses
from ptmbench.leaderboard.records.baseline import verify
from ptmbench.leaderboard.records.pack import PACK
from ptmbench.leaderboard.records.store import load

RESULTS = Path(leaderboard.__file__).parent / "results"
FOLDERS = sorted(path for path in RESULTS.iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_results_are_complete_and_their_page_is_up_to_date(folder):
    assert verify(folder)
    assert {path.name for path in folder.iterdir()} - {courses.FILE} == {PACK}, "predictions quote the data"
    store = load([folder])
    assert store.records and not store.damaged
    for record in store.records:
        assert record.commit and not any(word.startswith(("/", "~")) for word in record.command.split())
    again = f"ptmbench board leaderboard/results/{folder.name} --format markdown"
    page = RESULTS / f"{folder.name}.md"
    assert page.read_text(encoding="utf-8") == board.text([folder]), f"`{again} > {page.name}` writes it anew"


def test_a_board_shows_all_results(tmp_path):
    overview = board.build([RESULTS], tmp_path).read_text(encoding="utf-8")
    for folder in FOLDERS:
        assert f'<a href="{folder.name}.html">' in overview
        shown = (tmp_path / f"{folder.name}.html").read_text(encoding="utf-8")
        for record in load([folder]).records:
            assert record.row["label"] in shown


def test_results_are_few_and_small_files():
    sizes = [path.stat().st_size for path in RESULTS.rglob("*") if path.is_file() and path.name != courses.FILE]
    assert len(sizes) == 2 * len(FOLDERS) + 1 and max(sizes) < 2**20 and sum(sizes) < 3 * 2**20
