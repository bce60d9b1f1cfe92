"""The centred average, which maps chance to 0 and the best score to 100: figures by hand, and the tasks in it."""

import math

import pytest

from ptmbench.leaderboard import board, tables
from ptmbench.leaderboard.scores import centred
from ptmbench.leaderboard.scores.arrange import arrange
from tests.leaderboard import made


def pairs(name, seed, value, **changes):
    return made.record(
        "blimp", name, seed, value, adaptation={"name": "acceptability"},
        task_={"form": "minimal_pair", "chance": 50.0}, **changes,
    )  # fmt: skip


def records():
    """Yields records of BERT and GPT on pairs (chance 50), CoLA (chance 0), and CoNLL, where chance is the score of the
    majority baseline."""
    majority = {"row": {"label": "majority", "size": None}, "adaptation": {"name": "baseline", "settings": {}}}
    yield made.record("conll2003", "majority", 0, 20.0, "baseline", **majority)
    for name, scores in (("bert", (70, 40, 60)), ("gpt", (60, 20, 28))):
        for seed in (0, 1):
            yield pairs(name, seed, scores[0] + seed)
            yield made.record("cola", name, seed, scores[1] + seed)
            yield made.record("conll2003", name, seed, scores[2] + seed)
            yield made.blank("not-a-language-model", "because.", task="wikitext2", name=name, seed=seed)


def test_scores_are_rescaled_from_chance_to_the_best_score():
    grid = arrange(list(records()))
    assert {c.task["name"]: (s.chance, s.best) for c, s in centred.Centred(grid=grid).scales.items()} == {
        "blimp": (50.0, 100.0), "cola": (0.0, 100.0), "conll2003": (20.0, 100.0)
    }  # fmt: skip
    first, second = centred.lines(grid)
    assert (first.row.name, second.row.name) == ("bert", "gpt"), "pairs stand in the row of the fine-tuned model"
    step = (2 + 1 + 1.25) / 3  # one more point on each task
    assert first.summary.mean == pytest.approx((40 + 40 + 50) / 3 + step / 2)
    assert first.summary.sd == pytest.approx(step / math.sqrt(2))
    examples = (2 / 1.96) ** 2 * (2**2 + 1 + 1.25**2) / 9  # the interval of each record is +- 2 points
    size = math.sqrt(first.summary.sd**2 / 2 + examples)
    assert centred.Centred(grid=grid).error(first.row).size == pytest.approx(size, rel=1e-3)
    assert first.interval.low < first.summary.mean < first.interval.high


def test_unadapted_model_has_one_value_for_all_seeds_and_its_twin_one_per_seed():
    """A pre-trained model is scored on pairs once, its twins once per seed. The difference uses all twins."""
    twins = [pairs("bert", seed, value, kind="random") for seed, value in ((0, 40.0), (1, 60.0))]
    others = [
        made.record("cola", "bert", seed, 30.0 + seed, kind) for kind in ("pretrained", "random") for seed in (0, 1)
    ]
    grid = arrange([pairs("bert", 0, 70.0), *twins, *others])
    ((row, twin),) = tables.twin_rows(grid)
    column = next(column for column in grid.columns if column.task["name"] == "blimp")
    found = tables.twin_difference(grid, row, twin, column)
    assert (found.n, found.mean) == (2, 20.0) and found.sd == pytest.approx(200**0.5)
    assert [line.summary.n for line in centred.lines(grid)] == [2, 2]
    assert centred.lines(grid)[0].summary.mean == pytest.approx((40 + 30.5) / 2)


def test_scale_is_reversed_if_lower_is_better():
    scale = centred.Scale(chance=8.0, best=0.0)
    assert (scale(8.0), scale(2.0), scale(0.0)) == (0.0, 75.0, 100.0) and scale.slope == -12.5


def test_failed_cell_removes_the_rank_of_its_row_and_unfit_model_the_task():
    found = list(records())
    broken = made.blank("error", "It broke.", "failed", task="cola", name="elmo")
    grid = arrange([*found, broken, pairs("elmo", 0, 55.0), made.record("conll2003", "elmo", 0, 30.0)])
    assert [line.row.name for line in centred.lines(grid)] == ["bert", "gpt", "elmo"]
    assert centred.lines(grid)[-1].missing == ("CoLA",) and centred.lines(grid)[-1].rank is None
    unfit = made.blank("no-head", "because.", task="cola", name="elmo")
    assert {c.task["name"] for c in centred.Centred(grid=arrange([*found, unfit])).scales} == {"blimp", "conll2003"}


def test_boards_without_minimal_pairs_have_no_centred_average():
    plain = [record for record in records() if record.task["name"] != "blimp"]
    assert not centred.Centred(grid=arrange(plain)).scales and not len(tables.centred_average(plain))
    assert "Centred average" not in board.render(plain) and "CoNLL-2003 (chance 20)" in board.render(list(records()))
