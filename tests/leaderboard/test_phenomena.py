"""BLiMP by phenomenon: our means, the paradigms with a separate name in the files, and the published figures."""

import json

import pytest

from ptmbench.leaderboard import board, tables
from ptmbench.leaderboard.records.record import write
from ptmbench.leaderboard.scores import phenomena
from tests.leaderboard.made import record
from tests.tasks.folders import real


def scored(seed, name="gpt", source="official", **values):
    found = record(
        "blimp-100", name, seed, 60.0, adaptation={"name": "acceptability"},
        task_={"form": "minimal_pair", "chance": 50.0, "source": source},
    )  # fmt: skip
    found.scores.update({key.replace("s_s", "s-s"): {"value": v, "low": v, "high": v} for key, v in values.items()})
    return found


def test_rows_have_phenomenon_means_followed_by_published_figures():
    frame = tables.blimp(
        [scored(seed, binding=50.0 + seed, argument_structure=60.0, s_selection=80.0) for seed in (0, 1)]
    )
    ours, ngram = frame.iloc[0], frame.iloc[1]
    assert ours["binding"] == 50.5 and ours["seeds"] == 2 and ours["all pairs"] == 60.0
    assert ours["argument structure"] == pytest.approx((7 * 60 + 2 * 80) / 9)
    assert ours["ellipsis"] != ours["ellipsis"]  # NaN
    assert ngram["model"] == "5-gram" and ngram["all pairs"] == 61.2 and "Warstadt" in ngram["source"]
    assert len(frame) == 1 + len(phenomena.PUBLISHED)


def test_page_shows_published_figures_with_their_source(tmp_path):
    write(tmp_path / "run", scored(0, binding=50.0))
    page = board.build([tmp_path / "run"], tmp_path / "site").read_text(encoding="utf-8")
    section = page[page.index('<section id="blimp"') :]
    section = section[: section.index("</section>")]
    assert section.count("<tr") == 2 + len(phenomena.PUBLISHED) and "BabyLM challenge of 2023" in section


def test_no_table_without_phenomena_or_for_the_microworld():
    assert not len(tables.blimp([scored(0)])) and not len(tables.blimp([scored(0, source="microworld", binding=50.0)]))
    assert board.TABLES["blimp"] is tables.blimp


def test_published_figures_are_complete():
    for one in phenomena.PUBLISHED:
        assert len(one.values) == len(phenomena.PHENOMENA), one.name
        if one.source == phenomena.BABYLM:
            assert sum(one.values) / 12 == pytest.approx(one.overall, abs=0.06)


def test_figures_of_the_paper_equal_those_of_its_released_data():
    rows = [json.loads(line) for line in real("blimp", "raw_results", "summary", "models_summary.jsonl").open()]
    rows = [row for row in rows if row["UID"] != "overall"]
    for one, key in zip(phenomena.PUBLISHED, ("ngram", "lstm", "txl", "gpt2"), strict=False):
        assert one.overall == pytest.approx(100 * sum(row[key] for row in rows) / 67, abs=0.06)
        for name, value in zip(phenomena.PHENOMENA, one.values, strict=True):
            here = [row[key] for row in rows if row["linguistics_term"] == name]
            assert value == pytest.approx(100 * sum(here) / len(here), abs=0.06), (one.name, name)
