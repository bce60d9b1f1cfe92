"""The headline and the charts of the board, derived from the records."""

import re

import pytest

from ptmbench.leaderboard import board
from ptmbench.leaderboard.page import pictures
from ptmbench.leaderboard.page.story import Story
from ptmbench.leaderboard.records.record import write
from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.scores.contrast import gap
from ptmbench.leaderboard.scores.words import metric_of
from ptmbench.leaderboard.stats import Interval
from ptmbench.leaderboard.text import capitalize_first, duration
from tests.leaderboard.made import blank, record, world
from tests.leaderboard.test_contrast import one


def headline(made):
    return Story(arrange(made), None).headline()


def test_headline_names_the_leading_row_and_its_certainty():
    apart = headline([one("a", 80), one("b", 70), one("c", 60)])
    leads = "A leads on CoLA (Matthews correlation) with 80.0 (78.0 to 82.0)"
    assert apart == f"{leads} and is shown to be better than each of the 2 other rows."
    near = headline([one("a", 80), one("b", 79), one("c", 60)])
    assert near == f"{leads}, but B is not shown to be worse."
    assert headline([one("a", 80), one("b", 79)]).endswith("but is not shown to be better than the other row.")
    many = headline([one(name, 80 - i / 10) for i, name in enumerate("abcde")] + [one("f", 20)])
    assert "but 4 of the 5 other rows are not shown to be worse" in many
    assert headline([one("a", 80)]).endswith("and there is no other row to compare it with.")
    assert headline([blank("error", "It broke.", "failed")]) == ""


def test_an_oracle_baseline_is_a_ceiling_and_does_not_lead():
    oracle = dict(row={"label": "oracle sentences"}, kind="baseline")
    result = headline([record(name="oracle", value=90.0, **oracle), one("a", 80), one("b", 70)])
    assert result.startswith("A leads on ") and "better than the other row; the baseline “oracle sentences”" in result
    assert "which reads the gold answers, reaches 90.0" in result
    assert headline([record(name="oracle", value=90.0, **oracle)]).startswith("oracle sentences has 90.0")


def test_settings_of_an_adaptation_are_shown_as_words():
    names = ("stacked:beside=", "finetune:layers=top", "finetune", "multitask:beside=sst2+cola+epochs=2")
    made = [record(name="a", adaptation={"name": name}) for name in names]
    words = [row.words for row in arrange(made).rows]
    for wanted in ("stacked, beside=none", "fine-tuning, layers=top", "fine-tuning", "beside=sst2+cola, epochs=2"):
        assert any(one.endswith(wanted) for one in words), words


def test_metrics_in_a_headline_are_shown_as_words():
    assert metric_of("mcc") == "Matthews correlation" and metric_of("accuracy") == "accuracy"
    assert metric_of("accuracy+f1") == "mean of accuracy and F1"


def test_headline_summarises_the_gains_of_pretraining():
    made = []
    for name, gain in (("a", 10.0), ("b", 0.5), ("c", -9.0)):
        for seed in range(3):
            made.append(record(name=name, seed=seed, value=60.0 + gain + seed))
            made.append(record(name=name, seed=seed, value=60.0 + seed, kind="random"))
    story = Story(arrange(made), None)
    assert [round(one.gap.value, 6) for one in story.gains] == [10.0, 0.5, -9.0]
    assert story.gains[0].gap == gap(*(story.samples[row] for row in _pair(story, "a")))
    ours = "pre-training helped 1 of 3 rows, harmed 1 and had no clear effect on 1, with the largest gain for A: "
    assert f"{ours}+10.0 points (" in story.headline()
    single = headline([one for one in made if one.row["name"] == "b"])
    assert re.search(r"; pre-training had no clear effect on B: \+0\.5 points \(.*\)\.$", single)


def _pair(story, name):
    return sorted((row for row in story.samples if row.name == name), key=lambda row: row.kind)


def test_a_lower_perplexity_counts_as_a_gain():
    made = [
        record(task="wikitext2", value=v, kind=k, seed=s)
        for k, v in (("pretrained", 20.0), ("random", 50.0))
        for s in (0, 1)
    ]
    grid = arrange(made)
    story = Story(grid, grid.columns[0])
    assert story.gains[0].gap.value == 30.0 and next(iter(story.samples)).kind == "pretrained"


