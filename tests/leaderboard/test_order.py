"""The comparison of the survey's order of models with ours."""

import pytest
from scipy.stats import kendalltau

from ptmbench.leaderboard import board, tables
from ptmbench.leaderboard.records.record import write
from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.survey import order
from tests.leaderboard.made import CARD, record

REPORTED = {"gpt": 72.8, "bert": 81.9, "t5": 89.7, "xlnet": 90.5, "elmo": None}
HERE = {"gpt": 60.0, "bert": 55.0, "t5": 50.0, "xlnet": 65.0, "elmo": 70.0}


def card(name):
    entry = {"task": "GLUE", "metric": "average", "value": REPORTED[name], "source": "table 2", "split": "test"}
    return CARD | {"title": name.upper(), "reported": [entry] if REPORTED[name] else []}


def world(scores=HERE, task="cola", **row):
    return [
        record(task=task, name=name, value=value, seed=seed, row={"card": card(name)} | row)
        for name, value in scores.items()
        for seed in (0, 1)
    ]


def orders_of(records):
    return {(one.rows, one.measure): one for one in order.orders(arrange(records))}


def test_models_with_a_reported_score_are_in_both_orders():
    (average, task) = orders_of(world()).values()
    assert (average.measure, task.measure) == (order.AVERAGE, "CoLA")
    assert average.survey == ("XLNET", "T5", "BERT", "GPT") and average.here == ("XLNET", "GPT", "BERT", "T5")
    assert average.tau == pytest.approx(kendalltau([72.8, 81.9, 89.7, 90.5], [60, 55, 50, 65]).statistic) == 0
    assert average.interval.low < -0.4 and average.interval.high > 0.4  # four models give a wide interval


def test_the_best_model_is_first_if_lower_is_better():
    order_here = {"gpt": 9.0, "bert": 7.0, "t5": 5.0, "xlnet": 3.0}
    (one,) = orders_of(world(order_here, "wikitext2")).values()
    assert one.here == one.survey == ("XLNET", "T5", "BERT", "GPT") and one.tau == pytest.approx(1)


def test_rows_of_another_size_have_a_separate_order():
    turned = {name: -value for name, value in HERE.items()}
    both = [*world(), *world(turned, size="tiny")]
    assert len({rows for rows, _ in orders_of(both)}) == 2


def test_too_few_models_and_twins_are_not_compared():
    few = {name: HERE[name] for name in ("gpt", "bert", "t5", "elmo")}
    assert not orders_of(world(few))
    assert not orders_of(world(kind="random"))


def test_tables_and_page_show_the_order(tmp_path):
    for one in world():
        write(tmp_path / "run", one)
    line = tables.survey_order(world()).to_dict("records")[0]
    assert (line["measure"], line["models"], line["order here"]) == (order.AVERAGE, 4, "XLNET, GPT, BERT, T5")
    page = board.build([tmp_path / "run"], tmp_path / "site").read_text()
    section = page[page.index('id="order"') :]
    assert "XLNET, GPT, BERT, T5" in section[: section.index("</section>")] and 'href="#order"' in page
    few = tmp_path / "few"
    for one in world({"gpt": 60.0}):
        write(few, one)
    assert 'id="order"' not in board.build([few], tmp_path / "site2").read_text()
