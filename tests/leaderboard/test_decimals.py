"""The number of decimals follows from the metric, on all pages and in all exports."""

import pytest

from ptmbench import tasks
from ptmbench.leaderboard import board, formats, tables
from ptmbench.leaderboard.text import decimals_of
from tests.leaderboard.ladders import rung
from tests.leaderboard.made import record
from tests.leaderboard.pages import Page

BITS = {"headline": "bits_per_byte", "title": "Bits per byte", "higher_is_better": False, "decimals": 2, "chance": 8.0}


def bits(name="gpt", seed=0, value=2.3456, **changes):
    narrow = {score: {"value": value, "low": value - 0.0211, "high": value + 0.0211} for score in ("headline",)}
    return record("bits_per_byte", name, seed, value, task_=BITS, scores=narrow, **changes)


def test_a_record_without_decimals_uses_those_of_its_metric():
    assert [decimals_of({"headline": name}) for name in ("f1", "perplexity", "bits_per_byte")] == [1, 1, 2]
    assert decimals_of({"headline": "f1", "decimals": 3}) == 3
    for odd in (True, -1, 2.0, "2", None, 10**6):
        assert decimals_of({"headline": "f1", "decimals": odd}) == 1


@pytest.mark.parametrize("name", ["bits_per_byte", "bits_per_byte-pseudo", "wikitext2", "sst2"])
def test_tasks_declare_their_decimals(name):
    assert tasks.load(name).decimals == (2 if name.startswith("bits") else 1)


def test_bits_per_byte_have_two_decimals_everywhere():
    made = [bits(), bits("gpt", value=2.5, kind="random"), record(name="gpt", value=61.234)]
    text = Page(board.render(made)).text
    assert "2.35" in text and "2.32 to 2.37" in text, "the table, and its whisker"
    assert "0: 2.346" in text, "the seeds of the drill-down have one more"
    assert "-0.15" in text and "8.00" in text, "what pre-training brought, and chance"
    assert "61.2" in text and "61.234" not in text, "percent keep one; the seeds have one more"
    assert tables.scores(made)["Bits per byte"].tolist().count("2.35 (1)") == 1
    assert "2.35" in formats.to_markdown(tables.scores(made)) and "2.346" not in formats.to_markdown(
        tables.scores(made)
    )


def test_gains_of_a_ladder_have_one_more_decimal_than_its_scores():
    made = [bits(value=value, pretraining=rung(c)) for c, value in ((1e12, 2.9), (1e13, 2.6), (1e14, 2.45))]
    text = Page(board.render(made)).text
    assert "1e12: 2.90, 1e13: 2.60, 1e14: 2.45" in text and "-0.090" in text