def test_chart_labels_overlap_neither_each_other_nor_points():
    points = [(100.0 + 7 * i, 200.0 + 3 * (i % 4)) for i in range(30)]
    texts = pictures._labels([f"model number {i}" for i in range(30)], points, points)
    shown = [re.search(r'x="([\d.]+)" y="([\d.]+)".*anchor="(\w+)">(.*)<', text).groups() for text in texts if text]
    boxes = []
    for x, y, anchor, words in shown:
        width = 7.1 * len(words)
        left = float(x) - {"start": 0, "middle": width / 2, "end": width}[anchor]
        boxes.append((left, float(y) - 7.5, left + width, float(y) + 7.5))
    assert 3 <= len(boxes) < 30
    for i, (left, top, right, bottom) in enumerate(boxes):
        assert not [1 for x, y in points if left < x < right and top < y < bottom]
        for other in boxes[:i]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_chart_labels_avoid_the_line_if_possible():
    points = [(200.0, 200.0), (600.0, 200.0)]
    crossed, clear = (pictures._labels(["one", "two"], points, points, line)[0] for line in ((), points))
    assert 'y="200.0"' in crossed and 'text-anchor="start"' in crossed
    assert 'y="200.0"' in clear and 'text-anchor="end"' in clear


def test_axes_do_not_magnify_rounding_noise():
    near = Interval(50.001, 50.003)
    points = [
        pictures.ScatterPoint(name=name, cost=cost, score=50.002, interval=near, kind="model", link=name)
        for name, cost in (("a", 10.0), ("b", 10.01))
    ]
    drawn = str(pictures.scatter(points))
    marks = [tuple(map(float, one)) for one in re.findall(r'<circle class="on" cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    assert abs(marks[0][0] - marks[1][0]) < 2
    levels = [float(one) for one in re.findall(r'text-anchor="end">([\d.]+)</text>', drawn)]
    assert max(levels) - min(levels) >= 2
    assert "10.0 s" in drawn and duration(0.04) == "40 ms" and duration(0.0042) == "4.2 ms"


@pytest.mark.parametrize(
    "seconds, ticks",
    [
        ((700.0, 1100.0), ["5 min", "10 min", "20 min"]),
        ((18.0, 240.0), ["20 s", "1 min", "2 min"]),
        ((5.0, 90_000.0), ["10 s", "1 min", "10 min", "1 h", "10 h"]),
    ],
)
def test_an_axis_of_times_has_several_ticks(seconds, ticks):
    points = [
        pictures.ScatterPoint(name=f"r{one}", cost=one, score=one % 7, interval=Interval(0, 7), kind="model", link="r")
        for one in seconds
    ]
    drawn = str(pictures.scatter(points))
    assert re.findall(r'text-anchor="middle">(.*?)</text>', drawn) == ticks


def test_a_folder_of_runs_has_one_page_per_run_and_an_index(tmp_path):
    for name, made in (("one", world(2)), ("Two & <b>", [one("a", 80), one("b", 70)])):
        for found in made:
            write(tmp_path / "runs" / name, found)
    index = board.build([tmp_path / "runs"], tmp_path / "site")
    assert {path.name for path in (tmp_path / "site").iterdir()} == {"index.html", "one.html", "two-b.html"}
    text = index.read_text()
    assert "Two &amp; &lt;b&gt;" in text and '<a href="two-b.html">' in text
    assert (
        "A leads on CoLA (Matthews correlation) with 80.0" in text
        and "A leads on CoLA" in (tmp_path / "site" / "two-b.html").read_text()
    )
    together = board.build([tmp_path / "runs" / "one", tmp_path / "runs" / "Two & <b>"], tmp_path / "both")
    assert {path.name for path in (tmp_path / "both").iterdir()} == {"index.html"} and "ELMo" not in text
    assert "CoNLL-2003" in together.read_text()


def test_a_label_in_capitals_is_not_cut_off_at_the_edge():
    """Capitals are wider. A label that would cross the right edge is placed to the left of its point."""
    x = pictures._WIDTH - 8 - 7.2 * len("ELECTRA")
    (small,), (large,) = (pictures._labels([name], [(x, 200.0)], [(x, 200.0)]) for name in ("electra", "ELECTRA"))
    assert 'text-anchor="start"' in small and 'text-anchor="end"' in large


def test_long_chart_labels_keep_the_parts_in_which_they_differ():
    model = "all-minilm-l6-v2 · 6x384 · fine-tuning"
    pruned = f"{model} · 50 % of heads removed, then quantised to int8"
    names = ["BERT", f"{model} · int8", pruned, f"{model} · pruned, seed 1", f"other {model} · pruned, seed 1"]
    short = pictures._shortened(names)
    assert short[:2] == ["BERT", "… · int8"] and short[2].startswith("… · 50 % of") and short[2].endswith("to int8")
    assert short[3].startswith("all-mini") and short[4].startswith("other all") and short[3].endswith("pruned, seed 1")
    assert max(map(len, short)) == 38


def test_headline_is_capitalised_unless_it_begins_with_a_name_with_digits():
    assert capitalize_first("bag of words leads") == "Bag of words leads" and capitalize_first("") == ""
    assert capitalize_first("all-minilm-l6-v2 · int8 leads") == "all-minilm-l6-v2 · int8 leads"
