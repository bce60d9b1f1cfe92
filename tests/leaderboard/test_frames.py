"""Data frames: fixed columns and types, and the same numbers as on the board."""

import math

import pandas as pd
import pytest

from ptmbench.leaderboard import tables
from ptmbench.leaderboard.scores import frames
from ptmbench.leaderboard.scores.arrange import arrange
from tests.leaderboard import made


@pytest.fixture(scope="module")
def world_records():
    return [*made.world()]


def types(frame):
    return {name: str(kind) for name, kind in frame.dtypes.items()}


@pytest.mark.parametrize(("frame", "columns"), [(frames.records, frames.RECORDS), (frames.means, frames.MEANS)])
def test_columns_and_types_do_not_depend_on_the_records(frame, columns, world_records):
    failed = [one for one in world_records if one.status != "ok"]
    assert failed and types(frame(world_records)) == types(frame(failed)) == types(frame([])) == columns


def test_records_frame_has_one_line_per_record(world_records):
    frame = frames.records(world_records)
    assert len(frame) == len(world_records) and frame.seed.tolist() == [one.seed for one in world_records]
    scored = frame[frame.status == "ok"]
    assert scored.score.tolist() == [one.headline["value"] for one in world_records if one.status == "ok"]
    assert scored.reason.isna().all() and (scored.low <= scored.score).all() and (scored.score <= scored.high).all()
    blank = frame[frame.status != "ok"]
    assert blank[["score", "low", "high"]].isna().all(axis=None) and blank.reason.notna().all()
    assert frame.finished.notna().all() and frame["size"].isna().sum() == (frame.kind == "baseline").sum()
    spent = [one.pretraining["flops"] if one.pretraining else math.nan for one in world_records]
    pd.testing.assert_series_equal(frame.flops_pretrain, pd.Series(spent, name="flops_pretrain", dtype="float64"))


def test_means_equal_those_of_the_board(world_records):
    frame, grid = frames.means(world_records), arrange(world_records)
    board = tables.cells(grid)
    board = board[board["reason code"] != "not-run"].reset_index(drop=True)
    assert len(frame) == len(board) == len(grid.cells)
    for ours, theirs in (("mean", "mean"), ("sd", "sd"), ("low", "low"), ("high", "high"), ("chance", "chance")):
        pd.testing.assert_series_equal(frame[ours], board[theirs].astype("float64"), check_names=False)
    assert frame.seeds.tolist() == board.seeds.tolist() and frame.title.tolist() == board.task.tolist()
    assert frame.label.tolist() == board.model.tolist() and frame.note.fillna("").tolist() == board.note.tolist()
    assert set(frame.task) == {one.task["name"] for one in world_records}


def test_means_equal_the_group_statistics_of_records(world_records):
    """`means` has the mean and standard deviation of each group of records, if every seed of the group has a score."""
    names = ["model", "size", "kind", "task", "adaptation"]
    ok = [one for one in world_records if one.status == "ok"]
    grouped = frames.records(ok).groupby(names, dropna=False).score.agg(["mean", "std"]).reset_index()
    joined = frames.means(ok).merge(grouped, on=names, suffixes=("", "_records"))
    assert len(joined) == len(grouped)
    pd.testing.assert_series_equal(joined["mean"], joined["mean_records"], check_names=False)
    pd.testing.assert_series_equal(joined["sd"], joined["std"], check_names=False)
